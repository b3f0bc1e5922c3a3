import CountersignServer
import Entitlements
import HTTPTransport
import Tokens
import YAML

extension ServiceConfiguration {
  /// The credentials of callers.
  struct Auth: Hashable, Sendable {
    let apiKeys: [APIKey]
    let publicKeys: [PublicKey]
    /// `nil`: users cannot call.
    let jwt: JWT?
    /// `nil`: no access tokens are signed.
    let signing: Signing?

    init(_ reader: inout ConfigurationReader, requiresCredential: Bool) {
      let problemsBefore = reader.findings.problems.count
      let key = "auth.api_keys"
      let rows = reader.mappings(
        key, "of {name, role, sha256}",
        "Servers and staff that may call: `{name, role: service or support, sha256}`; `roles: [service, support]` in place "
          + "of `role` for both")
      var keys: [APIKey] = []
      for node in rows {
        let origin = reader.file.origin(of: key, line: node.line)
        guard let apiKey = APIKey(node, &reader, origin: origin) else { continue }
        if keys.contains(where: { $0.name == apiKey.name }) {
          reader.findings.problem(origin, "the name \(Quotation.of(apiKey.name)) is given twice")
        } else if let other = keys.first(where: { $0.digest == apiKey.digest }) {
          reader.findings.problem(
            origin, "\(Quotation.of(apiKey.name)) has the same sha256 as \(Quotation.of(other.name))")
        } else {
          keys.append(apiKey)
        }
      }
      apiKeys = keys
      publicKeys = Self.publicKeys(&reader, besides: keys)
      jwt = JWT(&reader)
      signing = Signing(&reader, canUsersCall: jwt != nil)
      if rows.isEmpty, jwt == nil, requiresCredential, !reader.file.isUnreadable,
        reader.findings.problems.count == problemsBefore
      {
        reader.problem(
          key,
          "nobody could call: give at least one {name, role, sha256}; for the hash: printf %s \"$KEY\" | sha256sum; "
            + "or let users call by auth.jwt")
      }
    }
  }
}

extension ServiceConfiguration.Auth {
  /// The names of the keys without a value, as words; `nil` where each has one.
  private static func unset(_ values: [(name: String, value: String?)]) -> String? {
    let names = values.filter { $0.value == nil }.map(\.name)
    return names.isEmpty ? nil : names.joined(separator: " and ")
  }

  /// The keys that apps carry. One may not be the key of a server: whoever has the app would have it.
  private static func publicKeys(_ reader: inout ConfigurationReader, besides servers: [APIKey]) -> [PublicKey] {
    let name = "auth.public_keys"
    let rows = reader.mappings(
      name, "of {name, key, bundle_id}",
      "Keys that apps carry, for SDKs and trials: `{name, key, bundle_id}`, in clear, as everybody who has the app "
        + "can read them")
    var keys: [PublicKey] = []
    for node in rows {
      let origin = reader.file.origin(of: name, line: node.line)
      guard let key = PublicKey(node, &reader, origin: origin) else { continue }
      let digest = APIKey.Digest(hexadecimal: APIKeyring.sha256(key.key))
      if keys.contains(where: { $0.name == key.name }) || servers.contains(where: { $0.name == key.name }) {
        reader.findings.problem(origin, "the name \(Quotation.of(key.name)) is given twice")
      } else if keys.contains(where: { $0.key == key.key }) {
        reader.findings.problem(origin, "\(Quotation.of(key.name)) has the key of another one")
      } else if servers.contains(where: { $0.digest == digest }) {
        reader.findings.problem(
          origin,
          "\(Quotation.of(key.name)) has the key of a server in auth.api_keys: an app would give it to everybody")
      } else {
        keys.append(key)
      }
    }
    return keys
  }

  /// The settings for signing access tokens.
  struct Signing: Hashable, Sendable {
    /// One key in PEM, or two.
    private let pem: Secret
    let keys: AccessTokenKeys
    let issuer: String?
    let audience: String?

    /// - Returns: `nil` without a key, and if anything is invalid, which is reported.
    fileprivate init?(_ reader: inout ConfigurationReader, canUsersCall: Bool) {
      let problemsBefore = reader.findings.problems.count
      let name = "auth.signing_key"
      let pem = reader.secret(
        name, .privateKey,
        "Private key on P-256 that signs users' access tokens, as `countersign keys new` makes one; during a change "
          + "two, and the first one signs. Without it there is no `/v1/profiles/me/token`")
      let issuer = reader.read("auth.signing_issuer", .text, "The `iss` of access tokens; none if not set")
      let audience = reader.read("auth.signing_audience", .text, "The `aud` of access tokens; none if not set")
      guard let pem else {
        // A key that cannot be read is one problem, and not three.
        guard reader.findings.problems.count == problemsBefore else { return nil }
        for (key, value) in [("auth.signing_issuer", issuer), ("auth.signing_audience", audience)] where value != nil {
          reader.problem(key, "has no effect without auth.signing_key_file; set it, or leave this out")
        }
        return nil
      }
      do throws(AccessTokenKeys.Invalid) { keys = try AccessTokenKeys(pem: pem.exposed) } catch {
        reader.problem(name, "\(error) countersign keys new makes one that can be used.")
        return nil
      }
      let claims = [("auth.signing_issuer", issuer), ("auth.signing_audience", audience)]
      if let unset = ServiceConfiguration.Auth.unset(claims) {
        reader.warning(
          name, "an access token does not say who made it for whom, so that others may take it; set \(unset)")
      }
      if !canUsersCall { reader.warning(name, "no user can ask for a token without auth.jwt") }
      self.pem = pem
      self.issuer = issuer
      self.audience = audience
    }

    static func == (one: Signing, other: Signing) -> Bool {
      (one.pem, one.issuer, one.audience) == (other.pem, other.issuer, other.audience)
    }

    func hash(into hasher: inout Hasher) { hasher.combine(pem) }
  }

  /// The settings for verifying users' tokens.
  struct JWT: Hashable, Sendable {
    /// Bytes. A key shorter than the hash can be brute-forced (RFC 7518, section 3.2).
    static let shortestSecret = 32

    /// For HS256. At least one of this and `keySetURL` is set.
    let secret: Secret?
    /// For RS256 and ES256.
    let keySetURL: String?
    let issuer: String?
    let audience: String?
    /// The tolerated difference of clocks.
    let leeway: Duration

    /// - Returns: `nil` if users cannot call, and if anything is invalid, which is reported.
    fileprivate init?(_ reader: inout ConfigurationReader) {
      let problemsBefore = reader.findings.problems.count
      secret = reader.secret(
        "auth.jwt.secret", .word,
        "Secret that signs users' tokens (HS256); at least \(Self.shortestSecret) characters")
      keySetURL = reader.read(
        "auth.jwt.jwks_url", .keySetURL,
        "URL of the public keys of users' tokens (RS256, ES256)")
      issuer = reader.read("auth.jwt.issuer", .text, "The `iss` that users' tokens must have; any if not set")
      audience = reader.read("auth.jwt.audience", .text, "The `aud` that users' tokens must have; any if not set")
      leeway = reader.read(
        "auth.jwt.leeway", .duration(.zero ... .minutes(5)), default: .seconds(30),
        "How far the token issuer's clock may differ from ours")
      if let secret, secret.exposed.utf8.count < Self.shortestSecret {
        reader.findings.problem(
          "auth.jwt.secret",
          "must have at least \(Self.shortestSecret) characters: whoever finds it by trying can sign as any user")
      }
      guard reader.findings.problems.count == problemsBefore else { return nil }
      guard secret != nil || keySetURL != nil else {
        for (name, value) in [("auth.jwt.issuer", issuer), ("auth.jwt.audience", audience)] where value != nil {
          reader.problem(name, "has no effect without auth.jwt.secret or auth.jwt.jwks_url; set one of them")
        }
        return nil
      }
      let claims = [("auth.jwt.issuer", issuer), ("auth.jwt.audience", audience)]
      if let unset = ServiceConfiguration.Auth.unset(claims) {
        reader.warning(
          keySetURL != nil ? "auth.jwt.jwks_url" : "auth.jwt.secret",
          "a token counts that the same keys sign for another app or use; set \(unset)")
      }
    }
  }
}

extension APIKey {
  /// One item of `auth.api_keys`. The value of `sha256` is never quoted in a message: it may be the key itself.
  fileprivate init?(_ node: Node, _ reader: inout ConfigurationReader, origin: String) {
    let what = "an API key"
    guard
      let members = reader.members(
        of: node, known: ["name", "role", "roles", "sha256"], required: ["name", "sha256"], what: what, origin: origin),
      let name = reader.single(members["name"], "\(what): name", origin: origin),
      let hash = reader.single(members["sha256"], "\(what): sha256", origin: origin)
    else { return nil }
    guard isName(name, &reader, origin: origin) else { return nil }
    guard (members["role"] == nil) != (members["roles"] == nil) else {
      reader.findings.problem(
        origin,
        members["role"] == nil
          ? "\(what) lacks role" : "\(Quotation.of(name)) has both role and roles; keep one of them")
      return nil
    }
    let key = members["role"] == nil ? "roles" : "role"
    let words =
      if let node = members["role"] {
        [reader.single(node, "\(Quotation.of(name)): role", origin: origin)].compactMap(\.self)
      } else {
        reader.words(members["roles"], "\(Quotation.of(name)): roles", origin: origin)
      }
    let roles = words.compactMap {
      reader.field($0, ValueForm<Role>.choice, "\(Quotation.of(name)): \(key)", origin: origin)
    }
    if members["roles"]?.sequence?.isEmpty == true {
      reader.findings.problem(origin, "\(Quotation.of(name)): roles is empty")
    }
    let digest = Digest(hexadecimal: hash)
    if digest == nil {
      reader.findings.problem(
        origin,
        "\(Quotation.of(name)): sha256 must be the SHA-256 of the key in 64 lower-case hexadecimal digits; "
          + "printf %s \"$KEY\" | sha256sum prints it")
    }
    guard let digest, !roles.isEmpty, roles.count == words.count else { return nil }
    self.init(name: name, roles: Set(roles), digest: digest)
  }
}

extension PublicKey {
  /// One item of `auth.public_keys`.
  fileprivate init?(_ node: Node, _ reader: inout ConfigurationReader, origin: String) {
    let names = ["name", "key", "bundle_id"]
    guard let fields = reader.fields(of: node, known: names, required: names, what: "a public key", origin: origin),
      let name = fields["name"], let key = fields["key"], let bundleID = fields["bundle_id"]
    else { return nil }
    guard isName(name, &reader, origin: origin) else { return nil }
    guard key.wholeMatch(of: /[A-Za-z0-9_-]{8,128}/) != nil else {
      reader.findings.problem(
        origin, "\(Quotation.of(name)): key must be 8 to 128 letters, digits, _ and -, such as appl_ and 27 letters")
      return nil
    }
    guard bundleID.wholeMatch(of: /[A-Za-z0-9.-]{1,155}/) != nil else {
      reader.findings.problem(origin, "\(Quotation.of(name)): bundle_id must be letters, digits, . and -")
      return nil
    }
    self.init(name: name, key: key, bundleID: BundleID(bundleID))
  }
}

/// Whether a text can name a key; the name stands in logs and in the history.
private func isName(_ name: String, _ reader: inout ConfigurationReader, origin: String) -> Bool {
  guard name.wholeMatch(of: /[A-Za-z0-9._-]{1,64}/) != nil else {
    reader.findings.problem(origin, "name must be up to 64 letters, digits and . _ -")
    return false
  }
  return true
}
