import CCurl

/// Owns one libcurl easy handle (CURL *) with the lists and the error text lent to it. Belongs to the loop's thread.
///
/// Handles are reused: a reset costs less than a new one.
final class EasyHandle {
  let pointer: OpaquePointer
  /// CURL_ERROR_SIZE bytes, written by libcurl during a transfer.
  private let errorText: UnsafeMutableBufferPointer<CChar>
  private var headers: UnsafeMutablePointer<curl_slist>?
  private var resolve: UnsafeMutablePointer<curl_slist>?

  /// Bytes of a request that libcurl sends at a time; its minimum.
  private static let uploadBufferSize = 16 * 1_024

  /// `nil` when libcurl is out of memory.
  init?() {
    guard let pointer = curl_easy_init() else { return nil }
    self.pointer = pointer
    errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
    errorText.initialize(repeating: 0)
  }

  deinit {
    curl_easy_cleanup(pointer)
    curl_slist_free_all(headers)
    curl_slist_free_all(resolve)
    errorText.deallocate()
  }

  /// Clears the request, so that the handle can be reused.
  func reset() {
    curl_easy_reset(pointer)
    curl_slist_free_all(headers)
    curl_slist_free_all(resolve)
    headers = nil
    resolve = nil
    errorText.update(repeating: 0)
  }

  /// Sets all options for a transfer, which has to outlive its stay in the multi handle.
  ///
  /// Security-relevant options are set even to their defaults: they must not depend on how libcurl was built.
  func prepare(for transfer: CurlTransfer, settings: CurlSettings, share: OpaquePointer) -> CURLcode {
    let request = transfer.submission.request
    var setting = Setting(easy: pointer)

    setting.string(CURLOPT_URL, request.url)
    let schemes = settings.schemes.sorted().joined(separator: ",")
    setting.string(CURLOPT_PROTOCOLS_STR, schemes)
    setting.string(CURLOPT_REDIR_PROTOCOLS_STR, schemes)
    setting.number(CURLOPT_FOLLOWLOCATION, 0)
    setting.number(CURLOPT_DISALLOW_USERNAME_IN_URL, 1)
    setting.number(CURLOPT_PATH_AS_IS, 1)
    // An empty proxy disables proxies, including those of the environment.
    setting.string(CURLOPT_PROXY, "")
    setting.string(CURLOPT_NOPROXY, "*")
    setting.number(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))

    setting.number(CURLOPT_SSL_VERIFYPEER, 1)
    setting.number(CURLOPT_SSL_VERIFYHOST, 2)
    setting.number(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
    setting.string(CURLOPT_CAINFO, settings.caFile)
    // The built-in directory of Debian's libcurl would be trusted besides the file.
    setting.string(CURLOPT_CAPATH, nil)
    setting.share(share)

    setting.number(CURLOPT_NOSIGNAL, 1)
    // Without it, ending a transfer waits for its name look-up and blocks all others.
    setting.number(CURLOPT_QUICK_EXIT, 1)
    setting.number(CURLOPT_CONNECTTIMEOUT_MS, settings.connectTimeoutMilliseconds)
    setting.number(CURLOPT_MAXAGE_CONN, settings.idleConnectionSeconds)
    setting.number(CURLOPT_TCP_KEEPALIVE, 1)
    setting.number(CURLOPT_HTTP_VERSION, Int(settings.http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1))
    // Waits to learn whether the host multiplexes instead of opening a connection for each request. The TLS handshake
    // tells; without TLS, libcurl would wait for the first response.
    setting.number(CURLOPT_PIPEWAIT, settings.http2 && request.isOverTLS ? 1 : 0)
    setting.number(CURLOPT_HTTP09_ALLOWED, 0)
    setting.number(CURLOPT_HTTP_CONTENT_DECODING, 0)
    setting.string(CURLOPT_USERAGENT, settings.userAgent)
    setting.errorText(errorText.baseAddress)

    setting.list(CURLOPT_HTTPHEADER, request.headerLines, keptIn: &headers)
    if !settings.resolve.isEmpty { setting.list(CURLOPT_RESOLVE, settings.resolve, keptIn: &resolve) }
    setting.method(request)
    // Each request in flight has this buffer: libcurl's default of 64 KiB is far more than most requests need. The
    // receive buffer keeps its size: a handle whose transfer was aborted keeps the buffer and accepts no other size.
    setting.number(CURLOPT_UPLOAD_BUFFERSIZE, Self.uploadBufferSize)
    setting.callbacks(Unmanaged.passUnretained(transfer).toOpaque())
    return setting.code
  }

  /// The status of the final response.
  var status: Int? {
    number(CURLINFO_RESPONSE_CODE).flatMap { (200...999).contains($0) ? $0 : nil }
  }

  /// Connections opened for the transfer: 0 when one was reused.
  var connectionsOpened: Int { number(CURLINFO_NUM_CONNECTS) ?? 0 }

  var nameWasResolved: Bool {
    var microseconds: curl_off_t = 0
    return ccurl_easy_get_offset(pointer, CURLINFO_NAMELOOKUP_TIME_T, &microseconds) == CURLE_OK && microseconds > 0
  }

  /// libcurl's error text: printable ASCII, at most 200 bytes, as it can contain text of a peer's certificate.
  var reason: String {
    let text = errorText.prefix { $0 != 0 }.prefix(200).map { UInt8(bitPattern: $0) }
    let printable = text.map { (0x20..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }
    return printable.isEmpty ? "handshake failed" : String(decoding: printable, as: UTF8.self)
  }

  private func number(_ info: CURLINFO) -> Int? {
    var value = 0
    return ccurl_easy_get_long(pointer, info, &value) == CURLE_OK ? value : nil
  }
}

/// Sets options one after another, and stops at the first failure.
private struct Setting {
  let easy: OpaquePointer
  private(set) var code = CURLE_OK

  init(easy: OpaquePointer) { self.easy = easy }

  private mutating func apply(_ set: (OpaquePointer) -> CURLcode) {
    if code == CURLE_OK { code = set(easy) }
  }

  mutating func number(_ option: CURLoption, _ value: Int) {
    apply { easy in ccurl_easy_set_long(easy, option, value) }
  }

  /// libcurl copies the text.
  mutating func string(_ option: CURLoption, _ value: String?) {
    apply { easy in ccurl_easy_set_string(easy, option, value) }
  }

  mutating func share(_ share: OpaquePointer) { apply { easy in ccurl_easy_set_share(easy, share) } }

  mutating func errorText(_ buffer: UnsafeMutablePointer<CChar>?) {
    apply { easy in ccurl_easy_set_pointer(easy, CURLOPT_ERRORBUFFER, buffer) }
  }

  /// libcurl does not copy a list: the owner keeps it alive.
  mutating func list(
    _ option: CURLoption, _ lines: [String], keptIn list: inout UnsafeMutablePointer<curl_slist>?
  ) {
    for line in lines {
      guard let longer = curl_slist_append(list, line) else {
        code = CURLE_OUT_OF_MEMORY
        return
      }
      list = longer
    }
    apply { easy in ccurl_easy_set_list(easy, option, list) }
  }

  /// The body is read by a callback that cannot rewind, on purpose. libcurl resends a request, even a POST, when a
  /// reused connection turns out dead; this way it does so only if no byte of the body was sent.
  mutating func method(_ request: PreparedRequest) {
    if request.body.isEmpty && (request.method == .get || request.method == .delete) {
      number(CURLOPT_HTTPGET, 1)
    } else {
      number(CURLOPT_POST, 1)
      apply { easy in ccurl_easy_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(request.body.count)) }
    }
    string(CURLOPT_CUSTOMREQUEST, request.method == .get || request.method == .post ? nil : request.method.rawValue)
  }

  mutating func callbacks(_ context: UnsafeMutableRawPointer) {
    apply { easy in ccurl_easy_set_pointer(easy, CURLOPT_READDATA, context) }
    apply { easy in ccurl_easy_set_pointer(easy, CURLOPT_WRITEDATA, context) }
    apply { easy in ccurl_easy_set_pointer(easy, CURLOPT_HEADERDATA, context) }
    apply { easy in
      ccurl_easy_set_callback(easy, CURLOPT_READFUNCTION) { buffer, size, count, context in
        guard let buffer, let context else { return Int(CURL_READFUNC_ABORT) }
        return Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
          .giveBody(UnsafeMutableRawBufferPointer(start: buffer, count: size * count))
      }
    }
    // Any other return value than the number of bytes makes libcurl abort.
    apply { easy in
      ccurl_easy_set_callback(easy, CURLOPT_WRITEFUNCTION) { buffer, size, count, context in
        guard let context else { return 0 }
        let bytes = UnsafeRawBufferPointer(start: buffer, count: size * count)
        return Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue().takeBody(bytes) ? bytes.count : 0
      }
    }
    apply { easy in
      ccurl_easy_set_callback(easy, CURLOPT_HEADERFUNCTION) { buffer, size, count, context in
        guard let context else { return 0 }
        let bytes = UnsafeRawBufferPointer(start: buffer, count: size * count)
        return Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue().takeHeader(bytes) ? bytes.count : 0
      }
    }
  }
}
