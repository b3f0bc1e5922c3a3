import CCurl

/// One request in progress: its unsent bytes, and the bytes received so far. Belongs to the loop's thread.
final class CurlTransfer {
  let submission: Submission
  let handle: EasyHandle
  let startedAt: ContinuousClock.Instant
  private(set) var head: ResponseHead
  private(set) var body: [UInt8] = []
  /// Why this side gave up; libcurl only reports that a callback refused.
  private(set) var failure: TransportError?
  private var sent = 0

  /// The most bytes reserved because of a Content-Length.
  private static let reservationLimit = 1 << 20

  init(
    _ submission: Submission, handle: EasyHandle, startedAt: ContinuousClock.Instant, settings: CurlSettings
  ) {
    self.submission = submission
    self.handle = handle
    self.startedAt = startedAt
    head = ResponseHead(limit: settings.responseHeaderLimit)
  }

  /// - Returns: whether to go on.
  func takeHeader(_ line: UnsafeRawBufferPointer) -> Bool {
    do throws(TransportError) {
      try head.take(line)
    } catch {
      failure = error
      return false
    }
    if head.isComplete, body.isEmpty, let announced = head.contentLength {
      guard announced <= submission.request.responseBodyLimit else {
        failure = .tooLarge(limit: submission.request.responseBodyLimit)
        return false
      }
      body.reserveCapacity(min(announced, Self.reservationLimit))
    }
    return true
  }

  /// - Returns: whether to go on.
  func takeBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard bytes.count <= submission.request.responseBodyLimit - body.count else {
      failure = .tooLarge(limit: submission.request.responseBodyLimit)
      return false
    }
    body.append(contentsOf: bytes)
    return true
  }

  /// Fills the buffer with the next bytes of the request's body.
  ///
  /// - Returns: the number of bytes; 0 when all are sent.
  func giveBody(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
    let next = submission.request.body[sent...].prefix(buffer.count)
    buffer.copyBytes(from: next)
    sent += next.count
    return next.count
  }

  /// The result of the transfer, after libcurl has finished it.
  func result(_ code: CURLcode, settings: CurlSettings) -> Result<TransportResponse, TransportError> {
    if let failure { return .failure(failure) }
    guard code == CURLE_OK else {
      return .failure(
        TransportError(
          code,
          progress: TransportError.Progress(
            nameWasResolved: handle.nameWasResolved, headIsComplete: head.isComplete,
            headerLimit: settings.responseHeaderLimit, tlsReason: handle.reason)))
    }
    guard head.isComplete, let status = handle.status else {
      return .failure(.protocolViolation("the header block is incomplete"))
    }
    return .success(TransportResponse(status: status, headers: head.headers, body: body))
  }
}
