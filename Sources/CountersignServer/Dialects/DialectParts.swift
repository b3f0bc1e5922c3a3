import Access
import Entitlements
import Hummingbird
import Ledger
import Resilience
import Validation

import struct FoundationEssentials.Date

/// The parts of the native routes, which every dialect is made of.
struct DialectParts: Sendable {
  var useCases: UseCases
  var budgets: BodyBudgets
  var line: AdmissionQueue
  var limits: RequestLimits
  var keyring: APIKeyring
  var access: AccessController
  var trials: TrialsController
  var ledgerCheck: LedgerCheck
  /// Bytes of the largest request body.
  var maxBody: Int

  var now: @Sendable () -> Date { useCases.now }
}

extension DialectParts {
  /// The page on which customers of a store manage their subscriptions; nobody else can end one.
  ///
  /// https://support.apple.com/118223, https://support.google.com/googleplay/answer/7018481
  /// - Parameter store: as RevenueCat names it.
  static func managementURL(of store: String) -> String? {
    switch store {
    case "app_store", "mac_app_store": "https://apps.apple.com/account/subscriptions"
    case "play_store": "https://play.google.com/store/account/subscriptions"
    default: nil
    }
  }
}

/// Steps that the dialects share.
extension DialectParts {
  /// An empty loan for the body of a purchase, or of another call of an SDK.
  func loan(for context: ServiceRequestContext) -> ByteBudget.Loan {
    budgets.validation(by: context.caller, at: context.clientAddress)
  }

  /// Lets in a request of the user whom an app names by its public key.
  func admit(namedByApp user: UserID, _ context: ServiceRequestContext) throws(Problem) {
    guard !user.isDevice else {
      throw Problem(.forbidden, "A public key reads and changes nothing of a device but its trial.")
    }
    try limits.admit(namedByApp: user, context)
  }

  /// Validates a purchase that a user presents.
  ///
  /// These clients have no word for a purchase that waits for Apple, as the native route has in 202: they are told to
  /// post it again, unless its signature gives access meanwhile.
  ///
  /// - Parameter transaction: the one that the client finishes.
  func validate(
    _ proof: ReceiptSubmission.Proof, of user: UserID, app: BundleID? = nil, isVouchedFor: Bool = false,
    transaction: String? = nil, _ context: ServiceRequestContext
  ) async throws -> ValidatedEntitlement {
    var submission = ReceiptSubmission(
      user: user, proof: proof, requestID: context.requestID, isVouchedFor: isVouchedFor, app: app)
    submission.transactionID = transaction.map(TransactionID.init(rawValue:))
    let answer = try await useCases.validator.validate(submission, in: line, context)
    guard answer.isPending else { return answer }
    // The access given meanwhile may be that of another purchase of the user's.
    guard answer.entitlement.isProvisional, case .receipt(let receipt) = proof,
      useCases.validator.purchases(in: receipt).contains(where: {
        $0.originalTransactionID == answer.entitlement.originalTransactionID
      })
    else {
      throw Problem(
        .appStoreUnavailable, "The purchase is kept, and Apple cannot be asked about it now; post it again.")
    }
    return answer
  }

  /// The known purchases of a user, at the stores that count for the user.
  func evidence(of user: UserID, _ context: ServiceRequestContext) async throws -> [SubscriptionEvidence] {
    let profile = try await context.reading(await useCases.ledger.profile(of: user))
    return (profile?.evidence ?? []).filter { useCases.reader.rules.accepts($0.key.environment, for: user) }
  }

  /// The verdict on one purchase of a user's by itself.
  ///
  /// - Parameter deciding: the verdict on everything of the user's, which may hold more than the evidence by today's rules.
  func verdict(on evidence: SubscriptionEvidence, of user: UserID, deciding: Entitlement?) -> Entitlement {
    if let deciding, deciding.originalTransactionID == evidence.key.originalTransactionID,
      deciding.environment == evidence.key.environment
    {
      return deciding
    }
    return useCases.reader.rules.evaluate(user, [evidence], at: now())
  }
}

extension Problem {
  /// For a client that finishes what is verified: the purchase would be gone from the device.
  static let purchaseNotYetSeen = Problem(
    .appStoreUnavailable, "The purchase is not in Apple's answer yet; post the receipt again.")

  /// The status for a client that takes anything but a 5xx for final: whatever may pass is one.
  var passingStatus: HTTPResponse.Status {
    code.isRetryable && code.status.kind != .serverError ? .serviceUnavailable : code.status
  }

  /// A JSON body in the shape of a dialect.
  func response(_ body: some Encodable, status: HTTPResponse.Status) -> Response {
    response(JSONBody.encode(body), type: "application/json", status: status)
  }
}

extension Plans {
  /// A product's name for people: its own, that of its plan, else its ID.
  func title(of id: ProductID, _ product: Catalog.Product) -> String {
    if let name = terms[id]?.name { return name }
    guard product.kind != .consumable else { return id.rawValue }
    return plans.first { $0.tier == product.tier }?.name ?? id.rawValue
  }
}

extension Plans.Terms {
  /// A price in millionths of the currency's unit.
  ///
  /// - Parameter currency: the one that is wanted. Without a price in it, it is US dollars, else the first by the alphabet.
  func price(in currency: String? = nil) -> (micros: Int64, currency: String)? {
    let wanted = [currency, "USD"].compactMap(\.self).first { prices[$0] != nil }
    guard let currency = wanted ?? prices.keys.min(), let price = prices[currency] else { return nil }
    return (price.milliunits * 1000, currency)
  }
}
