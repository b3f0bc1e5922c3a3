import HTTPTransport
import Testing

@testable import Countersign

@Suite("Users' tokens in the configuration")
struct JWTConfigurationTests {
  static let secret = "canary-secret-of-tests-that-is-long-enough"
  static let url = "https://project.supabase.co/auth/v1/.well-known/jwks.json"

  private func sample(_ members: String, keys: String? = nil) -> SampleConfiguration {
    var sample = SampleConfiguration().setting("auth.jwt", members)
    if let keys { sample = sample.setting("auth.api_keys", keys) }
    return sample
  }

  @Test func `without a secret and without a URL users cannot call`() throws {
    #expect(try SampleConfiguration().load().auth.jwt == nil)
    #expect(
      try sample("{secret: null, jwks_url: null, issuer: null, audience: null, leeway: 30s}").load().auth.jwt == nil)
  }

  @Test func `a secret or a key set will do, or both, with or without API keys`() throws {
    let bySecret = try sample("{secret: \(Self.secret), issuer: a, audience: b}", keys: "[]").load()
    #expect(bySecret.auth.jwt?.secret?.exposed == Self.secret)
    #expect(bySecret.auth.jwt?.leeway == .seconds(30))
    #expect(bySecret.warnings.isEmpty)
    let byURL = try sample("{jwks_url: \"\(Self.url)\", issuer: a, audience: authenticated, leeway: 0}").load()
    #expect(byURL.auth.jwt?.keySetURL == Self.url)
    #expect(byURL.auth.jwt?.audience == "authenticated")
    #expect(byURL.auth.jwt?.leeway == .zero)
    #expect(byURL.warnings.isEmpty)
    let both = try sample("{secret: \(Self.secret), jwks_url: \"\(Self.url)\", issuer: \"https://a/auth/v1\"}").load()
    #expect(both.auth.jwt?.secret != nil && both.auth.jwt?.keySetURL != nil)
    #expect(both.auth.jwt?.issuer == "https://a/auth/v1")
  }

  @Test func `the environment and a file can give the secret`() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("secret", Self.secret + "\n")
    for environment in [
      ["COUNTERSIGN_AUTH_JWT_SECRET": Self.secret], ["COUNTERSIGN_AUTH_JWT_SECRET_FILE": path],
    ] {
      #expect(try SampleConfiguration().load(environment: environment).auth.jwt?.secret?.exposed == Self.secret)
    }
    #expect(try sample("{secret_file: \"\(path)\"}").load().auth.jwt?.secret?.exposed == Self.secret)
  }

  @Test(arguments: [
    "http://127.0.0.1:9999/keys", "HTTP://localhost/keys?a=b", "http://[::1]:1/k", "https://a.test/k?b=c",
  ])
  func `a URL is https, or leads to this machine`(url: String) throws {
    #expect(try sample("{jwks_url: \"\(url)\", issuer: a}").load().auth.jwt?.keySetURL == url)
  }

  @Test(arguments: [
    (
      "{jwks_url: \"http://project.supabase.co/keys\"}",
      "must be an https:// URL: keys that are believed come from there"
    ),
    ("{jwks_url: \"http://127.0.0.1.evil.test/keys\"}", "must be an https:// URL"),
    ("{jwks_url: \"http://127.0.0.1@evil.test/keys\"}", "must be an https:// URL"),
    ("{jwks_url: \"file:///etc/passwd\"}", "must be an https:// URL such as"),
    ("{jwks_url: \"https://canary@a.test/\"}", "must not contain a user name or password"),
    ("{secret: canary-too-short}", "must have at least 32 characters"),
    ("{secret: \"-----BEGIN PUBLIC KEY-----\\ncanary\"}", "must be one word of printable ASCII"),
    ("{issuer: canary}", "has no effect without auth.jwt.secret or auth.jwt.jwks_url"),
    ("{audience: canary}", "has no effect without auth.jwt.secret or auth.jwt.jwks_url"),
    ("{secret: \(secret), leeway: 6m}", "must be from 0 to 5m"),
    ("{secret: \(secret), leeway: soon}", "must be a duration"),
    ("{secrets: \(secret)}", "did you mean auth.jwt.secret?"),
    ("canary", "must be a mapping"),
  ])
  func `an impossible value is refused with a sentence that does not show it`(members: String, says: String) {
    let problems = sample(members).problems()
    #expect(problems.count == 1, "\(problems)")
    #expect(problems.first?.contains(says) == true, "\(problems)")
    #expect(problems.first?.hasPrefix("auth.jwt") == true || problems.first?.contains(" line ") == true)
    #expect(problems.first?.contains("canary-") == false && problems.first?.contains("BEGIN") == false)
  }

  @Test func `a configuration without any caller is refused, with both ways named`() {
    let problems = SampleConfiguration().setting("auth.api_keys", nil).problems()
    #expect(problems.count == 1)
    #expect(problems.first?.contains("or let users call by auth.jwt") == true, "\(problems)")
  }

  @Test(arguments: [
    ("", "set auth.jwt.issuer and auth.jwt.audience"), (", issuer: a", "set auth.jwt.audience"),
    (", audience: a", "set auth.jwt.issuer"), (", issuer: a, audience: b", nil),
  ])
  func `keys without an issuer and an audience deserve a warning, as others may use them too`(
    members: String, says: String?
  ) throws {
    for (name, key) in [("jwks_url", "\"\(Self.url)\""), ("secret", Self.secret)] {
      let warnings = try sample("{\(name): \(key)\(members)}").load().warnings
      #expect(warnings.count == (says == nil ? 0 : 1))
      #expect(
        warnings.allSatisfy { $0.sentence.hasSuffix("; \(says ?? "")") && $0.origin.contains("auth.jwt.\(name)") })
    }
  }

  @Test(arguments: ["[10.0.0.0/33]", "[proxy.local]", "[\"*\"]", "[10.0.0.1, 10.0.0.0/8/8]"])
  func `a proxy is an address or a network`(text: String) {
    let problems = SampleConfiguration().setting("server.trusted_proxies", text).problems()
    #expect(problems.count == 1)
    #expect(problems.first?.contains("is neither an address nor a network such as 10.0.0.0/8") == true, "\(problems)")
  }
}
