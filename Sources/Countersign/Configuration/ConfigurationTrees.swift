import AppStore
import CountersignServer
import Entitlements
import Yams

extension Catalog {
  /// Reads `catalog`: the tiers, and a mapping from product ID to tier and kind.
  init?(_ reader: inout ConfigurationReader) {
    var tiers = reader.list(.catalogTiers)
    if tiers?.isEmpty == true {
      reader.findings.problem(reader.origin(of: .catalogTiers), "must list at least one tier")
      tiers = nil
    }
    let rows: [Node.Mapping.Element] = reader.products().map { Array($0) } ?? []
    let key = ConfigurationKey.catalogProducts.rawValue
    var products: [ProductID: Product] = [:]
    for (idNode, node) in rows {
      let origin = reader.file.origin(of: key, line: idNode.mark?.line)
      guard let id = idNode.plainKey, !id.isEmpty, id.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
        reader.findings.problem(origin, "a product ID must be one word")
        continue
      }
      guard
        let fields = reader.fields(
          of: node, known: ["tier", "kind"], required: ["tier"], what: "product \(ConfigurationValue.quoted(id))",
          origin: origin)
      else { continue }
      let kindName = fields["kind"] ?? ProductKind.subscription.rawValue
      let kinds = ProductKind.allCases.map(\.rawValue)
      guard let tier = fields["tier"], let kind = ProductKind(rawValue: kindName) else {
        reader.findings.problem(
          origin,
          "product \(ConfigurationValue.quoted(id)): kind must be \(ConfigurationValue.alternatives(kinds)), not "
            + ConfigurationValue.quoted(kindName) + Suggestion.clause(for: kindName, among: kinds))
        continue
      }
      // Without tiers the rest of a product is still checked, so that one run reports all problems.
      guard let tiers else { continue }
      guard tiers.contains(tier) else {
        reader.findings.problem(
          origin,
          "product \(ConfigurationValue.quoted(id)): catalog.tiers does not list the tier "
            + ConfigurationValue.quoted(tier) + Suggestion.clause(for: tier, among: tiers))
        continue
      }
      products[ProductID(id)] = Product(tier: Tier(tier), kind: kind)
    }
    if rows.isEmpty {
      reader.findings.warning(key, "no product is catalogued: no purchase grants more than the lowest tier")
    }
    guard let tiers else { return nil }
    do throws(Invalid) {
      try self.init(tiers: tiers.map { Tier($0) }, products: products)
    } catch {
      // All causes were checked above, where a message can give the line.
      reader.findings.problem(key, "does not fit catalog.tiers")
      return nil
    }
  }
}

extension ServiceConfiguration.Auth {
  /// Reads `auth`: the credentials of callers.
  init?(_ reader: inout ConfigurationReader, requiresCredential: Bool) {
    let key = ConfigurationKey.authAPIKeys.rawValue
    let rows = reader.apiKeys().map { Array($0) } ?? []
    var keys: [APIKey] = []
    for node in rows {
      let origin = reader.file.origin(of: key, line: node.mark?.line)
      guard let apiKey = APIKey(node, &reader, origin: origin) else { continue }
      if keys.contains(where: { $0.name == apiKey.name }) {
        reader.findings.problem(origin, "the name \(ConfigurationValue.quoted(apiKey.name)) is given twice")
      } else if let other = keys.first(where: { $0.digest == apiKey.digest }) {
        reader.findings.problem(
          origin,
          "\(ConfigurationValue.quoted(apiKey.name)) has the same sha256 as \(ConfigurationValue.quoted(other.name))")
      } else {
        keys.append(apiKey)
      }
    }
    let problemsBefore = reader.findings.problems.count
    let jwt = JWT.read(&reader)
    // Problems of the token settings were already reported.
    let isJWTSound = reader.findings.problems.count == problemsBefore
    if rows.isEmpty, jwt == nil, isJWTSound, requiresCredential, !reader.isExcused(.authAPIKeys) {
      reader.findings.problem(
        key,
        "nobody could call: give at least one {name, role, sha256}; for the hash: printf %s \"$KEY\" | sha256sum; "
          + "or let users call by auth.jwt")
    }
    self.init(apiKeys: keys, jwt: jwt)
  }
}

extension APIKey {
  /// One item of `auth.api_keys`. The value of `sha256` is never quoted in a message: it may be the key itself.
  fileprivate init?(_ node: Node, _ reader: inout ConfigurationReader, origin: String) {
    let names = ["name", "role", "sha256"]
    guard let fields = reader.fields(of: node, known: names, required: names, what: "an API key", origin: origin),
      let name = fields["name"], let roleName = fields["role"], let hash = fields["sha256"]
    else { return nil }
    guard name.wholeMatch(of: /[A-Za-z0-9._-]{1,64}/) != nil else {
      reader.findings.problem(origin, "name must be up to 64 letters, digits and . _ -")
      return nil
    }
    let roles = Role.allCases.map(\.rawValue)
    let role = Role(rawValue: roleName)
    if role == nil {
      reader.findings.problem(
        origin,
        "\(ConfigurationValue.quoted(name)): role must be \(ConfigurationValue.alternatives(roles)), not "
          + ConfigurationValue.quoted(roleName) + Suggestion.clause(for: roleName, among: roles))
    }
    let digest = Digest(hexadecimal: hash)
    if digest == nil {
      reader.findings.problem(
        origin,
        "\(ConfigurationValue.quoted(name)): sha256 must be the SHA-256 of the key in 64 lower-case hexadecimal digits; "
          + "printf %s \"$KEY\" | sha256sum prints it")
    }
    guard let role, let digest else { return nil }
    self.init(name: name, role: role, digest: digest)
  }
}

extension ConfigurationReader {
  /// The members of a small mapping of single values; a `null` counts as absent.
  ///
  /// - Returns: `nil` if anything is invalid, which is reported.
  mutating func fields(
    of node: Node, known: [String], required: [String], what: String, origin: String
  ) -> [String: String]? {
    guard case .mapping(let mapping) = node else {
      findings.problem(origin, "\(what) must be a mapping {\(known.joined(separator: ", "))}")
      return nil
    }
    var fields: [String: String] = [:]
    var isSound = true
    for (keyNode, value) in mapping {
      guard let key = keyNode.plainKey, known.contains(key) else {
        // The name is not quoted: in an API key's mapping it may be the key.
        let suggestion = Suggestion.clause(for: keyNode.plainKey ?? "", among: known)
        findings.problem(origin, "\(what) has a key that is none of \(known.joined(separator: ", "))" + suggestion)
        isSound = false
        continue
      }
      guard let text = value.scalar?.string else {
        findings.problem(origin, "\(what): \(key) must be a single value")
        isSound = false
        continue
      }
      if !value.isNull { fields[key] = text }
    }
    for key in required where isSound && fields[key] == nil {
      findings.problem(origin, "\(what) lacks \(key)")
      isSound = false
    }
    return isSound ? fields : nil
  }
}
