import Entitlements
import Foundation
import HTTPTransport
import ProfileStoreContract
import Profiles
import Synchronization
import Testing

/// The adapter over a real PostgreSQL with the migrations of `samples/supabase`, with the stand-in between them. The keys
/// of the kind `sb_secret_…` cannot be tried here: Supabase's gateway, which is not at hand, turns them into tokens.
@Suite struct ContractTests {
  private static let tokens = TokenVerifier(
    secret: "a secret of at least thirty-two bytes", now: { Date(timeIntervalSince1970: 1_790_000_000) })

  @Test(arguments: TestDatabase.Grants.allCases)
  func `the adapter keeps its contract over PostgreSQL`(grants: TestDatabase.Grants) async throws {
    let database = try await TestDatabase(grants)
    let rows = SQLProfileRows(owner: try await database.owner())
    // An app may have a unique constraint.
    try await rows.owner.run("alter table public.profiles add unique (original_transaction_id)")
    try await play(over: database) { _, _ in rows }
  }

  /// As against a server that somebody names: the suite itself may do no more than the service.
  @Test(arguments: TestDatabase.Grants.allCases)
  func `the contract asks nothing that the migrations do not grant`(grants: TestDatabase.Grants) async throws {
    let database = try await TestDatabase(grants)
    let owner = try await database.owner()
    let before = try await owner.query("select * from public.profiles order by id")
    try await play(over: database) { configuration, transport in
      RESTProfileRows(configuration, transport: transport, users: [UserID(UserIDs.a), UserID(UserIDs.b)])
    }
    #expect(try await owner.query("select * from public.profiles order by id") == before)
  }

  /// Plays every scenario with the stand-in before this database.
  private func play(
    over database: TestDatabase,
    rows: (PostgRESTProfileStore.Configuration, any Transport) -> any ProfileRows
  ) async throws {
    let unknown = try await adapter(over: database) { configuration, transport in
      let rows = rows(configuration, transport)
      let contract = ProfileStoreContract(
        baseURL: configuration.url, key: configuration.key, transport: transport, rows: rows)
      for scenario in ProfileStoreContract.Scenario.allCases {
        try await contract.run(scenario)
      }
      try await rows.cleanUp()
    }
    #expect(unknown == [], "the adapter sends what was not compared with PostgREST")
  }

  @Test func `a version column that is too small is a misconfiguration before anybody is written`() async throws {
    let database = try await TestDatabase(.wide)
    try await database.owner().run("alter table public.profiles alter column subscription_version type integer")
    try await adapter(over: database) { configuration, transport in
      let store = PostgRESTProfileStore(configuration, transport: transport)
      guard case .misconfigured(let trouble) = await store.check(deadline: .now + .seconds(60)) else {
        Issue.record("the check finds nothing")
        return
      }
      #expect(trouble.code == "22003")
      #expect(trouble.sentence.contains("profile_store.columns.version has to be a bigint"))
      let update = ProfileUpdate(
        user: UserID(UserIDs.a), version: 1_796_083_200_123, tier: "pro", status: .active, expiresAt: nil,
        originalTransactionID: nil)
      guard case .misconfigured(trouble) = await store.apply(update, deadline: .now + .seconds(60)) else {
        Issue.record("the update is not refused for the same")
        return
      }
    }
  }

  @Test func `a role of the operator's own is told that the lock is service_role's`() async throws {
    let database = try await TestDatabase(.wide)
    try await database.owner().run(
      """
      do $$ begin create role billing_writer nologin noinherit bypassrls;
        exception when duplicate_object or unique_violation then null; end $$;
      grant billing_writer to authenticator;
      grant usage on schema public to billing_writer;
      grant select, update on public.profiles to billing_writer;
      """)
    try await adapter(over: database, claims: #"{"role":"billing_writer"}"#) { configuration, transport in
      let store = PostgRESTProfileStore(configuration, transport: transport)
      let update = ProfileUpdate(
        user: UserID(UserIDs.a), version: 7, tier: "pro", status: .active, expiresAt: nil, originalTransactionID: nil)
      guard case .misconfigured(let trouble) = await store.apply(update, deadline: .now + .seconds(60)) else {
        Issue.record("the lock let it pass")
        return
      }
      #expect(trouble.code == "42501")
      #expect(trouble.sentence.contains("a token of service_role"))
      #expect(!trouble.sentence.contains("grant it"))
    }
  }

  /// - Returns: the requests in which the stand-in was not compared with PostgREST.
  @discardableResult
  private func adapter(
    over database: TestDatabase, claims: String = Caller.service.claims,
    body: (PostgRESTProfileStore.Configuration, any Transport) async throws -> Void
  ) async throws -> [String] {
    let standIn = PostgRESTStandIn(database: database, tokens: Self.tokens)
    let unknown = Mutex<[String]>([])
    let server = try await HTTPServer.start { request in
      let answer = await standIn.answer(request)
      if answer.status == 501 { unknown.withLock { $0.append("\(request.method) \(request.target)") } }
      return answer
    }
    var settings = CurlTransport.Configuration()
    settings.allowedSchemes = [.http]
    let transport = try CurlTransport(configuration: settings)
    var configuration = PostgRESTProfileStore.Configuration(
      url: "http://127.0.0.1:\(server.port)", key: Secret(Self.tokens.token(claims: claims)))
    configuration.columns.version = PostgRESTName("subscription_version")
    try await body(configuration, transport)
    transport.shutdown()
    try await server.stop()
    return unknown.withLock { $0 }
  }
}

/// The rows by SQL, past everything.
private struct SQLProfileRows: ProfileRows {
  let owner: Connection
  let idsAreUUIDs = true

  func fresh(_ count: Int) async throws -> [UserID] {
    let ids = Array([UserIDs.a, UserIDs.b, UserIDs.d].prefix(count))
    try #require(ids.count == count)
    try await owner.run(
      """
      update public.profiles set subscription_tier = 'free', subscription_status = 'active',
        subscription_expires_at = null, original_transaction_id = null, subscription_version = 0
      """)
    return ids.map { UserID($0) }
  }

  func insert(_ user: UserID) async throws { Issue.record("The ids are UUIDs") }

  func row(of user: UserID) async throws -> ProfileRowSeen? {
    let row = try await owner.query(
      """
      select subscription_tier, subscription_status, (extract(epoch from subscription_expires_at) * 1000)::bigint,
        original_transaction_id, subscription_version
      from public.profiles where id::text = $1
      """, [user.rawValue]
    ).first
    guard let row else { return nil }
    return ProfileRowSeen(
      tier: try #require(row[0]), status: try #require(row[1]), expiresAt: row[2].flatMap { Int64($0) },
      originalTransactionID: row[3], version: try #require(row[4].flatMap { Int64($0) }))
  }

  func cleanUp() async throws {}
}
