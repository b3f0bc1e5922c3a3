import Entitlements

import struct FoundationEssentials.Date

/// The answers of one look-up, merged.
struct ServerAPIFindings {
  /// The size of Apple's pages.
  private static let transactionsPerPage = 20
  /// The age in seconds above which a signature was not made for its answer.
  private static let agePermitted: Double = 60
  /// The seconds that Apple's clock may be ahead of ours.
  private static let skewPermitted: Double = 300

  private(set) var transaction: VerifiedTransaction?
  private(set) var order: [VerifiedTransaction] = []
  private(set) var refunds: [SignedRefund] = []
  private(set) var unsigned: UnsignedAnswer?
  private var bundleID: BundleID?
  private var appAppleID: Int64?
  /// The newest part of each transaction.
  private var parts: [TransactionID: SignedPurchases.Part] = [:]
  private var sequence: [TransactionID] = []
  /// Apple's clock on the first answer: later news is not on its pages.
  private var answeredAt: Date?
  private var isEmpty = true
  private var revisions: Set<String> = []
  private var pages = 0
  private var signatures = 0

  private(set) var revision: String?

  /// Adds an answer.
  ///
  /// - Parameter pageLimit: the most pages of a history.
  /// - Throws: for a history without end.
  mutating func take(_ contents: ServerAPIContents, answeredAt: Date?, pageLimit: Int) throws(AppStoreError) {
    if isEmpty { self.answeredAt = answeredAt }
    isEmpty = false
    switch contents {
    case .transaction(let transaction): self.transaction = transaction
    case .order(let transactions): order = transactions
    case .unsigned(let answer): unsigned = answer
    case .purchases(let purchases):
      bundleID = purchases.bundleID
      appAppleID = purchases.appAppleID ?? appAppleID
      for part in purchases.parts { take(part) }
      try turn(to: purchases.nextRevision, after: purchases.signatures, pageLimit: pageLimit)
    case .refunds(let page):
      refunds += page.refunds
      try turn(to: page.nextRevision, after: page.refunds.count, pageLimit: pageLimit)
    }
  }

  /// - Parameter signatures: the signed transactions of the page.
  private mutating func turn(
    to next: String?, after signatures: Int, pageLimit: Int
  ) throws(AppStoreError) {
    revision = next
    guard let next else { return }
    pages += 1
    self.signatures += signatures
    guard revisions.insert(next).inserted else { throw .invalidAnswer("revision: a page that was there before") }
    guard pages < pageLimit, self.signatures <= pageLimit * Self.transactionsPerPage else {
      throw .invalidAnswer("hasMore: more than \(pageLimit) pages")
    }
  }

  /// Adds a part. A transaction may come twice: a purchase during the look-up moves the others to later pages.
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
  func answer(environment: StoreEnvironment, bundleID: BundleID, now: Date) -> AppStoreAnswer {
    let parts = sequence.compactMap { self.parts[$0] }
    var newest: [OriginalTransactionID: SignedPurchases.Part] = [:]
    var renewals: [OriginalTransactionID: RenewalInfo] = [:]
    for part in parts.sorted(by: { $0.signedDate < $1.signedDate }) {
      let id = part.purchase.originalTransactionID
      newest[id] = part
      renewals[id] = part.renewal ?? renewals[id]
    }
    // One for each subscription, in order of first appearance.
    let inOrder = parts.compactMap { renewals.removeValue(forKey: $0.purchase.originalTransactionID) }
    let signedDate = parts.map(\.signedDate).max()
    return AppStoreAnswer(
      history: PurchaseHistory(
        environment: environment, source: .serverAPI, evidenceTime: signedDate ?? answeredAt ?? now,
        evaluatedAt: Self.evaluatedAt(signedDate: signedDate, answeredAt: answeredAt, now: now),
        purchases: parts.map(\.purchase), renewals: inOrder, coverage: .snapshot),
      bundleID: self.bundleID ?? bundleID, appAppleID: appAppleID, signedTransactions: newest.mapValues(\.text))
  }

  /// The moment to evaluate at.
  ///
  ///     the newest signature is      evaluated at
  ///     of the time of the answer    the signature
  ///     older by over a minute       the answer's HTTP date
  ///     older, and the HTTP date is  the signature
  ///       far ahead of our clock
  ///
  /// Apple signs for each answer. If it ever reused a signature for an unchanged transaction, the answer would still
  /// say, at its own time, that there is nothing newer; evaluated at the old signature, a subscription that has ended
  /// since would never count as ended. The evidence stays as old as its signature, so that everything signed later
  /// wins. Our own clock only rejects an HTTP date.
  static func evaluatedAt(signedDate: Date?, answeredAt: Date?, now: Date) -> Date {
    guard let signedDate else { return answeredAt ?? now }
    guard let answeredAt, answeredAt.timeIntervalSince(signedDate) > agePermitted,
      answeredAt.timeIntervalSince(now) <= skewPermitted
    else { return signedDate }
    return answeredAt
  }
}
