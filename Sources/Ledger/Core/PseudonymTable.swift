import Cryptography
internal import Entitlements

extension UserID {
  /// An erased user of whom nothing is kept under a pseudonym.
  static let erased = UserID(pseudonymPrefix + "nobody")
}

/// Names in place of erased users' names.
struct PseudonymTable: LedgerTable {
  let tables: LedgerTables

  /// The secret is made at the first erasure. Without it nobody can tell whose a pseudonym is, or whose it is not.
  private static let pseudonymMemo = "erasure.key"

  private func pseudonymKey() throws -> HMACKey? {
    try tables.memo(Self.pseudonymMemo).map { HMACKey(Array($0.utf8)) }
  }

  private func madePseudonymKey() throws -> HMACKey {
    if let known = try pseudonymKey() { return known }
    let text = hexadecimal((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    try tables.keepMemo(Self.pseudonymMemo, text)
    return HMACKey(Array(text.utf8))
  }

  /// - Parameter number: how often the user was erased before.
  private static func pseudonym(of key: String, number: Int, _ secret: HMACKey) throws -> UserID {
    guard let code = secret.code(of: Array("\(number) \(key)".utf8)) else { throw StoredForm.Unstorable() }
    // Shorter than a UUID: rows that are renamed do not grow.
    return UserID(UserID.pseudonymPrefix + hexadecimal(code.prefix(12)))
  }

  /// The pseudonyms with an account of somebody who was erased, the oldest first. Where nobody ever was, this costs one
  /// look-up.
  func formerSelves(of user: UserID) throws -> [UserID] {
    guard !user.isErased, let secret = try pseudonymKey() else { return [] }
    var found: [UserID] = []
    while true {
      let pseudonym = try Self.pseudonym(of: user.key, number: found.count, secret)
      guard try hasAccount(pseudonym) else { return found }
      found.append(pseudonym)
    }
  }

  /// The pseudonym of a user who was erased and has not come back since.
  func pseudonym(ofErased user: UserID) throws -> UserID? {
    guard let last = try formerSelves(of: user).last, try !hasAccount(user) else { return nil }
    return last
  }

  /// A pseudonym that nobody has.
  func newPseudonym(ofKey key: String) throws -> UserID {
    let secret = try madePseudonymKey()
    return try Self.pseudonym(of: key, number: formerSelves(of: UserID(key)).count, secret)
  }

  private func hasAccount(_ user: UserID) throws -> Bool {
    try exists("SELECT 1 FROM account WHERE key = ?", user.key)
  }

  /// Evidence on an owner's purchase, without the accounts of erased users. A pseudonym's has none at all.
  func withoutErasedAccounts(_ evidence: SubscriptionEvidence, of owner: UserID) throws -> SubscriptionEvidence {
    guard !owner.isErased else { return evidence.withoutAccounts { _ in true } }
    let own = owner.accountToken
    // Nearly every purchase names its owner, or nobody.
    return try evidence.withoutAccounts { token in
      let user = UserID(token)
      return try user.accountToken != own && pseudonym(ofErased: user) != nil
    }
  }
}

extension SubscriptionEvidence {
  /// The evidence without the account tokens that a test picks out.
  func withoutAccounts(where isErased: (String) throws -> Bool) rethrows -> SubscriptionEvidence {
    var copy = self
    for index in copy.purchases.indices {
      guard let token = copy.purchases[index].appAccountToken, try isErased(token) else { continue }
      copy.purchases[index].appAccountToken = nil
    }
    return copy
  }
}
