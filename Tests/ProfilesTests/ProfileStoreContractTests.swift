import Entitlements
import Foundation
import HTTPTransport
import ProfileStoreContract
import Profiles
import Synchronization
import Testing

/// The contract is played against a table in memory, whole and with one defect after the other, so that it is known to
/// notice each. That table proves nothing about PostgREST.
@Suite("The contract of a profile store")
struct ProfileStoreContractTests {
  private func contract(_ table: TableInMemory) -> (ProfileStoreContract, RESTProfileRows) {
    var configuration = PostgRESTProfileStore.Configuration(url: "http://table.test", key: serviceToken)
    configuration.columns.version = PostgRESTName("subscription_version")
    let rows = RESTProfileRows(configuration, transport: table, idsAreUUIDs: table.idsAreUUIDs)
    return (
      ProfileStoreContract(baseURL: configuration.url, key: serviceToken, transport: table, rows: rows), rows
    )
  }

  @Test(arguments: ProfileStoreContract.Scenario.allCases, [true, false])
  func `a sound table keeps it, and is left empty`(scenario: ProfileStoreContract.Scenario, uuids: Bool) async throws {
    let table = TableInMemory(idsAreUUIDs: uuids)
    let (contract, rows) = contract(table)
    try await contract.run(scenario)
    try await rows.cleanUp()
    #expect(table.count == 0)
  }

  @Test func `a table in which a transaction ID may stand twice keeps it too`() async throws {
    let (contract, _) = contract(TableInMemory(idsAreUUIDs: true, isUnique: false))
    try await contract.run(.sharesTransactions)
  }

  @Test func `rows that were given are put back`() async throws {
    let table = TableInMemory(idsAreUUIDs: false)
    let update = sampleUpdate(user: "theirs", version: 77)
    var configuration = PostgRESTProfileStore.Configuration(url: "http://table.test", key: serviceToken)
    configuration.columns.version = PostgRESTName("subscription_version")
    let maker = RESTProfileRows(configuration, transport: table, idsAreUUIDs: false)
    try await maker.insert("theirs")
    try await maker.insert("theirs too")
    #expect(await PostgRESTProfileStore(configuration, transport: table).apply(update) == .applied)
    let before = try await maker.row(of: "theirs")

    let rows = RESTProfileRows(configuration, transport: table, users: ["theirs", "theirs too"], idsAreUUIDs: false)
    let contract = ProfileStoreContract(
      baseURL: configuration.url, key: serviceToken, transport: table, rows: rows)
    try await contract.run(.sharesTransactions)
    #expect(try await rows.row(of: "theirs") != before)
    try await rows.cleanUp()
    #expect(try await rows.row(of: "theirs") == before)
    #expect(table.count == 2)
  }

  static let defects: [(TableInMemory.Defect, ProfileStoreContract.Scenario)] = [
    (.forgetsExpiry, .applies), (.forgetsMilliseconds, .applies), (.ignoresVersion, .supersedesOlder),
    (.ignoresVersion, .takesTheHighest), (.keepsOldValues, .clearsExpiry), (.createsRows, .knowsNoSuchProfile),
    (.ignoresID, .applies), (.ignoresID, .checkIsOK), (.cutsIDs, .staysWithinOneRow), (.takesAnyKey, .refusesWrongKey),
    (.takesAnyTier, .refusesBadTier), (.takesAnyName, .tellsMissingTable),
    (.dropsTransactions, .sharesTransactions), (.refusesAndWrites, .sharesTransactions),
    (.ignoresID, .writesWithoutVersion), (.refusesRepeats, .takesTheSameAgain),
  ]

  @Test(arguments: defects.indices)
  func `a defect is noticed`(index: Int) async throws {
    let (defect, scenario) = Self.defects[index]
    let (contract, _) = contract(TableInMemory(idsAreUUIDs: false, defect: defect))
    await withKnownIssue("\(defect) breaks: \(scenario.rawValue)") { try await contract.run(scenario) }
  }

  @Test func `every scenario is broken by some defect`() {
    #expect(Set(Self.defects.map(\.1)) == Set(ProfileStoreContract.Scenario.allCases))
  }
}

/// One table of profiles behind the few requests that the adapter and `RESTProfileRows` send.
final class TableInMemory: Transport {
  enum Defect {
    case forgetsExpiry, forgetsMilliseconds, ignoresVersion, keepsOldValues, createsRows, ignoresID, cutsIDs,
      takesAnyKey
    case takesAnyTier, takesAnyName, dropsTransactions, refusesAndWrites, refusesRepeats
  }

  private enum Cell: Hashable {
    case null
    case text(String)
    case number(Int64)

    init(_ value: Any) {
      if let text = value as? String {
        self = .text(text)
      } else if let number = value as? NSNumber {
        self = .number(number.int64Value)
      } else {
        self = .null
      }
    }

    var json: Any {
      switch self {
      case .null: NSNull()
      case .text(let text): text
      case .number(let number): number
      }
    }
  }

  private static let blank: [String: Cell] = [
    "subscription_tier": .text("free"), "subscription_status": .text("active"), "subscription_expires_at": .null,
    "original_transaction_id": .null, "subscription_version": .number(0),
  ]

  let idsAreUUIDs: Bool
  private let defect: Defect?
  /// Whether two rows may not have one transaction ID.
  private let isUnique: Bool
  /// The table.
  private let rows = Mutex<[String: [String: Cell]]>([:])

  init(idsAreUUIDs: Bool, isUnique: Bool = true, defect: Defect? = nil) {
    self.idsAreUUIDs = idsAreUUIDs
    self.isUnique = isUnique && defect != .dropsTransactions
    self.defect = defect
  }

  var count: Int { rows.withLock { $0.count } }

  func send(
    _ request: TransportRequest, deadline: ContinuousClock.Instant
  ) async throws(TransportError) -> TransportResponse {
    do throws(Refusal) {
      guard defect == .takesAnyKey || request.headers.contains(.init("Authorization", "Bearer \(serviceToken.exposed)"))
      else { throw Refusal(status: 401, code: "42501") }
      let conditions = try conditions(of: request)
      let body = (try? JSONSerialization.jsonObject(with: Data(request.body))) as? [String: Any] ?? [:]
      let found = try rows.withLock { rows throws(Refusal) in
        try answer(request.method, conditions, body.mapValues { Cell($0) }, &rows)
      }
      let json = found.map { $0.mapValues(\.json) }
      return TransportResponse(status: 200, body: Array((try? JSONSerialization.data(withJSONObject: json)) ?? Data()))
    } catch {
      return TransportResponse(
        status: error.status, body: Array(#"{"code":"\#(error.code)","message":"type uuid"}"#.utf8))
    }
  }

  private struct Refusal: Error {
    let status: Int
    let code: String
  }

  private func conditions(of request: TransportRequest) throws(Refusal) -> [(column: String, test: String)] {
    guard let url = URLComponents(string: request.url), url.path == "/profiles" || defect == .takesAnyName else {
      throw Refusal(status: 404, code: "PGRST205")
    }
    if request.headers.contains(where: { $0.name.hasSuffix("-Profile") }), defect != .takesAnyName {
      throw Refusal(status: 406, code: "PGRST106")
    }
    let items = (url.queryItems ?? []).filter { $0.name != "limit" && $0.name != "select" }
    for item in items where item.name != "id" && Self.blank[item.name] == nil && defect != .takesAnyName {
      throw Refusal(status: 400, code: "42703")
    }
    return items.map { ($0.name, $0.value ?? "") }
  }

  private func answer(
    _ method: TransportRequest.Method, _ conditions: [(column: String, test: String)], _ values: [String: Cell],
    _ rows: inout [String: [String: Cell]]
  ) throws(Refusal) -> [[String: Cell]] {
    if method == .post {
      guard case .text(let id) = values["id"] else { throw Refusal(status: 400, code: "23502") }
      rows[id] = Self.blank.merging(values) { $1 }
      return []
    }
    var ids = Set(rows.keys)
    for condition in conditions {
      let value = String(condition.test.drop { $0 != "." }.dropFirst())
      switch (condition.column, condition.test.prefix { $0 != "." }) {
      case ("id", "eq"):
        if idsAreUUIDs, UUID(uuidString: value) == nil { throw Refusal(status: 400, code: "22P02") }
        if defect == .createsRows, method == .patch { rows[value] = Self.blank.merging(["id": .text(value)]) { $1 } }
        if defect == .createsRows, rows[value] != nil { ids.insert(value) }
        if defect == .ignoresID, method == .patch { continue }
        let wanted = defect == .cutsIDs ? String(value.prefix { $0 != "," }) : value
        ids.formIntersection([wanted])
      case ("id", "is"), ("id", "not"):
        if defect != .ignoresID { ids = [] }
      case ("subscription_version", "lt"):
        if defect == .ignoresVersion { continue }
        ids = ids.filter { id in
          guard case .number(let version) = rows[id]?["subscription_version"] else { return false }
          return version < Int64(value) ?? .min
        }
      default: if defect != .takesAnyName { throw Refusal(status: 501, code: "") }
      }
    }
    switch method {
    case .get: return ids.compactMap { rows[$0] }.map { shown($0) }
    case .delete:
      for id in ids { rows[id] = nil }
      return []
    case .post, .put: return []
    case .patch: break
    }

    if values.keys.contains(where: { Self.blank[$0] == nil }), defect != .takesAnyName {
      throw Refusal(status: 400, code: "PGRST204")
    }
    for id in ids {
      let others = rows.filter { $0.key != id }
      do throws(Refusal) {
        rows[id] = try written(values, to: rows[id] ?? [:], others: others)
      } catch {
        if defect == .refusesAndWrites { rows[id]?.merge(values) { $1 } }
        throw error
      }
    }
    return ids.compactMap { rows[$0] }.map { shown($0) }
  }

  private func written(
    _ values: [String: Cell], to row: [String: Cell], others: [String: [String: Cell]]
  ) throws(Refusal) -> [String: Cell] {
    let tiers: [Cell] = [.text("free"), .text("pro")]
    if let tier = values["subscription_tier"], !tiers.contains(tier), defect != .takesAnyTier {
      throw Refusal(status: 400, code: "23514")
    }
    let transaction = values["original_transaction_id"] ?? .null
    var values = values
    if transaction != .null, others.values.contains(where: { $0["original_transaction_id"] == transaction }) {
      if isUnique { throw Refusal(status: 409, code: "23505") }
      if defect == .dropsTransactions { values["original_transaction_id"] = nil }
    }
    if defect == .forgetsExpiry { values["subscription_expires_at"] = nil }
    if defect == .keepsOldValues { values = values.filter { $0.value != .null } }
    if defect == .forgetsMilliseconds, case .text(let text) = values["subscription_expires_at"] {
      values["subscription_expires_at"] = .text("\(text.prefix(19))Z")
    }
    return row.merging(values) { $1 }
  }

  /// PostgreSQL writes UTC as `+00:00`.
  private func shown(_ row: [String: Cell]) -> [String: Cell] {
    var row = row
    if defect == .refusesRepeats, case .number(let version) = row["subscription_version"], version > 0 {
      row["subscription_version"] = .number(version - 1)
    }
    if case .text(let text) = row["subscription_expires_at"] {
      row["subscription_expires_at"] = .text(text.replacing("Z", with: "+00:00"))
    }
    return row
  }
}
