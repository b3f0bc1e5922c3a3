import CCurl

extension TransportError {
  /// Maps libcurl's codes; the only place that does. The progress of the failed transfer determines a code's meaning.
  ///
  /// `CURLE_OPERATION_TIMEDOUT` is the connect timeout: the only one that libcurl is given. The loop enforces the
  /// deadline.
  ///
  /// - Parameter tlsReason: libcurl's text on a failed handshake. It names the host at most.
  init(
    _ code: CURLcode, nameWasResolved: Bool, wasSent: Bool, headIsComplete: Bool, headerLimit: Int, tlsReason: String
  ) {
    switch code {
    case CURLE_URL_MALFORMAT:
      self = .invalidRequest("libcurl refused the URL")
    case CURLE_LOGIN_DENIED:
      self = .invalidRequest("the URL has a user part")

    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY:
      self = .resolve

    case CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED, CURLE_NO_CONNECTION_AVAILABLE:
      self = .connect

    case CURLE_OPERATION_TIMEDOUT:
      self = nameWasResolved ? .connect : .resolve

    case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER,
      CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CRL_BADFILE, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_ENGINE_NOTFOUND,
      CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_ENGINE_INITFAILED, CURLE_SSL_INVALIDCERTSTATUS,
      CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_CLIENTCERT, CURLE_USE_SSL_FAILED:
      self = .tls(tlsReason)

    case CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_SEND_FAIL_REWIND,
      CURLE_HTTP2_STREAM, CURLE_SSL_SHUTDOWN_FAILED, CURLE_AGAIN:
      self = .reset
    case CURLE_ABORTED_BY_CALLBACK:
      // The connection ended before the response, and libcurl was kept from sending the request again.
      self = .reset

    case CURLE_UNSUPPORTED_PROTOCOL:
      // The scheme was checked before, so the cause is an HTTP/0.9 response.
      self = .protocolViolation("no status line")
    case CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING, CURLE_CHUNK_FAILED, CURLE_RANGE_ERROR:
      self = .protocolViolation("not HTTP")
    case CURLE_HTTP2, CURLE_HTTP3, CURLE_QUIC_CONNECT_ERROR:
      self = .protocolViolation("not HTTP/2")

    case CURLE_OUT_OF_MEMORY where !headIsComplete:
      // libcurl 7.88 reports this for a header line longer than its own 100 KB.
      self = .tooLarge(limit: headerLimit)

    default: self = .other(code: Int(code.rawValue))
    }

    // No connection for a second attempt, but the first was sent.
    guard wasSent else { return }
    switch self {
    case .resolve, .connect, .tls: self = .reset
    default: break
    }
  }
}
