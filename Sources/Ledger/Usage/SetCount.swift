package import Access
package import Entitlements
package import struct FoundationEssentials.Date

/// Sets the number of things that a user of a tier has, where nobody else counts them.
package struct SetCount: LedgerOperation {
  package var count: Int
  package var feature: Feature
  package var user: UserID
  package var tier: Tier
  package var now: Date

  package init(_ count: Int, of feature: Feature, of user: UserID, with tier: Tier, at now: Date) {
    self.count = count
    self.feature = feature
    self.user = user
    self.tier = tier
    self.now = now
  }

  package func run(_ tables: LedgerTables) throws {
    let user = UserID(try tables.accounts.key(of: user))
    try tables.progress.markLimit(feature.name, of: user, near: feature.isNear(count, limitOf: tier) ? tier : nil)
    let former = try tables.usage.total(of: feature.name, of: user)
    if former == nil { try tables.progress.record(UserProgress(seen: now.utcDay), of: user) }
    var total = former ?? FeatureTotal()
    guard total.total != count else { return }
    total.total = count
    try tables.usage.save(total, of: feature.name, of: user)
    tables.changes.invalidate(usageOf: user)
  }
}
