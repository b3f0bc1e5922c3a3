package import Entitlements
package import struct FoundationEssentials.Date

extension Ledger {
  /// The outbox entry of a user's row; `nil` if the row is up to date.
  package func waitingUpdate(of user: UserID) async throws(LedgerError) -> WaitingUpdate? {
    let update = try await readShort { tables in try tables.outbox.waitingUpdate(of: user) }
    guard let update, update.state != .waiting || !memory.rows.isSettled(update.version, of: user) else { return nil }
    return update
  }

  /// Whether an update is certainly its user's newest, and not written yet. It then need not be read again.
  package func isNewest(_ update: WaitingUpdate) -> Bool {
    !engine.isShared && memory.rows.isNewest(update.version, of: update.user)
  }

  /// Claims the due updates of the outbox, the longest waiting first. An unsettled one becomes due again at `lease`.
  /// - Parameter onUnreadable: gets the users whose updates cannot be read, and are put off for a day.
  package func claimUpdates(
    dueAt now: Date, until lease: Date, limit: Int, onUnreadable: ([UserID]) -> Void = { _ in }
  ) async throws(LedgerError) -> [WaitingUpdate] {
    guard try await read({ tables in try tables.outbox.hasAny(dueAt: now) }) else { return [] }
    let claim = try await engine.submit { tables in
      try tables.outbox.claim(dueAt: now, until: lease, limit: limit)
    }
    if !claim.unreadable.isEmpty { onUnreadable(claim.unreadable) }
    return claim.due
  }

  /// Makes due what failed before, or waits for a row: another start may find another store.
  /// - Parameter moment: the end of the longest claim. What is due before it may be another replica's.
  package func releaseUpdates(putOffBeyond moment: Date) async throws(LedgerError) {
    let limit = 1_000
    var count = limit
    while count == limit {
      count = try await engine.submit { tables in try tables.outbox.release(putOffBeyond: moment, limit: limit) }
    }
  }

  /// Marks an update as written. An update of a newer version stays queued.
  /// - Parameters:
  ///   - isDoubtful: an older write may still be executed after this one, though none is known to have failed that way.
  ///   - again: when to write the row once more in that case; `nil` for a store that refuses a version older than the
  ///     row's.
  package func settleUpdate(
    of user: UserID, version: Int64, isDoubtful: Bool, confirmingAt again: Date?
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try tables.outbox.settle(updateOf: user, version: version, isDoubtful: isDoubtful, confirmingAt: again)
    }
  }

  /// As `settleUpdate` of a waiting row, without an fsync of its own: the next commit takes it along. After a crash the
  /// row is written once more, with the same version.
  package func settleLater(_ update: WaitingUpdate, isDoubtful: Bool, confirmingAt again: Date?) {
    memory.rows.settle(update.version, of: update.user)
    memory.generations.advance(update.user)
    engine.submitLater { tables in
      try tables.outbox.settle(
        updateOf: update.user, version: update.version, isDoubtful: isDoubtful, confirmingAt: again)
    } orElse: { [memory] in
      // The row is written once more.
      memory.rows.forget(update.version, of: update.user)
      memory.generations.advance(update.user)
    }
  }

  /// Counts a missing row, and schedules the next attempt. An update of a newer version stays queued.
  package func missUpdate(of user: UserID, version: Int64, retryAt due: Date) async throws(LedgerError) {
    try await engine.submit { tables in try tables.outbox.miss(updateOf: user, version: version, retryAt: due) }
  }

  /// Counts a failed attempt at an update and schedules the next. An update of a newer version is left unchanged.
  /// - Parameters:
  ///   - problem: the store's code.
  ///   - isDoubtful: the write may still be executed, even after a later one.
  package func retryUpdate(
    of user: UserID, version: Int64, at due: Date, problem: String, isDoubtful: Bool
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try tables.outbox.retry(
        updateOf: user, version: version, at: due, problem: problem, isDoubtful: isDoubtful)
    }
  }

  /// Raises the version of a failed update, and of every later one, above an impossible version found in the app's row.
  /// An update of a newer version is left unchanged.
  package func raiseUpdate(of user: UserID, version: Int64, above floor: Int64) async throws(LedgerError) {
    try await engine.submit { tables in try tables.outbox.raise(updateOf: user, version: version, above: floor) }
  }

  /// Returns claimed updates that were not attempted: they are due at once.
  /// - Parameter lease: the end of the claim. An update that was settled or postponed since is left unchanged.
  package func returnUpdates(of users: [UserID], claimedUntil lease: Date) async throws(LedgerError) {
    guard !users.isEmpty else { return }
    try await engine.submit { tables in try tables.outbox.giveBack(updatesOf: users, claimedUntil: lease) }
  }
}
