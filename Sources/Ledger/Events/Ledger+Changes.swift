internal import Access
internal import Entitlements
package import struct FoundationEssentials.Date

/// The events for others: lists them, waits for them, and records the app's own.
extension Ledger {
  /// The events after a place, in their order. The place of the first one is above zero.
  package func changeEvents(after sequence: Int64, limit: Int) async throws(LedgerError) -> [ChangeEvent] {
    try await readShort { tables in try tables.changeEvents.events(after: sequence, limit: limit, shown: true) }
  }

  /// As `changeEvents(after:limit:)`, for a follower who keeps the place: `nil` for one that this ledger never gave, as the
  /// ledger was restored from a backup since. The place of an event that is no longer kept counts as this ledger's, unless the
  /// event before it was recorded later.
  package func changeEvents(
    following place: ChangeEvent.Place, limit: Int
  ) async throws(LedgerError) -> [ChangeEvent]? {
    try await readShort { tables in
      guard try tables.changeEvents.mayHaveGiven(place) else { return nil }
      return try tables.changeEvents.events(after: place.sequence, limit: limit, shown: true)
    }
  }

  /// Keeps events that an app reports, in their order, and the variants that they say users saw first. One with an ID under
  /// which the user has an event already is that one, whatever else it says.
  ///
  /// - Returns: the number of events that are not kept, as their users have too many bytes of them today
  ///   (`AppEvent.mostBytes`).
  @discardableResult
  package func record(_ events: [AppEvent], at now: Date) async throws(LedgerError) -> Int {
    guard !events.isEmpty else { return 0 }
    return try await engine.submit { tables in
      let recordedAt = try StoredForm.milliseconds(now)
      var refused = 0
      for event in events {
        var detail = ChangeEvent.Detail()
        (detail.properties, detail.reportedID) = (event.properties, event.id)
        let (user, day) = (try tables.accounts.name(of: event.user), event.at.utcDay)
        if let id = event.id, try tables.changeEvents.hasReport(id, of: user) { continue }
        guard try tables.changeEvents.countReport(event.size, of: user, on: now.utcDay) else {
          refused += 1
          continue
        }
        if let id = event.id { try tables.changeEvents.keep(report: id, of: user, at: recordedAt) }
        try tables.progress.record(
          UserProgress(seen: day, viewed: event.type == AppEvent.paywall ? day : nil), of: user)
        if let exposure = event.exposure { try tables.exposures.keep(exposure, of: user) }
        try tables.changeEvents.append(
          event.type, of: user, at: StoredForm.milliseconds(event.at), recordedAt: recordedAt,
          detail)
      }
      return refused
    }
  }

  /// Deletes events from before a moment, the oldest first. The newest one stays, so that no place is given twice.
  /// - Returns: how many were deleted; `limit` means that there may be more.
  package func pruneChangeEvents(before moment: Date, limit: Int) async throws(LedgerError) -> Int {
    guard try await read({ tables in try tables.changeEvents.hasAny(before: moment) }) else { return 0 }
    return try await engine.submit { tables in try tables.changeEvents.prune(before: moment, limit: limit) }
  }
}
