import Entitlements
import FoundationEssentials
import Testing

/// The user whom a purchase names.
@Suite struct AppAccountTests {
  static let anna = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  static let ben = "00000000-0000-4000-8000-000000000002"

  @Test func `a user ID is a UUID by its five groups, and by nothing like them`() {
    for text in [Self.anna, Self.anna.uppercased(), Self.ben] {
      for place in text.utf8.indices {
        for byte in ["", "-", "0", "9", "a", "F", "g", "/", ":", "@", "G", "`", "\u{0}", "é", "00"] {
          let changed = String(text[..<place]) + byte + text[text.index(after: place)...]
          let groups = changed.split(separator: "-", omittingEmptySubsequences: false)
          let isUUID =
            groups.map(\.utf8.count) == [8, 4, 4, 4, 12]
            && groups.joined().allSatisfy { $0.isASCII && $0.isHexDigit }
          #expect(UserID(changed).accountToken == (isUUID ? changed.lowercased() : nil), "\(changed)")
        }
      }
    }
  }

  /// A row: when it was bought, what it names, and whether it was.
  struct Row: Sendable {
    var at: Double?
    var account: String?
    var ownership = Purchase.Ownership.purchased
  }

  private static func evidence(_ rows: [Row]) -> SubscriptionEvidence {
    SubscriptionEvidence(
      key: SubscriptionKey(environment: .production, originalTransactionID: "1"), source: .verifyReceipt,
      evidenceTime: Date(timeIntervalSince1970: 0), evaluatedAt: Date(timeIntervalSince1970: 0),
      purchases: rows.map { row in
        Purchase(
          productID: "pro", transactionID: "1", originalTransactionID: "1",
          purchaseDate: row.at.map { Date(timeIntervalSince1970: $0) }, ownership: row.ownership,
          appAccountToken: row.account)
      })
  }

  @Test(arguments: [
    ([Row(at: 1, account: anna)], false), ([Row(at: 1, account: anna.uppercased())], false),
    ([Row(at: 1, account: ben)], true), ([Row(at: 1, account: nil)], false), ([], false),
    // A token that is no UUID, or nobody's, names nobody.
    ([Row(at: 1, account: "")], false), ([Row(at: 1, account: "ben")], false),
    ([Row(at: 1, account: "00000000-0000-0000-0000-000000000000")], false),
    ([Row(at: 1, account: ben + "0")], false), ([Row(at: 1, account: "g" + ben.dropFirst())], false),
    // The newest that names anybody.
    ([Row(at: 1, account: ben), Row(at: 2, account: anna)], false),
    ([Row(at: 2, account: ben), Row(at: 1, account: anna)], true),
    ([Row(at: 1, account: ben), Row(at: 2, account: nil)], true),
    ([Row(at: nil, account: anna), Row(at: 1, account: ben)], true),
    ([Row(at: 1, account: ben), Row(at: 1, account: anna)], false),
    // A family's names the one who bought it.
    ([Row(at: 1, account: ben, ownership: .familyShared)], false),
  ])
  func `a purchase names another user, or not`(rows: [Row], isAnothers: Bool) {
    #expect(Self.evidence(rows).namesAnother(than: UserID(Self.anna)) == isAnothers)
    #expect(Self.evidence(rows).namesAnother(than: UserID(Self.anna.uppercased())) == isAnothers)
    #expect(!Self.evidence(rows).namesAnother(than: "anna"), "another kind of ID cannot be compared")
    let names = Self.evidence(rows).names(UserID(Self.anna))
    #expect(names == (!isAnothers && rows.contains { $0.account?.lowercased() == Self.anna }))
    #expect(!Self.evidence(rows).names("ben"), "a purchase names UUIDs")
  }
}
