import Entitlements
import Foundation
import HTTPTransport
import ProfileStoreContract
import Profiles
import Testing

/// The adapter over a real PostgreSQL with the migrations of `samples/supabase`, with the stand-in between them. The keys
/// of the kind `sb_secret_…` cannot be tried here: Supabase's gateway, which is not at hand, turns them into tokens.
@Suite struct ContractTests {
  @Test(arguments: TestDatabase.Grants.allCases)
  func `the adapter keeps its contract over PostgreSQL`(grants: TestDatabase.Grants) async throws {
    let database = try await TestDatabase(grants)
    let rows = SQLProfileRows(owner: try await database.owner())
    // The contract wants to see a unique constraint at work, as an app may have one.
    try await rows.owner.run("alter table public.profiles add unique (original_transaction_id)")
    let tokens = TokenVerifier(
      secret: "a secret of at least thirty-two bytes", now: { Date(timeIntervalSince1970: 1_790_000_000) })
    let standIn = PostgRESTStandIn(database: database, tokens: tokens)
    let unknown = AnswerLog()
    let server = try await HTTPServer.start { request in
      let answer = await standIn.answer(request)
      if answer.status == 501 { await unknown.add("\(request.method) \(request.target)") }
      return answer
    }
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = [.http]
    let transport = try CurlTransport(configuration: configuration)

    let contract = ProfileStoreContract(
      baseURL: "http://127.0.0.1:\(server.port)", key: Secret(tokens.token(claims: Caller.service.claims)),
      transport: transport, rows: rows)
    for scenario in ProfileStoreContract.Scenario.allCases {
      try await contract.run(scenario)
    }
    try await rows.cleanUp()
    #expect(await unknown.entries == [], "the adapter sends what was not compared with PostgREST")
    transport.shutdown()
    try await server.stop()
  }
}

private actor AnswerLog {
  private(set) var entries: [String] = []

  func add(_ entry: String) { entries.append(entry) }
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
