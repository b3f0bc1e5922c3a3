package import Entitlements
package import HTTPTransport
package import Profiles
import Testing

/// The contract of any PostgREST in front of any PostgreSQL, and of whatever stands in for one.
///
///     let contract = ProfileStoreContract(baseURL: url, key: key, transport: transport, rows: rows)
///     try await contract.run(.supersedesOlder)
///
/// A test runs every `Scenario`, one after the other: they share rows. Failed expectations are recorded as issues of the
/// test that runs; an error that is thrown means that the scenario could not be played.
///
/// The table needs the columns of the configuration and a version column (`bigint not null default 0`); its tier takes
/// `free` and `pro` and nothing that begins with `no-such`. The original transaction ID may be unique or not.
package struct ProfileStoreContract: Sendable {
  package enum Scenario: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case checkIsOK = "the check of a healthy store is ok and changes nothing"
    case applies = "an update is applied and read back, to the millisecond"
    case supersedesOlder = "an older update does not overwrite a newer row"
    case takesTheSameAgain = "an update that was applied may be sent again"
    case clearsExpiry = "expiry and transaction ID can become null"
    case knowsNoSuchProfile = "a user without a row is told apart, and none is created"
    case staysWithinOneRow = "an odd user ID changes its own row at most"
    case takesTheHighest = "of 40 writers at once the highest version wins"
    case sharesTransactions = "a transaction ID of another row is written, or refused until that row lets go of it"
    case refusesBadTier = "a tier that the table does not know is refused and changes nothing"
    case refusesWrongKey = "a wrong key is a misconfiguration, of check and of update"
    case tellsMissingTable = "a table or column that is not there is a misconfiguration"
    case writesWithoutVersion = "without a version column every update is written"

    package var testDescription: String { rawValue }
  }

  let configuration: PostgRESTProfileStore.Configuration
  let transport: any Transport
  let rows: any ProfileRows
  let wrongKeys: [Secret]
  let patience: Duration

  /// - Parameters:
  ///   - baseURL: what tables stand under, `http://127.0.0.1:3000`.
  ///   - transport: allows the scheme of that URL.
  ///   - rows: the access to the table that the suite looks through, apart from the adapter.
  ///   - wrongKeys: must all be refused. By default, the right key with its end changed, and a word that is no key.
  ///   - customize: changes the names, where they are not the usual ones with `subscription_version`.
  ///   - patience: for one request; a lock held elsewhere takes 8 s to fail on Supabase, and a busy machine takes its time.
  package init(
    baseURL: String, key: Secret, transport: any Transport, rows: any ProfileRows, wrongKeys: [Secret]? = nil,
    patience: Duration = .seconds(60),
    customize: (inout PostgRESTProfileStore.Configuration) -> Void = { _ in }
  ) {
    var configuration = PostgRESTProfileStore.Configuration(url: baseURL, key: key)
    configuration.columns.version = PostgRESTName("subscription_version")
    customize(&configuration)
    self.configuration = configuration
    self.transport = transport
    self.rows = rows
    self.wrongKeys = wrongKeys ?? [Secret(Self.damaged(key.exposed)), Secret("not-a-key")]
    self.patience = patience
  }

  /// The signature of a token, or the end of a key, with its characters turned round.
  private static func damaged(_ key: String) -> String {
    key.prefix(key.count - 12) + String(key.suffix(12).reversed())
  }
}

/// The rows of the table, seen past the adapter: by SQL, or by plain requests.
package protocol ProfileRows: Sendable {
  /// Whether the id column is of type `uuid`. User IDs that are none are then refused by the store.
  var idsAreUUIDs: Bool { get }

  /// Users whose rows may be overwritten: tier `free`, version 0, expiry and transaction ID null. The same call gives
  /// the same users in that state again; the rows of other tests are not among them.
  func fresh(_ count: Int) async throws -> [UserID]

  /// Makes a row for this user, in the same state; only called where ids are not UUIDs.
  func insert(_ user: UserID) async throws

  /// The row of a user; `nil` when there is none.
  func row(of user: UserID) async throws -> ProfileRowSeen?

  /// Puts everything back as it was before the suite. Called by the test after its last scenario.
  func cleanUp() async throws
}

/// A row as it is in the table.
package struct ProfileRowSeen: Hashable, Sendable {
  package var tier: String
  package var status: String
  /// Milliseconds since 1970.
  package var expiresAt: Int64?
  package var originalTransactionID: String?
  package var version: Int64

  package init(tier: String, status: String, expiresAt: Int64?, originalTransactionID: String?, version: Int64) {
    self.tier = tier
    self.status = status
    self.expiresAt = expiresAt
    self.originalTransactionID = originalTransactionID
    self.version = version
  }
}
