package import Access
package import Entitlements

/// A user's consumption, read in one snapshot.
package struct ReadUsage: LedgerOperation {
  package var user: UserID
  /// The zone to read in; `nil` for the user's, or else the usual one.
  package var named: Zone?
  package var usual: Zone
  /// The questions of each feature's rules in a zone.
  package var questions: @Sendable (Zone) -> [FeatureName: Set<UsageQuestion>]

  package init(
    of user: UserID, in named: Zone?, usual: Zone,
    _ questions: @escaping @Sendable (Zone) -> [FeatureName: Set<UsageQuestion>]
  ) {
    self.user = user
    self.named = named
    self.usual = usual
    self.questions = questions
  }

  package func run(_ tables: LedgerTables) throws -> UserUsage {
    let user = UserID(try tables.accounts.key(of: user))
    let zone = try named ?? tables.usage.timeZone(of: user)?.zone ?? usual
    return UserUsage(
      zone: zone,
      usage: try Dictionary(
        uniqueKeysWithValues: questions(zone).map { feature, questions in
          (feature, try tables.usage.usage(of: feature, of: user, questions))
        }))
  }
}

/// A user's consumption of several features, as far as the rules ask.
package struct UserUsage: Sendable {
  /// The zone in which it was read.
  package var zone: Zone
  /// By feature; what is missing was never used.
  package var usage: [FeatureName: Usage]
}
