package import Entitlements

/// Some of the newest events.
package struct NewestChanges: Sendable {
  /// The newest first.
  package var events: [ChangeEvent]
  /// Where to go on: below this place; `nil` where nothing older is kept.
  package var before: Int64?
}

extension Ledger {
  /// The newest events of some types. A look goes through `NewestChanges.reach` events at most, whatever their types: there
  /// is no index of types, which every event would have to update.
  ///
  /// - Parameters:
  ///   - types: at most `NewestChanges.mostTypes`.
  ///   - place: the place that they have to be below; `nil` begins with the newest.
  package func newestChangeEvents(
    of types: [EventType], before place: Int64?, limit: Int
  ) async throws(LedgerError) -> NewestChanges {
    try await readShort { tables in try tables.changeEvents.newest(of: types, before: place, limit: limit) }
  }
}

extension NewestChanges {
  package static let mostTypes = 6
  package static let reach: Int64 = 5_000
}

extension ChangeEventTable {
  private static let newest = changeEvents(
    where: "change.sequence < ? AND change.type IN (?, ?, ?, ?, ?, ?) ORDER BY change.sequence DESC LIMIT ?")

  func newest(of types: [EventType], before place: Int64?, limit: Int) throws -> NewestChanges {
    let end = try place ?? (newest() + 1)
    let start = max(0, end - 1 - NewestChanges.reach)
    let names = types.map(\.rawValue) + Array(repeating: "", count: max(0, NewestChanges.mostTypes - types.count))
    let events = try all(
      Self.newest, start, end, names[0], names[1], names[2], names[3], names[4], names[5], max(0, limit),
      read: Self.changeEvent)
    let next = events.count == limit ? events.last.map(\.sequence) : start + 1
    let isMore =
      try next.map { try exists("SELECT 1 FROM change_event WHERE sequence > 0 AND sequence < ?", $0) } ?? false
    return NewestChanges(events: events, before: isMore ? next : nil)
  }
}
