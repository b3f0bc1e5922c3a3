import HTTPTypes
import Hummingbird
import NIOCore

/// Reads a body within its bounds: its own size, and the bytes that all bodies may take together.
///
/// Bytes count as they arrive. `Content-Length` proves nothing, because announcing a body costs a caller nothing.
struct RequestBytes: Sendable {
  /// The most bytes that one body may have.
  var limit: Int

  /// A decoded body, and the loan for its bytes. A decoded receipt is as large as its text and lives until the answer is sent;
  /// keep the loan as long.
  struct Read<Value> {
    var value: Value
    var loan: ByteBudget.Loan
  }

  /// - Parameter loan: an empty loan from the budget that the body counts against.
  /// - Throws: a problem: 415 for an encoded body, 413 for one that is too large, 429 when the caller has too many bytes in
  ///   flight, 503 when all callers together have.
  func collect(_ request: Request, _ loan: ByteBudget.Loan) async throws -> Read<ByteBuffer> {
    if let coding = request.headers[.contentEncoding]?.lowercased(), coding != "identity" {
      throw Problem(.unsupportedMediaType, "Send the body as it is, without a Content-Encoding.")
    }
    let announced = request.headers[.contentLength].map { Int($0) ?? .max }
    if let announced, announced > limit { throw tooLarge }
    var body = ByteBuffer()
    for try await part in request.body {
      guard part.readableBytes <= limit - body.readableBytes else { throw tooLarge }
      do throws(ByteBudget.Shortage) { try loan.extend(by: part.readableBytes) } catch { throw Problem(error) }
      body.writeImmutableBuffer(part)
    }
    return Read(value: body, loan: loan)
  }

  private var tooLarge: Problem { Problem(.payloadTooLarge, "A body may have at most \(limit) bytes.") }
}

extension Problem {
  fileprivate init(_ shortage: ByteBudget.Shortage) {
    self =
      switch shortage {
      case .share:
        Problem(.rateLimited, "This caller sends more at once than it may; wait and try again.", retryAfter: 1)
      case .budget: Problem(.overloaded, "Too many requests are being read at once; try again.")
      }
  }
}
