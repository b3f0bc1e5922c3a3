package import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

/// The zone of a user's calendar windows: the one that was kept, or the one that is named, or that of the catalog.
package struct ZoneChoice: Sendable {
  /// The catalog's.
  package var usual: Zone
  /// The one that the request names.
  package var named: Zone?
  /// Whether the named one counts at once: that of a server, and not that of a user.
  package var isTrusted: Bool

  package init(usual: Zone, named: Zone?, isTrusted: Bool) {
    self.usual = usual
    self.named = named
    self.isTrusted = isTrusted
  }

  /// The least time between two changes of a user's zone: changing it at will would give several midnights a day.
  package static let patience = Duration.seconds(86_400)
}

extension ZoneChoice {
  /// The zone that counts for a user now, and whether it has to be kept.
  func resolved(for user: UserID, at now: Date, _ tables: LedgerTables) throws -> (zone: Zone, isNew: Bool) {
    guard let kept = try tables.usage.timeZone(of: user) else {
      return named.map { ($0, true) } ?? (usual, false)
    }
    guard let named, named.name != kept.zone.name,
      isTrusted || now >= kept.changedAt.advanced(by: Self.patience)
    else { return (kept.zone, false) }
    return (named, true)
  }
}
