package import CountersignAPI
package import HTTPTypes
import Hummingbird
import NIOCore
package import Validation

/// An error as the caller sees it: `application/problem+json` (RFC 9457) with a stable code and a sentence.
///
/// A 4xx never stands for a fault of Apple's, of the store's or of ours: apps finish the StoreKit transaction on 4xx, and
/// the purchase would be lost.
package struct Problem: Error, Hashable {
  /// The stable codes, as the contract lists them.
  package enum Code: String, CaseIterable, Sendable {
    case malformedRequest = "malformed_request"
    case undecodableReceipt = "undecodable_receipt"
    case unauthenticated
    case forbidden
    case unknownTransaction = "unknown_transaction"
    case notFound = "not_found"
    case methodNotAllowed = "method_not_allowed"
    case requestTimeout = "request_timeout"
    case misdirectedRequest = "misdirected_request"
    case ownedByAnotherUser = "owned_by_another_user"
    case unknownUser = "unknown_user"
    case payloadTooLarge = "payload_too_large"
    case unsupportedMediaType = "unsupported_media_type"
    case rateLimited = "rate_limited"
    case wrongApp = "wrong_app"
    case notAuthentic = "not_authentic"
    case sandboxRefused = "sandbox_refused"
    case unknownOwnership = "unknown_ownership"
    case unsupportedReceipt = "unsupported_receipt"
    case idempotencyMismatch = "idempotency_mismatch"
    case limitReached = "limit_reached"
    case unknownFeature = "unknown_feature"
    case trialUsed = "trial_used"
    case trialNotNeeded = "trial_not_needed"
    case trialOver = "trial_over"
    case deviceTokenRefused = "device_token_refused"
    case offerNotForUser = "offer_not_for_user"
    case unknownCursor = "unknown_cursor"
    case internalError = "internal_error"
    case overloaded
    case ledgerUnavailable = "ledger_unavailable"
    case appStoreUnavailable = "app_store_unavailable"
    case authenticationUnavailable = "authentication_unavailable"

    var status: HTTPResponse.Status {
      switch self {
      case .malformedRequest, .undecodableReceipt: .badRequest
      case .unauthenticated: .unauthorized
      case .forbidden, .limitReached, .trialOver: .forbidden
      case .unknownTransaction, .notFound, .unknownFeature: .notFound
      case .methodNotAllowed: .methodNotAllowed
      case .requestTimeout: .requestTimeout
      case .misdirectedRequest: .misdirectedRequest
      case .ownedByAnotherUser, .unknownUser, .trialUsed, .trialNotNeeded, .offerNotForUser: .conflict
      case .unknownCursor: .gone
      case .payloadTooLarge: .contentTooLarge
      case .unsupportedMediaType: .unsupportedMediaType
      case .rateLimited: .tooManyRequests
      case .wrongApp, .notAuthentic, .sandboxRefused, .unknownOwnership, .unsupportedReceipt, .idempotencyMismatch,
        .deviceTokenRefused:
        .unprocessableContent
      case .internalError: .internalServerError
      case .overloaded, .ledgerUnavailable, .appStoreUnavailable, .authenticationUnavailable: .serviceUnavailable
      }
    }

    /// The page about the code, at this service: a problem's `type` is a URI reference (RFC 9457, section 3.1.1).
    var path: String { "/problems/\(rawValue)" }

    var title: String {
      switch self {
      case .malformedRequest: "The request is malformed"
      case .undecodableReceipt: "The receipt cannot be decoded"
      case .unauthenticated: "No valid credential"
      case .forbidden: "Not allowed for this caller"
      case .unknownTransaction: "Unknown transaction"
      case .notFound: "No such resource"
      case .methodNotAllowed: "Method not allowed"
      case .requestTimeout: "The request came too slowly"
      case .misdirectedRequest: "The request is for another host"
      case .ownedByAnotherUser: "The purchase belongs to another user"
      case .unknownUser: "The user is unknown"
      case .payloadTooLarge: "The body is too large"
      case .unsupportedMediaType: "The body has to be JSON"
      case .rateLimited: "Too many requests"
      case .wrongApp: "The receipt belongs to another app"
      case .notAuthentic: "The receipt is not authentic"
      case .sandboxRefused: "Sandbox purchases are not accepted"
      case .unknownOwnership: "The purchase may be somebody else's"
      case .unsupportedReceipt: "This kind of receipt is not supported"
      case .idempotencyMismatch: "The idempotency key was used for another request"
      case .limitReached: "The limit is reached"
      case .unknownFeature: "Unknown feature"
      case .trialUsed: "The trial was used before"
      case .trialNotNeeded: "The user has as high a tier without the trial"
      case .trialOver: "The trial is over"
      case .deviceTokenRefused: "Apple refuses the device token"
      case .offerNotForUser: "The offer is not for this user"
      case .unknownCursor: "The place in the list is unknown"
      case .internalError: "Internal error"
      case .overloaded: "The service is overloaded"
      case .ledgerUnavailable: "The ledger is unavailable"
      case .appStoreUnavailable: "The App Store is unavailable"
      case .authenticationUnavailable: "Users' tokens cannot be checked"
      }
    }

    /// Whether the same request may succeed later.
    var isRetryable: Bool { status.kind == .serverError || self == .rateLimited || self == .requestTimeout }

    /// The usual `Retry-After`, in seconds.
    fileprivate var retryAfter: Int? {
      switch self {
      case .overloaded, .requestTimeout: 1
      case .ledgerUnavailable, .authenticationUnavailable: 5
      case .appStoreUnavailable: 30
      default: nil
      }
    }
  }

  var code: Code
  package var detail: String
  /// Apple's status, where there was one.
  var appleStatus: Int?
  /// The methods that the resource knows, for a 405.
  var allow: [HTTPRequest.Method]
  /// `Retry-After`, in seconds.
  var retryAfter: Int?
  /// The feature whose limit is reached.
  var feature: FeatureResponse?

  package init(
    _ code: Code, _ detail: String, appleStatus: Int? = nil, allow: [HTTPRequest.Method] = [], retryAfter: Int? = nil,
    feature: FeatureResponse? = nil
  ) {
    self.code = code
    self.detail = detail
    self.appleStatus = appleStatus
    self.allow = allow
    self.retryAfter = retryAfter ?? code.retryAfter
    self.feature = feature
  }

  func response(requestID: String) -> Response {
    response(body(requestID: requestID), type: "application/problem+json", status: code.status)
  }

  /// A response with another body, and the headers that belong to the problem.
  func response(_ body: ByteBuffer, type: String, status: HTTPResponse.Status) -> Response {
    var headers: HTTPFields = [.contentType: type, .cacheControl: "no-store"]
    if let seconds = retryAfter, status.kind != .successful { headers[.retryAfter] = String(seconds) }
    if status == .unauthorized { headers[.wwwAuthenticate] = "Bearer" }
    if !allow.isEmpty { headers[.allow] = allow.map(\.rawValue).joined(separator: ", ") }
    return Response(status: status, headers: headers, body: .bytes(body))
  }

  func body(requestID: String) -> ByteBuffer {
    JSONBody.encode(
      ProblemDocument(
        type: code.path, title: code.title, status: code.status.code, detail: detail,
        code: code.rawValue, isRetryable: code.isRetryable, requestID: requestID, appleStatus: appleStatus,
        feature: feature))
  }
}

extension Problem {
  static let ledgerUnavailable = Problem(.ledgerUnavailable, "The ledger is unavailable now; try again.")
  static let nothingHere = Problem(.notFound, "There is nothing at this path.")

  /// The problem for a submission without a verdict.
  package init(_ error: ValidationError) {
    self =
      switch error {
      case .undecodableReceipt(let detail): Problem(.undecodableReceipt, detail)
      case .unreadableSignedData:
        Problem(
          .internalError,
          "Apple signed this data, and this version of the service cannot read it; nothing was recorded; try again.")
      case .unsupportedReceipt(let detail): Problem(.unsupportedReceipt, detail)
      case .notAuthentic(let detail, _): Problem(.notAuthentic, detail)
      case .wrongApp: Problem(.wrongApp, "The receipt is authentic, but of an app that this service does not serve.")
      case .keyOfAnotherApp:
        Problem(.internalError, "The purchase is of another app than the public key; nothing was recorded; try again.")
      case .sandboxRefused:
        Problem(
          .sandboxRefused, "The receipt is from Apple's sandbox, and this service does not accept it from this user.")
      case .ownedByAnotherUser:
        Problem(
          .ownedByAnotherUser,
          "This purchase is another user's: it was presented for them before, or made for them."
        )
      case .ofUnknownOwnership:
        Problem(
          .unknownOwnership,
          "Apple names an ownership of this purchase that this service does not know, so it belongs to no user.")
      case .unknownTransaction, .notAskable:
        Problem(
          .unknownTransaction,
          "No purchase with this original transaction ID is known; post the receipt or the signed transaction instead.")
      case .appStoreUnavailable:
        Problem(.appStoreUnavailable, "Apple could not be asked, so nothing was decided or recorded; try again.")
      case .clockBehind:
        Problem(
          .appStoreUnavailable,
          "The transaction is signed ahead of this service's clock, so nothing was decided or recorded; try again.")
      case .overloaded:
        Problem(.overloaded, "Too many requests of this kind are in flight; nothing was recorded; try again.")
      case .ledgerUnavailable: .ledgerUnavailable
      case .cancelled: Problem(.overloaded, "The validation was ended before it had an answer; try again.")
      case .heldBack: Problem(.internalError, "The verdict was held back.")
      }
    appleStatus = error.appleStatus
  }
}
