internal import Entitlements
internal import struct FoundationEssentials.Date

/// The events that receivers and pollers are told.
package struct ChangeEventTable: LedgerTable {
  package let tables: LedgerTables

  /// Appends an event. Its number is higher than that of every event that was committed before. What happens to an erased
  /// user's purchases makes no event.
  ///
  /// - Parameters:
  ///   - verdict: the number of the verdict after it, in the history; `nil` for an event without one.
  ///   - former: the number of the verdict before it.
  ///   - bought: the transaction that the verdict is about.
  func append(
    _ type: String, of user: UserID, at: Int64, recordedAt: Int64, verdict: Int64? = nil, former: Int64? = nil,
    bought: Purchase? = nil, _ detail: ChangeEvent.Detail? = nil
  ) throws {
    guard !user.isErased else { return }
    // Numbers are given before a commit. Whoever reads after a number must not miss a lower one that is committed later,
    // so transactions that append events end one after the other.
    try tables.waitFor(.events)
    try execute(
      """
      INSERT INTO change_event (user_id, type, at, recorded_at, verdict, former, data, purchased_at, sale)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
      """, user.key, type, at, recordedAt, verdict, former, detail.map { try StoredForm.encoded($0) },
      bought?.purchaseDate, bought?.sale.map { StoredForm.text($0) })
    changes.noteEvent()
  }

  func append(
    _ type: EventType, of user: UserID, at moment: Date, verdict: Int64? = nil, _ detail: ChangeEvent.Detail
  ) throws {
    let moment = try StoredForm.milliseconds(moment)
    try append(type.rawValue, of: user, at: moment, recordedAt: moment, verdict: verdict, detail)
  }

  // MARK: What a grant covers

  func coveredVerdict(of user: UserID) throws -> Entitlement? {
    try first("SELECT entitlement FROM covered_verdict WHERE user_id = ?", user.key) {
      try StoredForm.value(Entitlement.self, $0.get(0))
    }
  }

  private static let upsertCovered = SQL.upsert("covered_verdict", key: "user_id", "entitlement")

  func cover(_ verdict: Entitlement?, of user: UserID) throws {
    guard let verdict else { return try execute("DELETE FROM covered_verdict WHERE user_id = ?", user.key) }
    try execute(Self.upsertCovered, user.key, StoredForm.text(verdict.inWholeMilliseconds))
  }
}
