import Access
import AppStore
import CountersignServer
import Cryptography
import Entitlements
import HTTPTransport
import YAML

extension ServiceConfiguration {
  /// Reads `trials`: from a name to what it gives, and how often.
  ///
  /// - Parameter tiers: all of the catalog, ascending; empty where the catalog is wrong.
  static func trials(_ reader: inout ConfigurationReader, tiers: [Tier]) -> [TrialTerms] {
    let rows = reader.mapping(
      "trials", "from trial to {tier, length}",
      "Trial to `{tier, length, sessions, once_per}`: its tier, its length, its number of sessions (optional), and "
        + "who may have one only: a list of `device`, `user` and `store_account` (default: all)")
    return rows.compactMap { nameNode, node in
      let origin = reader.file.origin(of: "trials", line: nameNode.line)
      guard let name = reader.name(nameNode, "a trial's name", origin: origin) else { return nil }
      let what = "trial \(Quotation.of(name))"
      let known = ["tier", "length", "sessions", "once_per"]
      guard
        let members = reader.members(of: node, known: known, required: ["tier", "length"], what: what, origin: origin),
        let tier = reader.single(members["tier"], "\(what): tier", origin: origin),
        let length = reader.value(
          members["length"], .duration(TrialTerms.lengthRange), "\(what): length", origin: origin)
      else { return nil }
      if !tiers.contains(Tier(tier)) {
        reader.reportUnlisted(tier: tier, among: tiers.map(\.rawValue), what, origin: origin)
      } else if Tier(tier) == tiers.first {
        reader.findings.problem(origin, "\(what): tier is the lowest one, which everybody has")
      }
      let sessions = reader.value(
        members["sessions"], .integer(1...TrialTerms.mostSessions), "\(what): sessions", origin: origin)
      return TrialTerms(
        name: name, tier: Tier(tier), length: length, sessions: sessions,
        oncePer: oncePer(members["once_per"], what, origin, &reader))
    }
  }

  private static func oncePer(
    _ node: Node?, _ what: String, _ origin: String, _ reader: inout ConfigurationReader
  ) -> Set<TrialKey> {
    guard let node else { return Set(TrialKey.allCases) }
    guard let items = node.sequence, !items.isEmpty else {
      reader.findings.problem(origin, "\(what): once_per must be a list of device, user and store_account")
      return []
    }
    return Set(items.compactMap { reader.value($0, .choice, "\(what): once_per", origin: origin) })
  }

  /// Apple's two bits for each device, of which the first one is whether it had a trial.
  struct DeviceCheckSection: Hashable, Sendable {
    let teamID: String
    let keyID: String
    /// In PEM; already parsed as a key when the configuration was read.
    let key: Secret
    let productionURL: String
    let developmentURL: String
    let caFile: String?
    /// Whether no trial begins while Apple is away.
    let isRequired: Bool

    /// - Returns: `nil` without a key, and if anything is invalid, which is reported.
    init?(_ reader: inout ConfigurationReader) {
      let problemsBefore = reader.findings.problems.count
      let key = reader.secret(
        "device_check.key", .privateKey,
        "Private key with DeviceCheck (a .p8 file of the developer account); with it Apple remembers the devices "
          + "that had a trial")
      let keyID = reader.read("device_check.key_id", .text, "The ID of that key; required with it")
      let teamID = reader.read("device_check.team_id", .text, "The ID of your team; required with the key")
      let sent = "device tokens are sent there and its answers are believed"
      productionURL = reader.appleURL(
        "device_check.production_url", DeviceCheck.Configuration.apple.production, gets: sent,
        "DeviceCheck for distributed apps")
      developmentURL = reader.appleURL(
        "device_check.development_url", DeviceCheck.Configuration.apple.development, gets: sent,
        "DeviceCheck for development builds (`development: true` in the request)")
      caFile = reader.read(
        "device_check.ca_file", .file,
        "Certificate authorities to trust for TLS to these two (PEM), in place of the "
          + "system's")
      isRequired =
        reader.read(
          "device_check.require", .choice, default: Requirement.no,
          "`true`: no trial begins without a device token, or while Apple is away") == .yes
      guard reader.findings.problems.count == problemsBefore, key != nil || keyID != nil || teamID != nil
      else { return nil }
      guard let key, let keyID, let teamID else {
        for name in ["key", "key_id", "team_id"] {
          reader.reportMissing("device_check.\(name)", unless: "leave the rest of device_check out")
        }
        return nil
      }
      self.key = key
      self.keyID = keyID
      self.teamID = teamID
      do throws(Unusable) { _ = try checkedConfiguration() } catch {
        reader.problem("device_check.\(error.name)", error.sentence)
      }
    }

    private enum Requirement: String, CaseIterable {
      case no = "false"
      case yes = "true"
    }

    /// The part that cannot be used, and why.
    struct Unusable: Error {
      var name: String
      var sentence: String
    }

    func checkedConfiguration() throws(Unusable) -> DeviceCheck.Configuration {
      let parsed: ES256PrivateKey
      do throws(ES256PrivateKey.Invalid) { parsed = try ES256PrivateKey(pem: key.exposed) } catch {
        throw Unusable(name: "key", sentence: "\(error) Give the .p8 file from Apple as it is.")
      }
      do throws(DeviceCheck.Configuration.Fault) {
        return try DeviceCheck.Configuration(
          teamID: teamID, keyID: keyID, key: parsed, productionURL: productionURL, developmentURL: developmentURL)
      } catch { throw Unusable(name: error == .teamID ? "team_id" : "key_id", sentence: error.description) }
    }
  }
}
