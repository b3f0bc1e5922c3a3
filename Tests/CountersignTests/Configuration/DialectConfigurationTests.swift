import CountersignServer
import Entitlements
import Testing

@testable import Countersign

@Suite("Dialects and public keys in the configuration")
struct DialectConfigurationTests {
  private static let key = "{ name: ios, key: appl_AbCdEfGhIjKl, bundle_id: com.example.app }"

  @Test func `dialects are named, from the file or the environment`() throws {
    #expect(try SampleConfiguration().load().dialects.isEmpty)
    let text = SampleConfiguration().yaml + "dialects: [revenuecat, trial_api]\n"
    #expect(try loadYAML(text).dialects == [.revenuecat, .trialAPI])
    let environment = ["COUNTERSIGN_DIALECTS": "cordova, openiap"]
    #expect(try SampleConfiguration().load(environment: environment).dialects == [.cordova, .openiap])
    let problems = problemsOf(SampleConfiguration().yaml + "dialects: [revenue_cat]\n")
    #expect(problems.count == 1 && problems.first?.contains("did you mean revenuecat") == true, "\(problems)")
  }

  @Test func `a public key names an app`() throws {
    let keys = try SampleConfiguration().setting("auth.public_keys", "[\(Self.key)]").load().auth.publicKeys
    #expect(keys == [PublicKey(name: "ios", key: "appl_AbCdEfGhIjKl", bundleID: "com.example.app")])
  }

  @Test(arguments: [
    ("[{ name: ios, key: appl_AbCdEfGhIjKl }]", "lacks bundle_id"),
    ("[{ name: ios, key: short, bundle_id: com.example.app }]", "key must be 8 to 128"),
    ("[{ name: ios, key: 'with a space', bundle_id: com.example.app }]", "key must be 8 to 128"),
    ("[{ name: a b, key: appl_AbCdEfGhIjKl, bundle_id: com.example.app }]", "name must be"),
    ("[{ name: ios, key: appl_AbCdEfGhIjKl, bundle_id: com.example.other }]", "does not list"),
    ("[\(key), \(key)]", "given twice"),
    ("[\(key), { name: b, key: appl_AbCdEfGhIjKl, bundle_id: com.example.app }]", "the key of another one"),
    ("[{ name: ios, role: service, key: appl_AbCdEfGhIjKl, bundle_id: com.example.app }]", "a key that is none of"),
  ])
  func `a wrong public key is refused by name`(keys: String, says: String) {
    let problems = SampleConfiguration().setting("auth.public_keys", keys).problems()
    #expect(problems.count == 1 && problems.first?.contains(says) == true, "\(problems)")
  }

  @Test func `the key of a server is never an app's`() {
    let server = "[{ name: backend, role: service, sha256: \(Settings.sha256("appl_AbCdEfGhIjKl")) }]"
    let problems = SampleConfiguration().setting("auth.api_keys", server)
      .setting("auth.public_keys", "[\(Self.key)]").problems()
    #expect(problems.count == 1 && problems.first?.contains("an app would give it to everybody") == true, "\(problems)")
  }
}
