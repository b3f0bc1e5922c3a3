import Access
import Crypto
import Entitlements
import Testing

@testable import Countersign

@Suite("Trials and DeviceCheck in the configuration")
struct TrialsConfigurationTests {
  private static let pem = P256.Signing.PrivateKey().pemRepresentation

  private func deviceCheck(_ members: [String: String?] = [:]) -> SampleConfiguration {
    let key = "\"\(Self.pem.replacing("\n", with: "\\n"))\""
    let all = ["key": key, "key_id": "2X9R4HXF34", "team_id": "8MN25XGXVQ"].merging(members) { $1 }
    return all.reduce(SampleConfiguration()) { sample, member in
      member.value.map { sample.setting("device_check.\(member.key)", $0) } ?? sample
    }
  }

  @Test func `a trial says what it gives, for how long, and what allows one only`() throws {
    let trials = try SampleConfiguration()
      .setting("trials.week", "{ tier: pro, length: 7d, sessions: 30, once_per: [device] }")
      .setting("trials.day", "{ tier: pro, length: 24h }").load().trials
    #expect(
      trials.sorted { $0.length > $1.length } == [
        TrialTerms(name: "week", tier: "pro", length: .seconds(7 * 86_400), sessions: 30, oncePer: [.device]),
        TrialTerms(name: "day", tier: "pro", length: .seconds(86_400)),
      ])
    #expect(TrialTerms(name: "day", tier: "pro", length: .zero).oncePer == [.device, .user, .storeAccount])
    #expect(try SampleConfiguration().load().trials.isEmpty)
  }

  @Test(arguments: [
    ("{ length: 7d }", "lacks tier"), ("{ tier: pro }", "lacks length"),
    ("{ tier: gold, length: 7d }", "gold"), ("{ tier: free, length: 7d }", "the lowest one"),
    ("{ tier: pro, length: 7 }", "length"), ("{ tier: pro, length: 7d, sessions: 0 }", "sessions"),
    ("{ tier: pro, length: 7d, once_per: [] }", "once_per must be a list"),
    ("{ tier: pro, length: 7d, once_per: [phone] }", "once_per"),
    ("{ tier: pro, length: 7d, per: device }", "none of tier"), ("[week]", "must be a mapping"),
  ])
  func `a wrong trial is refused by name`(trials: String, says: String) throws {
    let problems = SampleConfiguration().setting("trials.week", trials).problems()
    #expect(problems.count == 1 && problems.first?.contains(says) == true, "\(problems)")
  }

  @Test func `DeviceCheck has a key, its ID and the team`() throws {
    let section = try #require(try deviceCheck(["require": "true"]).load().deviceCheck)
    #expect(section.keyID == "2X9R4HXF34" && section.teamID == "8MN25XGXVQ" && section.isRequired)
    #expect(section.productionURL == "https://api.devicecheck.apple.com")
    #expect(section.developmentURL == "https://api.development.devicecheck.apple.com")
    #expect(try SampleConfiguration().load().deviceCheck == nil)
    var dump = ""
    Swift.dump(section, to: &dump)
    let secret = try #require(Self.pem.split(separator: "\n").dropFirst().first)
    #expect(!dump.contains(secret))
  }

  @Test(arguments: [
    (["key_id": String?.none], "device_check.key_id: is missing"),
    (["team_id": nil], "device_check.team_id: is missing"),
    (["key": nil], "device_check.key: is missing"), (["team_id": "a/b"], "The team ID is not one of Apple's"),
    (["key_id": "a/b"], "The key ID is not one of Apple's"), (["require": "perhaps"], "device_check.require"),
    (["production_url": "http://a.example"], "must be an https:// URL"),
  ])
  func `an unusable value is refused by its key's name`(members: [String: String?], says: String) throws {
    let problems = deviceCheck(members).problems()
    #expect(problems.count == 1 && problems.first?.contains(says) == true, "\(problems)")
  }
}
