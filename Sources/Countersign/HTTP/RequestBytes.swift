import HTTPTypes
import Hummingbird
import NIOCore

/// Reads a body within its bounds: its own size, and the bytes that all bodies may take together.
struct RequestBytes: Sendable {
  /// The most bytes that one body may have.
  var limit: Int
  var budget: ByteBudget
  /// Whether the budget is drawn by the announced length, before the bytes are there. Not where anybody may announce one: it
  /// costs them nothing.
  var believesLength = true

  /// What was made of a body, and the bytes it takes of the budget. What is made of a receipt is as large as the receipt and
  /// lives until the answer is there, so the loan has to be kept that long.
  struct Read<Value> {
    var value: Value
    var loan: ByteBudget.Loan
  }

  /// - Throws: a problem: 415 for a body that is encoded, 413 for too large, 503 when too many bodies are in flight.
  func collect(_ request: Request) async throws -> Read<ByteBuffer> {
    if let coding = request.headers[.contentEncoding]?.lowercased(), coding != "identity" {
      throw Problem(.unsupportedMediaType, "Send the body as it is, without a Content-Encoding.")
    }
    let tooLarge = Problem(.payloadTooLarge, "A body may have at most \(limit) bytes.")
    let loan = budget.loan()
    let announced = request.headers[.contentLength].map { Int($0) ?? .max }
    if let announced {
      guard announced <= limit else { throw tooLarge }
      if believesLength, !loan.extend(by: announced) { throw Self.overBudget }
    }
    let isDrawn = announced != nil && believesLength
    var body = ByteBuffer()
    for try await part in request.body {
      guard body.readableBytes + part.readableBytes <= limit else { throw tooLarge }
      // What is not drawn already is drawn as the bytes come.
      if !isDrawn, !loan.extend(by: part.readableBytes) { throw Self.overBudget }
      body.writeImmutableBuffer(part)
    }
    return Read(value: body, loan: loan)
  }

  private static let overBudget = Problem(.overloaded, "Too many requests are being read at once; try again.")
}
