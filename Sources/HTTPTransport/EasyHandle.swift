import CCurl

/// Owns one libcurl easy handle (CURL *) with the memory lent to it, and collects the response of the request that it
/// carries. Belongs to the loop's thread.
///
/// Handles are reused. Options that all requests share are set once.
final class EasyHandle {
  let pointer: OpaquePointer
  private let settings: CurlTransport.Configuration
  /// CURL_ERROR_SIZE bytes, written by libcurl during a transfer.
  private let errorText: UnsafeMutableBufferPointer<CChar>
  private var resolve: UnsafeMutablePointer<curl_slist>?
  /// The headers of the last request, and libcurl's list of them.
  private var headers: [TransportHeader]?
  private var headerList: UnsafeMutablePointer<curl_slist>?

  private var head: ResponseHead
  private var body: [UInt8] = []
  private var bodyLimit = 0
  private var readsBody = true
  private var mayBeRepeated = false
  private var wasSent = false
  /// An address of the host is not of the public Internet.
  private var wasPrivate = false
  /// Why this side gave up; libcurl only reports that a callback refused.
  private var failure: TransportError?

  /// Bytes of a request that libcurl sends at a time; its minimum.
  private static let uploadBufferSize = 16 * 1_024
  /// The most bytes reserved because of a Content-Length.
  private static let reservationLimit = 1 << 20

  /// Sets the options that every request has in common.
  ///
  /// Security-relevant options are set even to their defaults: they must not depend on how libcurl was built.
  init(settings: CurlTransport.Configuration, share: OpaquePointer) throws(TransportError) {
    guard let pointer = curl_easy_init() else { throw .other(code: Int(CURLE_OUT_OF_MEMORY.rawValue)) }
    self.pointer = pointer
    self.settings = settings
    errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
    errorText.initialize(repeating: 0)
    head = ResponseHead(limit: settings.responseHeaderLimit)

    var setting = Setting(easy: pointer)
    let schemes = settings.allowedSchemes.map(\.rawValue).sorted().joined(separator: ",")
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
    setting.apply { ccurl_easy_set_share($0, share) }

    setting.number(CURLOPT_NOSIGNAL, 1)
    // Without it, ending a transfer waits for its name look-up and blocks all others.
    setting.number(CURLOPT_QUICK_EXIT, 1)
    setting.number(CURLOPT_CONNECTTIMEOUT_MS, settings.connectTimeout.millisecondsRoundedUp)
    setting.number(CURLOPT_MAXAGE_CONN, Int(settings.idleConnectionLifetime.components.seconds))
    setting.number(CURLOPT_TCP_KEEPALIVE, 1)
    setting.number(CURLOPT_HTTP_VERSION, Int(settings.http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1))
    setting.number(CURLOPT_HTTP09_ALLOWED, 0)
    setting.number(CURLOPT_HTTP_CONTENT_DECODING, 0)
    setting.string(CURLOPT_USERAGENT, settings.userAgent)
    // Each request in flight has this buffer: libcurl's default of 64 KiB is far more than most requests need. The
    // receive buffer keeps its 16 KiB: with less, libcurl 7.88 runs every HTTP/2 stream for each packet.
    setting.number(CURLOPT_UPLOAD_BUFFERSIZE, Self.uploadBufferSize)
    setting.pointer(CURLOPT_ERRORBUFFER, errorText.baseAddress)
    if !settings.resolve.isEmpty { setting.list(CURLOPT_RESOLVE, settings.resolve, keptIn: &resolve) }
    setting.callbacks(Unmanaged.passUnretained(self).toOpaque())
    if settings.refusesPrivateAddresses { setting.openSocket(Unmanaged.passUnretained(self).toOpaque()) }
    try setting.check()
  }

  deinit {
    curl_easy_cleanup(pointer)
    curl_slist_free_all(headerList)
    curl_slist_free_all(resolve)
    errorText.deallocate()
  }

  func begin(_ prepared: PreparedRequest) throws(TransportError) {
    let request = prepared.request
    var setting = Setting(easy: pointer)
    setting.string(CURLOPT_URL, request.url)
    // Waits to learn whether the host multiplexes instead of opening a connection for each request. The TLS handshake
    // tells; without TLS, libcurl would wait for the first response.
    setting.number(CURLOPT_PIPEWAIT, settings.http2 && prepared.isOverTLS ? 1 : 0)
    if headers != request.headers {
      var list: UnsafeMutablePointer<curl_slist>?
      setting.list(CURLOPT_HTTPHEADER, prepared.headerLines, keptIn: &list)
      curl_slist_free_all(headerList)
      headerList = list
      headers = request.headers
    }
    setting.method(request)
    try setting.check()
    bodyLimit = request.responseBodyLimit
    readsBody = request.readsBody
    mayBeRepeated = request.method == .get
  }

  func end() {
    // Frees libcurl's copy of the body.
    _ = ccurl_easy_set_pointer(pointer, CURLOPT_POSTFIELDS, nil)
    errorText[0] = 0
    head = ResponseHead(limit: settings.responseHeaderLimit)
    body = []
    wasSent = false
    wasPrivate = false
    failure = nil
  }

  /// The result of the transfer, after libcurl has finished it.
  func result(_ code: CURLcode) -> Result<TransportResponse, TransportError> {
    if let failure { return .failure(failure) }
    if wasPrivate, code == CURLE_COULDNT_CONNECT { return .failure(.privateAddress) }
    guard code == CURLE_OK || unreadResponse != nil else {
      return .failure(
        TransportError(
          code, nameWasResolved: nameWasResolved, wasSent: wasSent, headIsComplete: head.isComplete,
          headerLimit: settings.responseHeaderLimit, tlsReason: reason))
    }
    guard let response else { return .failure(.protocolViolation("the header block is incomplete")) }
    return .success(response)
  }

  /// The response to a caller who does not read the body, however that ends; `nil` before its status and headers.
  var unreadResponse: TransportResponse? { readsBody || failure != nil ? nil : response }

  /// The response as far as it came; `nil` before its status and headers.
  private var response: TransportResponse? {
    guard head.isComplete, let status = number(CURLINFO_RESPONSE_CODE), (200...999).contains(status) else { return nil }
    return TransportResponse(status: status, headers: head.headers, body: body)
  }

  /// Connections opened for the transfer: 0 when one was reused.
  var connectionsOpened: Int { number(CURLINFO_NUM_CONNECTS) ?? 0 }

  private var nameWasResolved: Bool {
    var microseconds: curl_off_t = 0
    return ccurl_easy_get_offset(pointer, CURLINFO_NAMELOOKUP_TIME_T, &microseconds) == CURLE_OK && microseconds > 0
  }

  /// libcurl's error text: printable ASCII, at most 200 bytes, as it can contain text of a peer's certificate.
  private var reason: String {
    let text = errorText.prefix { $0 != 0 }.prefix(200).map { UInt8(bitPattern: $0) }
    let printable = text.map { (0x20..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }
    return printable.isEmpty ? "handshake failed" : String(decoding: printable, as: UTF8.self)
  }

  private func number(_ info: CURLINFO) -> Int? {
    var value = 0
    return ccurl_easy_get_long(pointer, info, &value) == CURLE_OK ? value : nil
  }
}

// MARK: - Called by libcurl

extension EasyHandle {
  /// libcurl sends a request again, even a POST, when a reused connection turns out dead. Only a GET may be repeated.
  ///
  /// - Returns: whether to go on.
  fileprivate func willSend() -> Bool {
    defer { wasSent = true }
    return !wasSent || mayBeRepeated
  }

  /// - Returns: a new socket; `CURL_SOCKET_BAD` for an address that is refused.
  fileprivate func openSocket(_ address: UnsafePointer<curl_sockaddr>) -> curl_socket_t {
    let isPublic = withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 16) { bytes in
      bytes.initialize(repeating: 0)
      guard let start = bytes.baseAddress else { return false }
      return PublicAddress.contains(bytes.prefix(ccurl_address_bytes(address, start)))
    }
    guard isPublic else {
      wasPrivate = true
      return CURL_SOCKET_BAD
    }
    return ccurl_open_socket(address)
  }

  /// - Returns: whether to go on.
  fileprivate func takeHeader(_ line: UnsafeRawBufferPointer) -> Bool {
    do throws(TransportError) {
      try head.take(line)
    } catch {
      failure = error
      return false
    }
    if head.isComplete, body.isEmpty, let announced = head.contentLength {
      guard announced <= bodyLimit else { return leaveBody() }
      body.reserveCapacity(min(announced, Self.reservationLimit))
    }
    return true
  }

  /// - Returns: whether to go on.
  fileprivate func takeBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard bytes.count <= bodyLimit - body.count else { return leaveBody() }
    body.append(contentsOf: bytes)
    return true
  }

  /// Ends the transfer of a body that is too long: an error only if the caller reads the body.
  private func leaveBody() -> Bool {
    if readsBody { failure = .tooLarge(limit: bodyLimit) }
    return false
  }
}

/// Sets options one after another, and stops at the first failure.
private struct Setting {
  let easy: OpaquePointer
  private var code = CURLE_OK

  init(easy: OpaquePointer) { self.easy = easy }

  func check() throws(TransportError) {
    guard code == CURLE_OK else { throw .other(code: Int(code.rawValue)) }
  }

  mutating func apply(_ set: (OpaquePointer) -> CURLcode) {
    if code == CURLE_OK { code = set(easy) }
  }

  mutating func number(_ option: CURLoption, _ value: Int) {
    apply { easy in ccurl_easy_set_long(easy, option, value) }
  }

  /// libcurl copies the text.
  mutating func string(_ option: CURLoption, _ value: String?) {
    apply { easy in ccurl_easy_set_string(easy, option, value) }
  }

  mutating func pointer(_ option: CURLoption, _ value: UnsafeMutableRawPointer?) {
    apply { easy in ccurl_easy_set_pointer(easy, option, value) }
  }

  /// libcurl does not copy a list: the owner keeps it alive.
  mutating func list(_ option: CURLoption, _ lines: [String], keptIn list: inout UnsafeMutablePointer<curl_slist>?) {
    for line in lines {
      guard let longer = curl_slist_append(list, line) else {
        code = CURLE_OUT_OF_MEMORY
        return
      }
      list = longer
    }
    apply { easy in ccurl_easy_set_list(easy, option, list) }
  }

  /// libcurl copies the body, and sends a short one in one piece with the headers.
  mutating func method(_ request: TransportRequest) {
    if request.body.isEmpty && (request.method == .get || request.method == .delete) {
      number(CURLOPT_HTTPGET, 1)
    } else {
      apply { easy in ccurl_easy_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(request.body.count)) }
      request.body.withUnsafeBytes { body in
        // Without a pointer, libcurl would ask for a body of unknown length.
        let start = UnsafeMutableRawPointer(mutating: body.baseAddress) ?? UnsafeMutableRawPointer(easy)
        pointer(CURLOPT_COPYPOSTFIELDS, start)
      }
    }
    string(CURLOPT_CUSTOMREQUEST, request.method == .get || request.method == .post ? nil : request.method.rawValue)
  }

  mutating func openSocket(_ context: UnsafeMutableRawPointer) {
    pointer(CURLOPT_OPENSOCKETDATA, context)
    apply { easy in
      ccurl_easy_set_open_socket(easy) { context, _, address in
        guard let context, let address else { return CURL_SOCKET_BAD }
        return Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue().openSocket(address)
      }
    }
  }

  /// Any other return value of a write than the number of bytes makes libcurl abort.
  mutating func callbacks(_ context: UnsafeMutableRawPointer) {
    pointer(CURLOPT_PREREQDATA, context)
    apply { easy in
      ccurl_easy_set_prerequest(easy) { context, _, _, _, _ in
        guard let context else { return CURL_PREREQFUNC_ABORT }
        let handle = Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue()
        return handle.willSend() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
      }
    }
    pointer(CURLOPT_WRITEDATA, context)
    apply { easy in
      ccurl_easy_set_write(easy, CURLOPT_WRITEFUNCTION) { buffer, size, count, context in
        guard let context else { return 0 }
        let bytes = UnsafeRawBufferPointer(start: buffer, count: size * count)
        return Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue().takeBody(bytes) ? bytes.count : 0
      }
    }
    pointer(CURLOPT_HEADERDATA, context)
    apply { easy in
      ccurl_easy_set_write(easy, CURLOPT_HEADERFUNCTION) { buffer, size, count, context in
        guard let context else { return 0 }
        let bytes = UnsafeRawBufferPointer(start: buffer, count: size * count)
        return Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue().takeHeader(bytes) ? bytes.count : 0
      }
    }
  }
}
