package import HTTPTransport

extension PostgRESTProfileStore {
  /// Where the profiles are and how their columns are called.
  package struct Configuration: Hashable, Sendable {
    /// What tables stand under: `https://project.supabase.co/rest/v1`, or a bare server's `http://host:3000`. Without
    /// query and fragment.
    package var url: String
    /// A secret key (`sb_secret_…`) or a signed token of a role that may write: `service_role` alone under the lock of
    /// `samples/supabase`.
    package var key: Secret
    /// `nil`: the server's first, usually `public`.
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

  /// The key of the store needs SELECT and UPDATE on each of these, as every answer shows the row.
  package struct Columns: Hashable, Sendable {
    /// Holds the user ID; unique.
    package var id = PostgRESTName(known: "id")
    package var tier = PostgRESTName(known: "subscription_tier")
    package var status = PostgRESTName(known: "subscription_status")
    /// `timestamptz`, may be null.
    package var expiresAt = PostgRESTName(known: "subscription_expires_at")
    /// Text, may be null.
    package var originalTransactionID = PostgRESTName(known: "original_transaction_id")
    /// `bigint not null default 0`: a row is then written only when its number is lower than the update's. `nil`: every
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
