package import HTTPTransport

extension PostgRESTProfileStore {
  /// The location of the profiles and the names of their columns.
  package struct Configuration: Hashable, Sendable {
    /// The base URL of the tables: `https://project.supabase.co/rest/v1`, or a bare server's `http://host:3000`.
    /// Without query and fragment.
    package var url: String
    /// A secret key (`sb_secret_…`) or a signed token of a role with write access: `service_role` only, under the lock
    /// of `samples/supabase`.
    package var key: Secret
    /// `nil`: the server's default, usually `public`.
    package var schema: PostgRESTName?
    package var table: PostgRESTName
    package var columns: Columns

    package init(
      url: String, key: Secret, schema: PostgRESTName? = nil, table: PostgRESTName = .profiles,
      columns: Columns = Columns()
    ) {
      self.url = url
      self.key = key
      self.schema = schema
      self.table = table
      self.columns = columns
    }
  }

  /// The key needs SELECT and UPDATE on each of these columns, as every response includes the row.
  package struct Columns: Hashable, Sendable {
    /// The user ID; unique.
    package var id = PostgRESTName(known: "id")
    package var tier = PostgRESTName(known: "subscription_tier")
    package var status = PostgRESTName(known: "subscription_status")
    /// `timestamptz`, may be null.
    package var expiresAt = PostgRESTName(known: "subscription_expires_at")
    /// Text, may be null.
    package var originalTransactionID = PostgRESTName(known: "original_transaction_id")
    /// `bigint not null default 0`: a row is then written only if its version is lower than the update's. `nil`: every
    /// update is written.
    package var version: PostgRESTName?

    package init() {}

    package var all: [PostgRESTName] {
      [id, tier, status, expiresAt, originalTransactionID] + (version.map { [$0] } ?? [])
    }
  }
}

extension PostgRESTName {
  package static let profiles = PostgRESTName(known: "profiles")
}
