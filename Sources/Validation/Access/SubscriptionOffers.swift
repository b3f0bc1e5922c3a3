import Access
package import AppStore
package import Entitlements
package import FoundationEssentials
package import Ledger

/// Offers of subscriptions for users: those that the catalog lets them have, signed for the App Store, and those that Apple
/// lets them have.
package struct SubscriptionOffers: Sendable {
  package struct Overview: Sendable {
    package var promotional: [(offer: String, product: ProductID)]
    /// The products with a rule of the catalog, and whether the user gets the introductory offer.
    package var introductory: [(product: ProductID, isAllowed: Bool)]
    package var winBack: [WinBack]
  }

  /// A win-back offer that Apple lets a customer have.
  package struct WinBack: Sendable {
    package var offer: String
    /// The subscription that has lapsed.
    package var key: SubscriptionKey
    package var product: ProductID?
  }

  /// The user and the product that a signature is for.
  package struct Wanted: Sendable {
    package var user: UserID
    package var product: ProductID
    /// `nil`: the app that the service is for, where it is one alone.
    package var app: BundleID?
    /// A transaction of the customer's, or the ID of the customer's download; `nil`: the newest that is known.
    package var transaction: TransactionID?

    package init(user: UserID, product: ProductID, app: BundleID? = nil, transaction: TransactionID? = nil) {
      self.user = user
      self.product = product
      self.app = app
      self.transaction = transaction
    }
  }

  /// The reason why nothing was signed.
  package enum Refusal: Error, Sendable {
    case ledgerUnavailable(LedgerError)
    case noKey
    case unknownOffer
    /// The catalog does not let the user have it.
    case notForUser(Set<OfferAudience>)
    /// The service is for several apps, or not for this one.
    case unknownApp
    /// Apple wants a transaction of the customer's, and none is known.
    case noTransaction
    case signingFailed
  }

  let ledger: Ledger
  let rules: EntitlementRules
  let plans: Plans
  /// `nil`: no key signs offers.
  let signer: OfferSigner?
  let apps: [BundleID]

  package func overview(of user: UserID, at now: Date) async throws(LedgerError) -> Overview {
    let evidence = try await evidence(of: user)
    let audiences = rules.audiences(of: user, evidence, at: now)
    let products = plans.terms.filter(\.value.isActive).sorted { $0.key.rawValue < $1.key.rawValue }
    let running = Set(rules.running(user, evidence, at: now).compactMap(\.originalTransactionID))
    return Overview(
      promotional: products.flatMap { product, terms in
        terms.offers.filter { !$0.audiences.isDisjoint(with: audiences) }.map { ($0.id, product) }
      },
      introductory: products.compactMap { product, terms in
        terms.introductoryOffer.map { (product, !$0.isDisjoint(with: audiences)) }
      },
      winBack: evidence.filter { !running.contains($0.key.originalTransactionID) }.flatMap { evidence in
        (evidence.terms?.winBackOfferIDs ?? []).map {
          WinBack(offer: $0, key: evidence.key, product: evidence.renewals.first?.productID)
        }
      })
  }

  /// A promotional offer as a JWS and in the former form, each with a nonce of its own.
  ///
  /// - Parameter account: the account that the app gives the purchase: of the former form alone.
  package func promotional(
    _ id: String, _ wanted: Wanted, account: String, at now: Date
  ) async throws(Refusal) -> (jws: String, former: FormerOfferSignature, keyID: String) {
    guard let signer else { throw .noKey }
    guard let offer = sold(wanted.product)?.offers.first(where: { $0.id == id }) else { throw .unknownOffer }
    let app = try app(wanted)
    let evidence = try await consult(await evidence(of: wanted.user), or: Refusal.ledgerUnavailable)
    guard !offer.audiences.isDisjoint(with: rules.audiences(of: wanted.user, evidence, at: now)) else {
      throw .notForUser(offer.audiences)
    }
    let transaction = try await consult(await transaction(wanted, evidence, in: app), or: Refusal.ledgerUnavailable)
    do {
      return (
        try signer.promotionalOffer(id, of: wanted.product, in: app, for: transaction, nonce: UUID(), at: now),
        try signer.formerSignature(of: id, of: wanted.product, in: app, for: account, nonce: UUID(), at: now),
        signer.keyID
      )
    } catch { throw .signingFailed }
  }

  /// Whether the user gets the introductory offer, as a JWS.
  package func introductory(
    _ wanted: Wanted, at now: Date
  ) async throws(Refusal) -> (isAllowed: Bool, jws: String) {
    guard let signer else { throw .noKey }
    guard let audiences = sold(wanted.product)?.introductoryOffer else { throw .unknownOffer }
    let app = try app(wanted)
    let evidence = try await consult(await evidence(of: wanted.user), or: Refusal.ledgerUnavailable)
    let isAllowed = !audiences.isDisjoint(with: rules.audiences(of: wanted.user, evidence, at: now))
    let transaction = try await consult(await transaction(wanted, evidence, in: app), or: Refusal.ledgerUnavailable)
    guard let transaction else { throw .noTransaction }
    do {
      return (
        isAllowed,
        try signer.introductoryOffer(
          isAllowed: isAllowed, of: wanted.product, in: app, for: transaction, nonce: UUID(), at: now)
      )
    } catch { throw .signingFailed }
  }

  private func sold(_ product: ProductID) -> Plans.Terms? { plans.terms[product].flatMap { $0.isActive ? $0 : nil } }

  private func app(_ wanted: Wanted) throws(Refusal) -> BundleID {
    guard let app = wanted.app ?? (apps.count == 1 ? apps.first : nil), apps.contains(app) else { throw .unknownApp }
    return app
  }

  /// The purchases of a user, at the stores that count for the user.
  private func evidence(of user: UserID) async throws(LedgerError) -> [SubscriptionEvidence] {
    (try await ledger.profile(of: user)?.evidence ?? []).filter { rules.accepts($0.key.environment, for: user) }
  }

  /// The transaction that is named, else the newest one in the app that Apple knows of, else the ID of a download of it.
  private func transaction(
    _ wanted: Wanted, _ evidence: [SubscriptionEvidence], in app: BundleID
  ) async throws(LedgerError) -> TransactionID? {
    if let named = wanted.transaction { return named }
    var known: [SubscriptionEvidence] = []
    for one in evidence where !one.key.isOfAnotherStore {
      if try await isOf(app, one.key) { known.append(one) }
    }
    let bought = known.filter { !$0.key.isOfApp }.flatMap(\.purchases).max {
      ($0.purchaseDate ?? .distantPast, $0.transactionID.rawValue)
        < ($1.purchaseDate ?? .distantPast, $1.transactionID.rawValue)
    }
    return bought?.transactionID
      ?? known.lazy.compactMap(\.key.originalTransactionID.appTransactionID).first.map { TransactionID($0) }
  }

  private func isOf(_ app: BundleID, _ key: SubscriptionKey) async throws(LedgerError) -> Bool {
    guard apps.count > 1 else { return true }
    return try await ledger.receipts(mentioning: key.originalTransactionID).contains {
      $0.environment == key.environment && $0.bundleID == app
    }
  }
}
