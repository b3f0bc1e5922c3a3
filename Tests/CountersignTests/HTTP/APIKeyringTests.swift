import Crypto
import Testing

@testable import CountersignServer

@Suite struct APIKeyringTests {
  @Test func `only the very key is its caller`() throws {
    let keyring = APIKeyring([try key("cron", .service, "correct horse"), try key("desk", .support, "battery staple")])
    #expect(keyring.caller(presenting: "correct horse") == ServerCaller(name: "cron", roles: [.service]))
    #expect(keyring.caller(presenting: "battery staple") == ServerCaller(name: "desk", roles: [.support]))
    for wrong in ["", "correct hors", "correct horse ", "Correct horse", Settings.sha256("correct horse")] {
      #expect(keyring.caller(presenting: wrong) == nil)
    }
  }

  @Test func `keys are replaced for whoever comes from then on`() throws {
    let old = try key("cron", .service, "correct horse")
    let keyring = APIKeyring([old])
    #expect(keyring.replace(by: [try key("desk", .support, "battery staple")]) == [old])
    #expect(keyring.caller(presenting: "correct horse") == nil)
    #expect(keyring.caller(presenting: "battery staple") == ServerCaller(name: "desk", roles: [.support]))
  }

  @Test func `the digest of a key is written in lower case`() {
    let digits = Settings.sha256("correct horse")
    #expect(APIKey.Digest(hexadecimal: digits) != nil)
    #expect(APIKey.Digest(hexadecimal: digits.uppercased()) == nil)
  }

  private func key(_ name: String, _ role: APIKey.Role, _ secret: String) throws -> APIKey {
    let digest = try #require(APIKey.Digest(hexadecimal: Settings.sha256(secret)))
    return APIKey(name: name, roles: [role], digest: digest)
  }
}
