package import Entitlements
package import struct FoundationEssentials.Date

/// Notifications from Apple, and unclaimed purchases.
extension Ledger {
  /// When the newest of Apple's notifications was received.
  package func newestNotification() async throws(LedgerError) -> Date? {
    try await read { tables in try tables.notifications.newest() }
  }

  /// Whether a payload is among the stored refused ones.
  package func hasRefused(_ payload: String) async throws(LedgerError) -> Bool {
    let digest = ReceiptDigest(of: payload)
    return try await read { tables in try tables.notifications.hasRefused(digest) }
  }

  /// Stores a notification that failed verification or could not be read. Anybody can post one: each payload is stored
  /// once, and only the newest of each kind.
  package func noteRefused(_ refused: RefusedNotification) async throws(LedgerError) {
    // A repeated post of the same payload must not cost an fsync.
    guard try await !hasRefused(refused.payload) else { return }
    let digest = ReceiptDigest(of: refused.payload)
    let payload = String(decoding: refused.payload.utf8.prefix(RefusedNotification.payloadLimit), as: UTF8.self)
    try await engine.submit { tables in try tables.notifications.keep(refused, payload: payload, digest: digest) }
  }

  /// The refused notifications, newest first, without their payloads.
  /// - Parameter limit: of each kind, so that strangers hide nothing that Apple or RevenueCat has sent.
  package func refusedNotifications(limit: Int) async throws(LedgerError) -> [RefusedNotification] {
    try await read { tables in
      let refused = try [true, false].flatMap {
        try tables.notifications.refused(isSigned: $0, limit: limit)
      }
      return refused.sorted { $0.receivedAt > $1.receivedAt }
    }
  }

  /// Deletes notifications received before a moment. A deleted one that is redelivered is processed again, which
  /// changes nothing.
  /// - Returns: how many were deleted; `limit` means that there may be more.
  package func pruneNotifications(before: Date, limit: Int) async throws(LedgerError) -> Int {
    guard try await read({ tables in try tables.notifications.hasAny(before: before) }) else { return 0 }
    return try await engine.submit { tables in try tables.notifications.prune(before: before, limit: limit)
    }
  }

  /// Makes purchases due for a check now, after a hint that they changed.
  /// - Returns: how many of them are known.
  package func recheckSoon(_ ids: [OriginalTransactionID], at now: Date) async throws(LedgerError) -> Int {
    guard !ids.isEmpty else { return 0 }
    return try await engine.submit { tables in
      let now = try StoredForm.milliseconds(now)
      return try Set(ids).sorted { $0.rawValue < $1.rawValue }.reduce(0) {
        try $0 + tables.schedule.recheckSoon($1, at: now)
      }
    }
  }

  /// Schedules a check for each purchase without one, for instance after the Server API was configured.
  /// - Parameters:
  ///   - limit: how many are examined in one transaction; all are, in the end.
  ///   - onUnreadable: gets the rows of those that cannot be read.
  /// - Returns: how many were scheduled.
  package func scheduleMissing(
    by rules: any VerdictRules, at now: Date, limit: Int, onUnreadable: ([Int64]) -> Void = { _ in }
  ) async throws(LedgerError) -> Int {
    var scheduled = 0
    var place: Int64 = 0
    while true {
      let after = place
      let page = try await engine.submit { tables in
        try tables.notifications.scheduleMissing(by: rules, at: now, after: after, limit: limit)
      }
      scheduled += page.scheduled
      if !page.unreadable.isEmpty { onUnreadable(page.unreadable) }
      guard let last = page.last else { return scheduled }
      place = last
    }
  }
}

extension NotificationTable {
  /// - Returns: how many were scheduled, those that cannot be read, and the last row examined; `nil` if there was none.
  func scheduleMissing(
    by rules: any VerdictRules, at now: Date, after id: Int64, limit: Int
  ) throws -> (scheduled: Int, unreadable: [Int64], last: Int64?) {
    let page = try tables.schedule.unscheduled(after: id, limit: limit)
    var scheduled = 0
    /// Surroundings by user, kept for users with several purchases: nobody asks for the others again, which hold all rows.
    var known: [UserID: PurchaseSurroundings] = [:]
    let unreadable = try tables.skippingUnreadable(page) { id in
      let purchase = try tables.purchases.purchase(id: id)
      let moment = max(now, purchase.evidence.evaluatedAt)
      var surroundings = known[purchase.owner]
      if surroundings == nil {
        let all = try allEvidence(with: purchase)
        surroundings = rules.surroundings(of: all)
        if all.count > 1 { known[purchase.owner] = surroundings }
      }
      guard let surroundings, let due = rules.nextCheck(of: purchase.evidence, among: surroundings, at: moment)
      else { return }
      try tables.schedule.schedule(
        id, PurchaseTable.Schedule.next(after: nil, of: purchase.evidence.key, at: due, asOf: moment))
      scheduled += 1
    }
    return (scheduled, unreadable, page.last)
  }

  /// All evidence of a purchase's owner, who mostly has no other; where some of it cannot be read, that of the purchases at
  /// Apple's that can.
  private func allEvidence(with purchase: PurchaseTable.StoredPurchase) throws -> [SubscriptionEvidence] {
    guard let account = try tables.accounts.account(of: purchase.owner), account.purchases.count > 1 else {
      return [purchase.evidence]
    }
    var all: [SubscriptionEvidence] = []
    if try tables.skippingUnreadable([account], { all = try tables.purchases.evidence(of: $0) }).isEmpty { return all }
    _ = try tables.skippingUnreadable(account.purchases.filter { $0 > 0 }) {
      all.append(try tables.purchases.purchase(id: $0).evidence)
    }
    return all.sorted { $0.key.precedes($1.key) }
  }
}
