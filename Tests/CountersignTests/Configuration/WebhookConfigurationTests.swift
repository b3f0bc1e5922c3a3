import Foundation
import Testing
import Webhooks

@testable import Countersign

/// The receivers of events.
@Suite struct WebhookConfigurationTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func file(_ text: String) throws -> String { try directory.write("\(UUID())", text) }

  private func read(_ item: String) throws -> [WebhookEndpoint] {
    try loadYAML(SampleConfiguration().yaml + "webhooks: [\(item)]\n").webhooks
  }

  @Test func `without one nobody is told`() throws {
    #expect(try SampleConfiguration().load().webhooks == [])
  }

  @Test func `a receiver has a URL and a secret; the rest has defaults`() throws {
    let (one, other) = (try file("\(WebhookTests.secret)\n"), try file(WebhookTests.newSecret))
    let plain = try #require(try read("{ url: 'https://shop.example/hook', secret_file: \(one) }").first)
    #expect(plain.name == "shop.example" && plain.url == "https://shop.example/hook" && plain.events == [])
    #expect(
      plain.format == .countersign && !plain.isPrivate
        && plain.secrets == [WebhookTests.secret].compactMap { WebhookSecret($0) })
    let whole = try #require(
      try read(
        """
        { name: shop, url: 'http://10.0.0.7:8080/hook', secret_file: [\(other), \(one)], events: [trial.*, grant.ended, \
        paywall_viewed], format: revenuecat, private: true }
        """
      ).first)
    #expect(whole.name == "shop" && whole.isPrivate && whole.format == .revenuecat)
    #expect(whole.secrets == [WebhookTests.newSecret, WebhookTests.secret].compactMap { WebhookSecret($0) })
    #expect(whole.events == ["trial.*", "grant.ended", "paywall_viewed"])
    // RevenueCat's format names the app.
    #expect(whole.appID == "com.example.app" && plain.appID == nil)
    let named = "{ url: 'https://shop.example/hook', secret_file: \(one), format: revenuecat, app_id: app0000000001 }"
    #expect(try read(named).first?.appID == "app0000000001")
  }

  @Test func `a wrong value stops the start, and shows neither a secret nor a path`() throws {
    let secret = try file(WebhookTests.secret)
    let (short, plain) = (try file("whsec_AAECAw=="), try file("a-secret-without-form"))
    let url = "url: 'https://shop.example/hidden'"
    let cases: [(String, String)] = [
      ("{ \(url) }", "lacks secret_file"), ("{ secret_file: \(secret) }", "lacks url"),
      ("{ url: 'http://shop.example/hidden', secret_file: \(secret) }", "private: true"),
      ("{ url: 'ftp://shop.example/hidden', secret_file: \(secret) }", "https"),
      ("{ url: 'https://u:hidden@shop.example/', secret_file: \(secret) }", "user name"),
      ("{ \(url), secret_file: \(short) }", "24 to 64"), ("{ \(url), secret_file: \(plain) }", "whsec_"),
      ("{ \(url), secret_file: [] }", "secret_file"), ("{ \(url), secret_file: /nowhere/at/all }", "secret_file"),
      ("{ \(url), secret_file: \(secret), format: xml }", "format"),
      ("{ \(url), secret_file: \(secret), app_id: app1 }", "app_id is for format revenuecat"),
      ("{ \(url), secret_file: \(secret), private: perhaps }", "true or false"),
      ("{ \(url), secret_file: \(secret), events: [subscription.begun] }", "there is no"),
      ("{ \(url), secret_file: \(secret), events: [other.*] }", "there is no"),
      ("{ \(url), secret_file: \(secret), events: grant.ended }", "list"),
      ("{ \(url), secret_file: \(secret), colour: red }", "none of name"),
      ("{ \(url), secret_file: \(secret), name: 'a b' }", "letters"),
      ("{ \(url), secret_file: \(secret) }, { \(url), secret_file: \(secret) }", "twice"),
    ]
    for (item, sentence) in cases {
      let problems = "\(problemsOf(SampleConfiguration().yaml + "webhooks: [\(item)]\n"))"
      #expect(problems.contains("webhooks") && problems.contains(sentence), "\(item): \(problems)")
      for hidden in ["hidden", "MfKQ", "AAECAw", "a-secret-without-form"] { #expect(!problems.contains(hidden)) }
    }
  }

  @Test func `a receiver of Apple's notifications has a URL, and no secret of ours`() throws {
    func text(_ item: String, _ more: String = "") -> String {
      SampleConfiguration().yaml + more + "notifications:\n  forward: [\(item)]\n"
    }
    let url = "url: 'https://shop.example/hidden'"
    let plain = try #require(try loadYAML(text("{ \(url) }")).webhooks.first)
    #expect(plain.name == "shop.example" && plain.format == .appStore && plain.secrets.isEmpty && !plain.isPrivate)
    let whole = try #require(
      try loadYAML(text("{ name: other, url: 'http://10.0.0.7/hidden', private: true }")).webhooks.first)
    #expect(whole.name == "other" && whole.isPrivate)
    let secret = try file(WebhookTests.secret)
    for (yaml, sentence) in [
      (text("{ name: other }"), "lacks url"), (text("{ \(url), secret_file: \(secret) }"), "none of name"),
      (text("{ \(url) }, { \(url) }"), "twice"),
      (text("{ \(url) }", "events: { keep: 7d }\n"), "events.keep"),
      (SampleConfiguration().yaml + "webhooks: [{ \(url), secret_file: \(secret), format: app_store }]\n", "forward"),
    ] {
      let problems = "\(problemsOf(yaml))"
      #expect(problems.contains(sentence) && !problems.contains("hidden"), "\(yaml): \(problems)")
    }
  }
}
