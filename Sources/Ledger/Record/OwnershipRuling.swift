internal import Entitlements

/// Decides the owner of each subscription of an answer. Pure.
///
/// The outcome for a key of the answer:
///
/// | its owner | keep | transfer | transfer_if_inactive |
/// |---|---|---|---|
/// | unowned | claimed | claimed | claimed |
/// | this user | stays | stays | stays |
/// | any other, of unknown ownership | left there | left there | left there |
/// | another, contested key | left there | moved | moved if it grants them nothing, else left there |
/// | another, other key | left there | moved | left there |
/// | another, by account token alone | moved | moved | moved |
/// | nobody any more | moved | moved | moved |
/// | another, not by a UUID, of a key that names this user | moved | moved | moved |
///
/// The last lines are for keys without an owner who could object, and a user with proof gets them, unless the key names
/// another user: a notification assigned one to the user in its account token; the owner of the second was erased; the
/// third was given to an ID that no account token can be, before anybody knew whose token it was.
///
/// A key whose account token (set by the app at the purchase) names another user stays where it is under every policy,
/// owned or not, unless it is this user's already: support may have transferred it.
///
/// The whole answer is refused when at least one contested key stays with another user and no contested key is, or
/// becomes, this user's: the receipt is another user's, and keys of unknown products do not change that.
enum OwnershipRuling: Hashable {
  case refused
  case granted(Grant)

  struct Grant: Hashable {
    /// Keys without an owner.
    var claimed: Set<SubscriptionKey> = []
    /// Keys that move here, with their former owners.
    var moved: [SubscriptionKey: UserID] = [:]
    /// Keys that were this user's before.
    var kept: Set<SubscriptionKey> = []
    /// Keys left with their present owner, for the user in their account token, or to nobody.
    var leftWithOthers: Set<SubscriptionKey> = []

    func belongsToUser(_ key: SubscriptionKey) -> Bool {
      claimed.contains(key) || moved[key] != nil || kept.contains(key)
    }
  }

  /// - Parameters:
  ///   - owners: the present owners of `keys`; unowned keys are absent.
  ///   - ofNobody: keys of an ownership that this version does not know, which no user gets.
  ///   - namingOthers: keys whose account token names another user.
  ///   - naming: keys whose account token names this user, who has proof of the purchase.
  ///   - unpresented: keys owned by account token alone.
  ///   - ownerless: keys whose owner was erased, where the user has proof of the purchase.
  ///   - isInactive: whether a key grants its present owner nothing; called only under `transfer_if_inactive`.
  static func decide(
    user: UserID, keys: Set<SubscriptionKey>, contested: Set<SubscriptionKey>, owners: [SubscriptionKey: UserID],
    policy: OwnershipPolicy, ofNobody: Set<SubscriptionKey> = [], namingOthers: Set<SubscriptionKey> = [],
    naming: Set<SubscriptionKey> = [],
    unpresented: Set<SubscriptionKey> = [], ownerless: Set<SubscriptionKey> = [],
    isInactive: (SubscriptionKey) throws -> Bool
  ) rethrows -> OwnershipRuling {
    var grant = Grant()
    for key in keys {
      let owner = owners[key]
      if owner == user {
        grant.kept.insert(key)
        continue
      }
      if ofNobody.contains(key) || namingOthers.contains(key) {
        grant.leftWithOthers.insert(key)
        continue
      }
      guard let owner else {
        grant.claimed.insert(key)
        continue
      }
      let moves =
        switch policy {
        case _ where unpresented.contains(key) || ownerless.contains(key): true
        case _ where naming.contains(key) && owner.accountToken == nil: true
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
