internal import Entitlements

/// Who gets each subscription of an answer. Pure.
///
/// What happens to a key of the answer:
///
/// | its owner | keep | transfer | transfer_if_inactive |
/// |---|---|---|---|
/// | nobody | claimed | claimed | claimed |
/// | this user | stays | stays | stays |
/// | another, contested key | left there | moved | moved if it grants them nothing, else left there |
/// | another, other key | left there | moved | left there |
/// | another, whom only the purchase named | moved | moved | moved |
///
/// The last line is for a key that nobody had presented: a notification brought it to the user whom it names. Who comes
/// with proof gets it, unless it names another than them.
///
/// A key that names another user, by the account that the app gave at the purchase, is left where it is under every policy,
/// owned or not, unless it is this user's already: somebody at a desk may have given it to them.
///
/// The whole answer is refused when at least one contested key is left with another user and no contested key is, or
/// becomes, this user's: it is somebody else's receipt, and keys of no known product do not make it this user's.
enum OwnershipRuling: Hashable {
  case refused
  case granted(Grant)

  struct Grant: Hashable {
    /// Keys that nobody owned.
    var claimed: Set<SubscriptionKey> = []
    /// Keys that move here, with the user who loses each.
    var moved: [SubscriptionKey: UserID] = [:]
    /// Keys that were this user's before.
    var kept: Set<SubscriptionKey> = []
    /// Keys left with their present owner, or for the user whom they name.
    var leftWithOthers: Set<SubscriptionKey> = []

    func belongsToUser(_ key: SubscriptionKey) -> Bool {
      claimed.contains(key) || moved[key] != nil || kept.contains(key)
    }
  }

  /// - Parameters:
  ///   - owners: the present owners of `keys`; a key nobody owns is not in it.
  ///   - namingOthers: keys whose purchase was made for another user.
  ///   - unpresented: keys that their owners have by their names alone.
  ///   - isInactive: whether a key grants its present owner nothing; asked only under `transfer_if_inactive`.
  static func decide(
    user: UserID, keys: Set<SubscriptionKey>, contested: Set<SubscriptionKey>, owners: [SubscriptionKey: UserID],
    policy: OwnershipPolicy, namingOthers: Set<SubscriptionKey> = [], unpresented: Set<SubscriptionKey> = [],
    isInactive: (SubscriptionKey) throws -> Bool
  ) rethrows -> OwnershipRuling {
    var grant = Grant()
    for key in keys {
      let owner = owners[key]
      if owner == user {
        grant.kept.insert(key)
        continue
      }
      if namingOthers.contains(key) {
        grant.leftWithOthers.insert(key)
        continue
      }
      guard let owner else {
        grant.claimed.insert(key)
        continue
      }
      let moves =
        switch policy {
        case _ where unpresented.contains(key): true
        case .keep: false
        case .transfer: true
        case .transferIfInactive: try contested.contains(key) && isInactive(key)
        }
      if moves { grant.moved[key] = owner } else { grant.leftWithOthers.insert(key) }
    }
    let bearing = contested.intersection(keys)
    let isSomebodyElses =
      !bearing.isDisjoint(with: grant.leftWithOthers) && !bearing.contains(where: grant.belongsToUser)
    return isSomebodyElses ? .refused : .granted(grant)
  }
}
