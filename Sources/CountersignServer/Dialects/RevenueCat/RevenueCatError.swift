import HTTPTypes
import Hummingbird
import NIOCore

/// An error as RevenueCat's SDKs read it: JSON with a code of theirs and a sentence.
///
/// On `POST /v1/receipts` a 4xx makes the SDK finish the transaction and forget the purchase; it keeps what a 5xx
/// answers, and posts it again. So everything there that is not the purchase's own fault is a 503. It forgets
/// attributes as well, after any answer but a 404 and a 5xx.
struct RevenueCatError: Error {
  /// The codes of RevenueCat's backend that its SDKs distinguish.
  enum Code: Int, Encodable {
    case storeProblem = 7101
    case receiptInUse = 7102
    case invalidReceipt = 7103
    case internalError = 7110
    case emptyUserID = 7220
    case invalidAPIKey = 7225
    case badRequest = 7226
    case invalidUserID = 7256
    case notFound = 7259

    /// Whether it is the purchase's own fault: no later attempt can succeed.
    fileprivate var isAboutPurchase: Bool { self == .receiptInUse || self == .invalidReceipt }
  }

  var code: Code
  var problem: Problem

  /// A demand of RevenueCat's interface alone: the caller gets a 400 with this code.
  init(_ code: Code, _ message: String) {
    self.code = code
    problem = Problem(.malformedRequest, message)
  }

  init(_ problem: Problem) {
    code = Code(problem.code)
    self.problem = problem
  }

  private struct Body: Encodable {
    var code: Code
    var message: String
  }

  func response(path: String) -> Response {
    var status = problem.code.status
    if path == RevenueCatSDKController.receiptsPath {
      let isKept = problem.allow.isEmpty && status.kind != .serverError && !code.isAboutPurchase
      if isKept { status = .serviceUnavailable }
    } else if path.hasSuffix("/attributes") {
      status = code == .invalidAPIKey ? .serviceUnavailable : problem.passingStatus
    }
    return problem.response(Body(code: code, message: problem.detail), status: status)
  }
}

extension RevenueCatError.Code {
  fileprivate init(_ code: Problem.Code) {
    self =
      switch code {
      case .ownedByAnotherUser: .receiptInUse
      case .undecodableReceipt, .wrongApp, .notAuthentic, .sandboxRefused: .invalidReceipt
      case .appStoreUnavailable: .storeProblem
      case .unauthenticated, .forbidden: .invalidAPIKey
      case .notFound, .methodNotAllowed: .notFound
      case .malformedRequest, .payloadTooLarge, .unsupportedMediaType, .requestTimeout, .misdirectedRequest,
        .rateLimited, .unknownTransaction, .unsupportedReceipt, .idempotencyMismatch, .limitReached, .unknownFeature,
        .trialUsed, .trialNotNeeded, .trialOver, .deviceTokenRefused, .offerNotForUser, .unknownUser,
        .unknownCursor:
        .badRequest
      // A newer version may know the ownership.
      case .internalError, .unknownOwnership, .overloaded, .ledgerUnavailable, .authenticationUnavailable:
        .internalError
      }
  }
}
