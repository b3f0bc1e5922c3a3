import Entitlements

import struct FoundationEssentials.Date

/// What the answers of one look-up add up to.
struct ServerAPIFindings {
  /// Apple's pages have so many.
  private static let transactionsPerPage = 20
  /// A signature that is older than the answer by more than this, in seconds, was not made for it.
  private static let agePermitted: Double = 60
  /// How far Apple's clock may be ahead of ours, in seconds, to be believed.
  private static let skewPermitted: Double = 300

  private(set) var transaction: VerifiedTransaction?
  private(set) var order: [VerifiedTransaction] = []
  private var bundleID: BundleID?
  private var appAppleID: Int64?
  /// The newest of each transaction.
  private var parts: [TransactionID: SignedPurchases.Part] = [:]
  private var sequence: [TransactionID] = []
  /// When the first answer was made, by Apple's clock: what Apple learned while we turned its pages is not in it.
  private var answeredAt: Date?
  private var isEmpty = true
  private var revisions: Set<String> = []
  private var pages = 0
  private var signatures = 0

  /// Where the next page begins.
  private(set) var revision: String?

  /// Takes an answer in.
  ///
  /// - Parameter pageLimit: the most pages of a history.
  /// - Throws: for a history that has no end.
  mutating func take(
    _ contents: ServerAPIContents, answeredAt: Date?, pageLimit: Int
  ) throws(ServerAPIError) {
    if isEmpty { self.answeredAt = answeredAt }
    isEmpty = false
    switch contents {
    case .transaction(let transaction):
      self.transaction = transaction
    case .order(let transactions):
      order = transactions
    case .purchases(let purchases):
      bundleID = purchases.bundleID
      appAppleID = purchases.appAppleID ?? appAppleID
      for part in purchases.parts { take(part) }
      if let next = purchases.nextRevision {
        pages += 1
        signatures += purchases.signatures
        guard revisions.insert(next).inserted else { throw .invalidAnswer("revision: a page that was there before") }
        guard pages < pageLimit, signatures <= pageLimit * Self.transactionsPerPage else {
          throw .invalidAnswer("hasMore: more than \(pageLimit) pages")
        }
      }
      revision = purchases.nextRevision
    }
  }

  /// The same transaction may come twice: a purchase that is made while we turn the pages moves the others on.
  private mutating func take(_ part: SignedPurchases.Part) {
    let id = part.purchase.transactionID
    guard let known = parts[id] else {
      sequence.append(id)
      parts[id] = part
      return
    }
    if part.signedDate > known.signedDate
      || (part.signedDate == known.signedDate && part.purchase.cancellationDate != nil)
    {
      parts[id] = part
    }
  }

  /// - Parameters:
  ///   - environment: the store that answered.
  ///   - bundleID: the app that was asked about.
  ///   - now: our clock.
  func answer(
    environment: StoreEnvironment, bundleID: BundleID, attempts: [ServerAPIAttempt], now: Date
  ) -> ServerAPIAnswer {
    let parts = sequence.compactMap { self.parts[$0] }
    var newest: [OriginalTransactionID: SignedPurchases.Part] = [:]
    var renewals: [OriginalTransactionID: RenewalInfo] = [:]
    var statuses: [OriginalTransactionID: Int] = [:]
    for part in parts.sorted(by: { $0.signedDate < $1.signedDate }) {
      let id = part.purchase.originalTransactionID
      newest[id] = part
      renewals[id] = part.renewal ?? renewals[id]
      statuses[id] = part.status ?? statuses[id]
    }
    let signedDate = parts.map(\.signedDate).max()
    return ServerAPIAnswer(
      environment: environment, bundleID: self.bundleID ?? bundleID, appAppleID: appAppleID,
      history: PurchaseHistory(
        environment: environment, source: .serverAPI, evidenceTime: signedDate ?? answeredAt ?? now,
        evaluatedAt: Self.evaluatedAt(signedDate: signedDate, answeredAt: answeredAt, now: now),
        purchases: parts.map(\.purchase),
        renewals: sequence.compactMap { self.parts[$0]?.purchase.originalTransactionID }.uniqued().compactMap {
          renewals[$0]
        },
        coverage: .snapshot),
      signedTransactions: newest.mapValues(\.text), statuses: statuses, attempts: attempts)
  }

  /// The moment to judge at.
  ///
  ///     the newest signature is      judged at
  ///     of the time of the answer    the signature
  ///     older by over a minute       the answer's HTTP date
  ///     older, and the HTTP date is  the signature
  ///       far ahead of our clock
  ///
  /// Apple signs for each answer. Should it ever keep a signature for as long as the transaction does not change, the
  /// answer says all the same, at its own time, that nothing newer is known; judged by the old signature, a subscription
  /// that has ended since would never be proven to have ended. The evidence stays as old as its signature, so that whatever
  /// Apple signed after it counts more. Our own clock decides nothing: it may only keep a date from counting.
  static func evaluatedAt(signedDate: Date?, answeredAt: Date?, now: Date) -> Date {
    guard let signedDate else { return answeredAt ?? now }
    guard let answeredAt, answeredAt.timeIntervalSince(signedDate) > agePermitted,
      answeredAt.timeIntervalSince(now) <= skewPermitted
    else { return signedDate }
    return answeredAt
  }
}

extension [OriginalTransactionID] {
  /// Each once, in the order in which they come first.
  fileprivate func uniqued() -> Self {
    var seen: Set<OriginalTransactionID> = []
    return filter { seen.insert($0).inserted }
  }
}
