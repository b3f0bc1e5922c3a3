import Foundation
import Synchronization
import TestSupport
package import Testing

@testable package import Ledger

extension Trait where Self == ConditionTrait {
  /// For a test of SQLite's file.
  package static var ofTheFile: Self { .disabled(if: TestEngine.isPostgreSQL, "This is about SQLite's file.") }
}

extension TestEngine {
  /// A database with an empty ledger, which those of tests are copies of: the schema takes as long as many a test.
  package static func template() async throws -> String { try await ledger.value }

  private static let ledger = Task.detached {
    let server = try await running()
    let name = try await server.makeDatabase()
    await (try Ledger.open(url: server.url(of: name), connections: 1)).close()
    return name
  }

  /// Where a new and empty database is.
  package static func newURL() async throws -> String {
    let server = try await running()
    return try await server.url(of: server.makeDatabase())
  }

  /// Where the database of a service with this directory is.
  package static func url(ofDirectory path: String) async throws -> String {
    try await running().url(ofDirectory: path, from: template())
  }
}

/// A directory of a test's own, removed with it.
package final class Scratch: Sendable {
  package let directory: String
  package var path: String { directory + "/ledger.sqlite" }
  /// The database of a ledger on PostgreSQL, made when it is first opened.
  private let database = Mutex<Task<String, any Error>?>(nil)

  package func url() async throws -> String {
    let server = try await TestEngine.running()
    let task = database.withLock { database in
      let task = database ?? Task { try await server.makeDatabase(from: TestEngine.template()) }
      database = task
      return task
    }
    return try await server.url(of: task.value)
  }

  package func verify() async throws -> LedgerVerification {
    guard TestEngine.isPostgreSQL else { return try await LedgerVerification.verify(path: path) }
    return try await LedgerVerification.verify(url: url())
  }

  package init() throws {
    directory = NSTemporaryDirectory() + "ledger-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
  }

  /// The rows of a query, as text.
  package func rows(_ sql: String) async throws -> [[String?]] {
    if TestEngine.isPostgreSQL {
      _ = try await url()
      guard let database = try await database.withLock({ $0 })?.value else { return [] }
      return try await TestEngine.running().run(sql, on: database)
    }
    return try SQLiteFile(path, isReadOnly: true).rows(sql).map { row in
      row.values.map { value in
        switch value {
        case .null, .real: nil
        case .integer(let integer): "\(integer)"
        case .text(let text): text
        case .blob(let bytes): String(validating: bytes, as: UTF8.self)
        }
      }
    }
  }

  /// Runs statements from outside of the ledger.
  package func change(_ sql: String) async throws {
    if TestEngine.isPostgreSQL { return _ = try await rows(sql) }
    try SQLiteFile(path).run(sql)
  }

  deinit { try? FileManager.default.removeItem(atPath: directory) }

  package func open() async throws -> Ledger {
    if TestEngine.isPostgreSQL {
      // Enough patience for a thousand at once on a busy machine.
      return try await Ledger.open(url: url(), connections: 4, settings: .init(patience: .seconds(120)))
    }
    return try await Ledger.open(path: path) { problem in Issue.record("the ledger gave up: \(problem)") }
  }

  /// Runs a test's body on a new ledger and closes it.
  package static func withLedger<Value>(_ body: (Ledger, Scratch) async throws -> Value) async throws -> Value {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    do {
      let value = try await body(ledger, scratch)
      await ledger.close()
      return value
    } catch {
      await ledger.close()
      throw error
    }
  }
}

extension LedgerVerification {
  package static func verify(
    path: String, against former: String? = nil
  ) async throws(LedgerOpenError) -> LedgerVerification {
    try await verify(at: .file(path), against: former)
  }

  package static func verify(url: String) async throws(LedgerOpenError) -> LedgerVerification {
    try await verify(at: .database(url: url, connections: 1))
  }
}
