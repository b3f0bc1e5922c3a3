import Entitlements

import struct FoundationEssentials.Date

/// The state of one purchase as OpenIAP reads it (`RequestVerifyPurchaseWithIapkitResult`).
struct OpenIAPAnswer: Encodable, Hashable {
  /// `PENDING_ACKNOWLEDGMENT` is Google's; `CONSUMED` only the app knows.
  enum State: String, Encodable {
    case entitled = "ENTITLED"
    case readyToConsume = "READY_TO_CONSUME"
    case canceled = "CANCELED"
    case expired = "EXPIRED"
    case unknown = "UNKNOWN"
    case inauthentic = "INAUTHENTIC"
  }

  var isValid: Bool
  var state: State
  let store = "apple"
  /// The product that the purchase is of now: a subscription may have been changed to another since.
  var productId: String?
  var environment: String?

  private enum CodingKeys: String, CodingKey { case isValid, state, store, productId, environment }

  init(state: State, productID: ProductID? = nil, environment: StoreEnvironment? = nil) {
    isValid = state == .entitled || state == .readyToConsume
    self.state = state
    productId = productID?.rawValue
    self.environment = environment.map { $0 == .production ? "Production" : "Sandbox" }
  }

  /// - Parameters:
  ///   - transaction: as it was posted.
  ///   - evidence: what is known of its purchase.
  ///   - verdict: on that purchase.
  ///   - kind: of its product; `nil` for one that the catalog does not have.
  init(
    _ transaction: Purchase, _ evidence: SubscriptionEvidence, _ verdict: Entitlement, kind: ProductKind?, at now: Date
  ) {
    let environment = evidence.key.environment
    if let product = verdict.productID {
      self.init(state: State(verdict), productID: product, environment: environment)
      return
    }
    // No tier hangs on it. It is genuine all the same, and the catalog may be wrong.
    let row = evidence.purchases.first { $0.transactionID == transaction.transactionID } ?? transaction
    let state: State =
      if evidence.isAccountGone || row.cancellationDate != nil {
        .canceled
      } else if let end = row.expiresDate {
        now < end ? .entitled : .expired
      } else {
        kind == .consumable ? .readyToConsume : .entitled
      }
    self.init(state: state, productID: row.productID, environment: environment)
  }
}

extension OpenIAPAnswer.State {
  fileprivate init(_ verdict: Entitlement) {
    if verdict.givesAccess {
      self = .entitled
    } else {
      switch verdict.reason {
      case .refunded, .revoked, .accountGone: self = .canceled
      default: self = .expired
      }
    }
  }
}

/// A failed call.
struct OpenIAPFailure: Encodable {
  struct Reason: Encodable {
    var code: String
    var message: String
    /// The path of the wrong member; always empty here.
    var path: [String] = []
  }

  var errors: [Reason]

  init(code: String, message: String) { errors = [Reason(code: code, message: message)] }
}
