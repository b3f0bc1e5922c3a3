import Profiles

extension ServiceConfiguration {
  /// The location of the app's profiles, and the settings of their updates.
  struct ProfileStoreConfiguration: Hashable, Sendable {
    let postgREST: PostgRESTProfileStore.Configuration
    /// For one update, all of its requests included.
    let deadline: Duration
    /// CA certificates for TLS, in place of the system's.
    let caFile: String?

    /// Whether the store has no TLS, which a transport refuses unless it is allowed.
    var isPlain: Bool { postgREST.url.lowercased().hasPrefix("http://") }

    /// Whether its rows have versions.
    var hasVersions: Bool { postgREST.columns.version != nil }

    /// - Returns: `nil` without a store, and if anything is invalid, which is reported.
    init?(_ reader: inout ConfigurationReader) {
      let problemsBefore = reader.findings.problems.count
      let url = reader.read(
        "profile_store.url", .baseURL,
        "PostgREST API with the app's profiles, `https://project.supabase.co/rest/v1`; without it no profiles are "
          + "written")
      let key = reader.secret(
        "profile_store.key", .word,
        "Its secret key, or a token of service_role (without samples/supabase, of any role that may write); required "
          + "with the URL")
      let schema = reader.read(
        "profile_store.schema", .name, "Schema of the profiles, if it is not the first that PostgREST exposes")
      let table = reader.read("profile_store.table", .name, default: .profiles, "Table of the profiles")
      let columns = PostgRESTProfileStore.Columns(&reader)
      deadline = reader.read(
        "profile_store.deadline", .duration(.milliseconds(100) ... .minutes(1)), default: .seconds(2),
        "How long a request waits for the profile to be written; a slower write is completed later")
      caFile = reader.read(
        "profile_store.ca_file", .file,
        "Certificate authorities to trust for TLS to the store (PEM), in place of the system's")
      // Spelled-out defaults, as in the sample, do not enable the store.
      let isMeant =
        url != nil || key != nil || schema != nil || table != .profiles || columns != .init() || caFile != nil
      guard isMeant, reader.findings.problems.count == problemsBefore else { return nil }
      guard let url, let key else {
        for name in ["profile_store.url", "profile_store.key"] {
          reader.reportMissing(name, unless: "leave the rest of profile_store out")
        }
        return nil
      }
      postgREST = PostgRESTProfileStore.Configuration(
        url: url, key: key, schema: schema, table: table, columns: columns)
      if isPlain, !Loopback.contains(url: url) {
        reader.warning(
          "profile_store.url", "is not encrypted: the key and every update can be read on the way; use https")
      }
    }
  }
}

extension PostgRESTProfileStore.Columns {
  fileprivate init(_ reader: inout ConfigurationReader) {
    self.init()
    id = reader.read("profile_store.columns.id", .name, default: id, "Column of the user ID; unique")
    tier = reader.read("profile_store.columns.tier", .name, default: tier, "Column of the tier")
    status = reader.read("profile_store.columns.status", .name, default: status, "Column of the status")
    expiresAt = reader.read(
      "profile_store.columns.expires_at", .name, default: expiresAt,
      "Column of the time at which access ends; `timestamptz`, may be null")
    originalTransactionID = reader.read(
      "profile_store.columns.original_transaction_id", .name, default: originalTransactionID,
      "Column of the original transaction ID; may be null")
    version = reader.read(
      "profile_store.columns.version", .name,
      "Column of a version, `bigint not null default 0`: with it, an older update never overwrites a newer one")
    if Set(all).count < all.count { reader.findings.problem("profile_store.columns", "names one column twice") }
  }
}
