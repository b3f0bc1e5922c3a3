import Foundation
import TestSupport
import Testing

/// A database of a test's own, copied from a template.
struct TestDatabase: Sendable {
  /// The default grants of a project to the roles of its API.
  enum Grants: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case wide
    case none

    var testDescription: String { self == .wide ? "everything granted by default" : "nothing granted by default" }
  }

  enum State: String, CaseIterable, Sendable {
    /// Roles, accounts and the app's own profiles.
    case app
    /// The same with the files of `samples/supabase`.
    case migrated
  }

  let name: String
  private let cluster: PostgreSQLServer

  init(_ grants: Grants, _ state: State = .migrated) async throws {
    let cluster = try await TemporaryCluster.running()
    let name = "test_\(UUID().uuidString.lowercased().filter { $0 != "-" })"
    let postgres = try await Connection.open("postgres", on: cluster)
    try await postgres.query(
      "create database \(name) template \(Self.template(grants, state)) strategy file_copy owner project_owner")
    self.cluster = cluster
    self.name = name
  }

  /// Whoever may do anything: to prepare a test, and to look past every lock.
  func owner() async throws -> Connection { try await .open(name, on: cluster) }

  /// Whoever applies migrations: owns the app's tables, and is no superuser.
  func project() async throws -> Connection { try await .open(name, on: cluster, as: "project_owner") }

  /// The server of sign-ups: writes accounts, and may touch nothing of the app's.
  func signUps() async throws -> Connection { try await .open(name, on: cluster, as: "supabase_auth_admin") }

  /// The API's login, which becomes each caller in turn.
  func api() async throws -> Connection { try await .open(name, on: cluster, as: "authenticator") }

  /// Both of those that most tests need.
  func connections() async throws -> (owner: Connection, api: Connection) { (try await owner(), try await api()) }

  // MARK: - Templates

  private static func template(_ grants: Grants, _ state: State) -> String { "template_\(grants)_\(state)" }

  /// Called once, by the cluster.
  static func makeTemplates(on cluster: PostgreSQLServer) async throws {
    let postgres = try await Connection.open("postgres", on: cluster)
    try await postgres.run(SQLFile.own("Roles"))
    for grants in Grants.allCases {
      for state in State.allCases {
        let name = template(grants, state)
        try await postgres.query("create database \(name)")
        try await postgres.query("alter database \(name) owner to project_owner")
        let superuser = try await Connection.open(name, on: cluster)
        try await superuser.run(SQLFile.own("AuthSchema"))
        if grants == .wide { try await superuser.run(SQLFile.own("WideGrants")) }
        let database = try await Connection.open(name, on: cluster, as: "project_owner")
        try await database.run(SQLFile.own("App"))
        if grants == .none { try await database.run(SQLFile.own("AppGrants")) }
        if state == .migrated {
          for file in try SQLFile.samples { try await database.run(file) }
        }
      }
    }
  }
}

/// SQL of the checkout.
enum SQLFile {
  private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

  static let table = "00_profiles"
  static let profiles = "01_profiles"
  static let gates = "02_feature_gates"
  static let check = "03_check"
  static let tiers = "04_has_tier"
  static let children = "05_children"

  static func own(_ name: String) throws -> String { try text(tests.appending(path: "SQL/\(name).sql")) }

  static func sample(_ name: String) throws -> String {
    try text(tests.appending(path: "../../samples/supabase/\(name).sql"))
  }

  /// The migrations in their order, of an app that has its profiles.
  static var samples: [String] {
    get throws { try [profiles, gates, tiers, children].map(sample) }
  }

  static func recorded(_ name: String) throws -> Data {
    try Data(contentsOf: tests.appending(path: "Recorded/\(name)"))
  }

  private static func text(_ url: URL) throws -> String { try String(contentsOf: url, encoding: .utf8) }
}
