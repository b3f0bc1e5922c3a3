import Entitlements
import Foundation
import HTTPTransport
import ProfileStoreContract
import Profiles
import Testing

/// The contract against a real PostgREST that somebody names:
///
///     PROFILE_STORE_URL     http://127.0.0.1:3000 or https://project.supabase.co/rest/v1
///     PROFILE_STORE_KEY     a secret key, or a token of service_role
///     PROFILE_STORE_USERS   two IDs of test users, separated by a comma, whose rows may be overwritten; they are put
///                           back. Without it, rows are inserted and removed, which a foreign key to auth.users forbids.
@Suite("A real PostgREST", .serialized, .enabled(if: LiveStore.named != nil, "PROFILE_STORE_URL and _KEY name none"))
struct LiveProfileStoreTests {
  @Test(arguments: ProfileStoreContract.Scenario.allCases)
  func `a real PostgREST keeps the store's contract`(scenario: ProfileStoreContract.Scenario) async throws {
    let named = try #require(LiveStore.named)
    var settings = CurlTransport.Configuration()
    settings.allowedSchemes = [.https, .http]
    let transport = try CurlTransport(configuration: settings)
    defer { transport.shutdown() }
    var configuration = PostgRESTProfileStore.Configuration(url: named.url, key: named.key)
    configuration.columns.version = PostgRESTName("subscription_version")
    let rows = RESTProfileRows(configuration, transport: transport, users: named.users)
    let contract = ProfileStoreContract(baseURL: named.url, key: named.key, transport: transport, rows: rows)
    let played: Result<Void, any Error>
    do {
      played = .success(try await contract.run(scenario))
    } catch {
      played = .failure(error)
    }
    try await rows.cleanUp()
    try played.get()
  }
}

/// The store that the environment names.
private enum LiveStore {
  static let named: (url: String, key: Secret, users: [UserID])? = {
    let environment = ProcessInfo.processInfo.environment
    guard let url = environment["PROFILE_STORE_URL"], let key = environment["PROFILE_STORE_KEY"] else { return nil }
    let users = (environment["PROFILE_STORE_USERS"] ?? "").split(separator: ",").map { UserID(String($0)) }
    return (url, Secret(key), users)
  }()
}
