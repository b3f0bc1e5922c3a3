/// The short configuration that `countersign init` writes: only the keys that have no default.
struct FirstConfiguration {
  /// The key of the App Store Server API.
  struct ServerAPI {
    var keyFile: String
    var keyID: String
    var issuerID: String
  }

  struct OfferKey {
    var keyFile: String
    var keyID: String
    /// `nil`: that of the Server API.
    var issuerID: String?
  }

  struct ProfileStore {
    var url: String
    var keyFile: String
    /// The column that samples/supabase adds; `nil` for a table of another making.
    var version: String?
  }

  struct Product {
    var id: String
    var tier: String
  }

  var bundleIDs: [String]
  /// Ascending.
  var tiers: [String]
  var products: [Product]
  var sharedSecretFile: String?
  var serverAPI: ServerAPI?
  var offers: OfferKey?
  var ledger: String
  /// The project whose users may call, without a slash at its end.
  var supabase: String?
  var profileStore: ProfileStore?
  /// The SHA-256 of the API key.
  var keyDigest: String

  var text: String {
    """
    # Countersign, as `countersign init` made it. `countersign serve --help` lists all other keys, which have defaults.
    # Paths are relative to the directory in which the service starts.

    app_store:
      # Receipts of any other app are refused.
      bundle_ids: [\(bundleIDs.map(Self.scalar).joined(separator: ", "))]
    \(appStoreCredentials)
    catalog:
      # In ascending order; the first is for users who have bought nothing.
      tiers: [\(tiers.map(Self.scalar).joined(separator: ", "))]
      # A purchase for life: { tier: pro, kind: lifetime }.
      products:
    \(products.map { "    \(Self.scalar($0.id)): { tier: \(Self.scalar($0.tier)) }\n" }.joined())
    # Every purchase and verdict, in SQLite. Back it up: countersign backup.
    ledger: { path: \(Self.scalar(ledger)) }

    auth:
      # The SHA-256 of the key that your backend sends; the key itself is in no file.
      api_keys: [{ name: backend, role: service, sha256: \(Self.scalar(keyDigest)) }]
    \(users)\(profiles)
    """
  }

  private var appStoreCredentials: String {
    var lines = ""
    if let sharedSecretFile {
      lines += """
          # App Store Connect: \(AppStoreConnect.sharedSecret).
          shared_secret_file: \(Self.scalar(sharedSecretFile))

        """
    }
    if let serverAPI {
      lines += """
          # App Store Connect: \(AppStoreConnect.serverAPIKey).
          server_api:
            key_file: \(Self.scalar(serverAPI.keyFile))
            key_id: \(Self.scalar(serverAPI.keyID))
            issuer_id: \(Self.scalar(serverAPI.issuerID))

        """
    }
    if let offers {
      let issuerID = offers.issuerID.map { ", issuer_id: \(Self.scalar($0))" } ?? ""
      lines += """
          # Signs offers; without it the key of the Server API does.
          offers: { key_file: \(Self.scalar(offers.keyFile)), key_id: \(Self.scalar(offers.keyID))\(issuerID) }

        """
    }
    return lines
  }

  private var users: String {
    guard let supabase else { return "" }
    return """
        # Users of this project may call by themselves, with their token. If it still signs with its JWT secret, and not with
        # signing keys: secret_file in the place of jwks_url.
        jwt:
          jwks_url: \(Self.scalar(supabase + "/auth/v1/.well-known/jwks.json"))
          issuer: \(Self.scalar(supabase + "/auth/v1"))
          audience: authenticated

      """
  }

  private var profiles: String {
    guard let profileStore else { return "" }
    let version = profileStore.version.map { "  columns: { version: \(Self.scalar($0)) }\n" } ?? ""
    return """

      # Each user's row in the table `profiles` gets the tier. samples/supabase has the columns.
      profile_store:
        url: \(Self.scalar(profileStore.url))
        key_file: \(Self.scalar(profileStore.keyFile))
      \(version)
      """
  }

  /// A text as YAML reads it: plain where it can only be a text, and in quotes otherwise.
  static func scalar(_ text: String) -> String {
    let isPlain = text.wholeMatch(of: /[A-Za-z.\/][A-Za-z0-9._\/-]*(:\/\/[A-Za-z0-9._\/:-]*[A-Za-z0-9\/])?/) != nil
    guard !isPlain || ["null", "true", "false", "yes", "no", "on", "off", "y", "n"].contains(text.lowercased()) else {
      return text
    }
    return "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
  }
}
