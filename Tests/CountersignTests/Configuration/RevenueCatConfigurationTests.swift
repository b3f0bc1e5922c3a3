import Foundation
import HTTPTransport
import Testing

@testable import Countersign

/// The secrets of RevenueCat's webhooks.
@Suite struct RevenueCatConfigurationTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func file(_ text: String) throws -> String { try directory.write("\(UUID())", text) }

  @Test func `without a file its webhooks are not taken`() throws {
    #expect(try SampleConfiguration().load().revenueCat == nil)
  }

  @Test func `a path, or a list of two, in the file and in the environment`() throws {
    let (one, other) = (try file("Bearer one\n"), try file("two"))
    func read(_ value: String, environment: [String: String] = [:]) throws -> [String] {
      let sample = SampleConfiguration().setting("revenuecat.authorization_file", value)
      return try sample.load(environment: environment).revenueCat?.authorizations.map(\.exposed) ?? []
    }
    #expect(try read(one) == ["Bearer one"])
    #expect(try read("[\(one), \(other)]") == ["Bearer one", "two"])
    #expect(
      try read(one, environment: ["COUNTERSIGN_REVENUECAT_AUTHORIZATION_FILE": "\(other),\(one)"])
        == ["two", "Bearer one"])
    let signed = try SampleConfiguration().setting("revenuecat.signing_secret_file", other).load()
    #expect(signed.revenueCat?.signingSecrets.map(\.exposed) == ["two"] && signed.revenueCat?.authorizations == [])
  }

  @Test func `a wrong value stops the start, and shows no secret`() throws {
    let (word, empty, lines) = (try file("secret-word"), try file(""), try file("two\nlines\n"))
    for value in ["/nowhere/at/all", "[]", "[\(word), \(word), \(word)]", empty, lines, "{ a: b }"] {
      let problems = SampleConfiguration().setting("revenuecat.signing_secret_file", value).problems()
      #expect(problems.contains { "\($0)".contains("revenuecat.signing_secret_file") }, "\(value): \(problems)")
      #expect(!"\(problems)".contains("secret-word"))
    }
  }
}
