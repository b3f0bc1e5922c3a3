internal import Access
internal import Entitlements
package import struct FoundationEssentials.Date
package import struct FoundationEssentials.TimeZone

/// The zone of a user's calendar windows: the one that was kept, or the one that is named, or that of the catalog.
package struct ZoneChoice: Sendable {
  /// The catalog's.
  package var usual: TimeZone
  /// The one that the request names.
  package var named: TimeZone?
  /// Whether the named one counts at once: that of a server, and not that of a user.
  package var isTrusted: Bool

  package init(usual: TimeZone, named: TimeZone?, isTrusted: Bool) {
    self.usual = usual
    self.named = named
    self.isTrusted = isTrusted
  }

  /// The least time between two changes of a user's zone: changing it at will would give several midnights a day.
  package static let patience = Duration.seconds(86_400)
}

extension ZoneChoice {
  /// The zone that counts for a user now, and whether it has to be kept.
  func resolved(for user: UserID, at now: Date, _ tables: LedgerTables) throws -> (zone: TimeZone, isNew: Bool) {
    guard let kept = try tables.timeZone(of: user) else {
      return named.map { ($0, true) } ?? (usual, false)
    }
    guard let named, named.ianaName != kept.zone.ianaName,
      isTrusted || now >= kept.changedAt.advanced(by: Self.patience)
    else { return (kept.zone, false) }
    return (named, true)
  }
}
