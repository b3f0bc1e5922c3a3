import Entitlements
import Hummingbird
import NIOCore
import Resilience
import Validation

/// Apple's own shape, for old code that calls `verifyReceipt` and has a constant to change.
///
/// The answer is Apple's, byte for byte, and is recorded on the way. One URL asks both stores. The request's `password`
/// is a key of ours and authenticates the caller; Apple is asked with `app_store.shared_secret`.
///
/// https://developer.apple.com/documentation/appstorereceipts/verifyreceipt
struct VerifyReceiptController: DialectController {
  static let path = "/verifyReceipt"

  private let common: DialectParts
  private let body: JSONRequestBody

  init(_ common: DialectParts) {
    self.common = common
    // Apple does not look at the type, and URLSession's is that of a form.
    body = JSONRequestBody(limit: common.maxBody, requiresMediaType: false)
  }

  func addRoutes(to routes: Routes, authenticated: Routes) {
    // The credential is in the body.
    routes.serve(Self.path, [.post: verify])
  }

  /// https://developer.apple.com/documentation/appstorereceipts/requestbody
  private struct Posted: Decodable {
    var receipt: String?
    var password: String?
    var excludesOldTransactions: Flag?

    /// A boolean, or a text of one, which Apple takes as well; or 0 or 1. An empty text is none.
    struct Flag: Decodable {
      var value: Bool

      init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let value = try? container.decode(Bool.self) {
          self.value = value
          return
        }
        let text = try (try? container.decode(Int.self)).map(String.init) ?? container.decode(String.self)
        switch text.lowercased() {
        case "true", "1": value = true
        case "false", "0", "": value = false
        default: throw DecodingError.dataCorruptedError(in: container, debugDescription: "neither true nor false")
        }
      }
    }

    private enum CodingKeys: String, CodingKey {
      case receipt = "receipt-data"
      case password
      case excludesOldTransactions = "exclude-old-transactions"
    }
  }

  private func verify(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let read = try await body.decode(Posted.self, from: request, common.loan(for: context))
    defer { withExtendedLifetime(read.loan) {} }
    let posted = read.value
    let app = try app(presenting: posted.password, context)
    let submission = ReceiptSubmission(
      user: .nobody, proof: .receipt(posted.receipt ?? ""), requestID: context.requestID, app: app)
    let bytes = try await common.line.validation(of: context) { _ throws(ValidationError) in
      try await common.useCases.inspector.verifyReceiptAnswer(
        to: submission, excludesOldTransactions: posted.excludesOldTransactions?.value ?? false,
        logger: context.logger)
    }
    return Response(status: .ok, headers: [.contentType: "application/json"], body: .bytes(ByteBuffer(bytes: bytes)))
  }

  /// The app whose public key a password is; `nil` for a server's key.
  /// - Throws: a problem for any other password, and for a server over its rate.
  private func app(presenting password: String?, _ context: ServiceRequestContext) throws(Problem) -> BundleID? {
    guard let password, (1...Authentication.longestCredential).contains(password.utf8.count) else {
      throw .wrongPassword
    }
    if let server = common.keyring.caller(presenting: password) {
      guard server.roles.contains(.service) else { throw .wrongPassword }
      try common.limits.admit(.server(server), context)
      return nil
    }
    guard let key = common.keyring.app(presenting: password) else { throw .wrongPassword }
    return key.bundleID
  }

  /// Apple's statuses for what is no answer of Apple's. What is our own trouble is never one that makes an app drop the
  /// receipt.
  var errors: DialectErrors { Self.errors }

  static let errors = DialectErrors(
    covers: { $0 == path },
    response: { problem, _, _ in
      switch problem.code {
      case .undecodableReceipt: return problem.response(VerifyReceiptFailure(status: 21002), status: .ok)
      // Genuine or not, it is no receipt of an app of ours.
      case .notAuthentic, .wrongApp: return problem.response(VerifyReceiptFailure(status: 21003), status: .ok)
      case .unauthenticated, .forbidden: return problem.response(VerifyReceiptFailure(status: 21004), status: .ok)
      // As Apple's production says of the sandbox's.
      case .sandboxRefused: return problem.response(VerifyReceiptFailure(status: 21007), status: .ok)
      case .malformedRequest: return problem.response(VerifyReceiptFailure(status: 21000), status: .ok)
      case .methodNotAllowed, .payloadTooLarge, .unsupportedMediaType:
        return problem.response(VerifyReceiptFailure(status: 21000), status: problem.code.status)
      default:
        return problem.response(
          VerifyReceiptFailure(status: 21009, isRetryable: true),
          status: problem.code == .internalError ? .internalServerError : .serviceUnavailable)
      }
    })
}

/// An answer without a receipt.
struct VerifyReceiptFailure: Encodable {
  var status: Int
  var isRetryable: Bool?

  private enum CodingKeys: String, CodingKey {
    case status
    case isRetryable = "is-retryable"
  }
}

extension Problem {
  fileprivate static let wrongPassword = Problem(
    .unauthenticated, "'password' has to be a key of this service: one of role service, or a public key.")
}
