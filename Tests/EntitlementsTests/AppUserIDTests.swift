import Entitlements
import Testing

/// The app user IDs of RevenueCat's SDKs.
@Suite struct AppUserIDTests {
  @Test(arguments: [
    "u1", "$RCAnonymousID:00ff", "anna@example.com", "jos\u{e9}", "日本", String(repeating: "x", count: 100),
  ])
  func `an ID that an app may have is taken as it is`(id: String) {
    #expect(UserID(appUserID: id)?.rawValue.utf8.elementsEqual(id.utf8) == true)
  }

  @Test(arguments: [
    "", "me", "null", "[object Object]", "(erased)", "a b", "a\u{a0}b", "a\u{0}", "erased/00ff",
    String(repeating: "x", count: 101),
    String(repeating: "e\u{301}", count: 1_000_000),
    // 200 octets as sent, and 600 when normalized.
    String(repeating: "\u{1d160}", count: 50),
  ])
  func `a placeholder, a space, a slash, and what is too long are refused`(id: String) {
    #expect(UserID(appUserID: id) == nil)
  }

  @Test(arguments: [
    "no_user", "null", "none", "nil", "(null)", "NaN", "unidentified", "undefined", "unknown", "anonymous", "guest",
    "-1", "0", "[]", "{}", "[object Object]", "", "me",
  ])
  func `a placeholder for an ID names nobody, in every dialect`(id: String) {
    #expect(UserID(valid: id) == nil && UserID(fromOutside: id) == nil)
    #expect(UserID(valid: "user-\(id.filter(\.isLetter))") != nil)
  }

  @Test func `composed and decomposed letters are one user, octet by octet`() throws {
    let (composed, decomposed) = ("jos\u{e9}", "jose\u{301}")
    #expect(!composed.utf8.elementsEqual(decomposed.utf8))
    let user = try #require(UserID(appUserID: decomposed))
    #expect(user.rawValue.utf8.elementsEqual(composed.utf8))
    #expect(UserID(appUserID: composed) == user)
    // As in the tables: Swift's texts are the same.
    #expect(composed == decomposed && UserID(composed) != UserID(decomposed))
    #expect(Set([UserID(composed), UserID(decomposed), user]).count == 2)
  }
}
