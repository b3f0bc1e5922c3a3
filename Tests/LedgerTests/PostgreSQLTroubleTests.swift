import Entitlements
import Foundation
import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

/// A server that does not answer, does not keep what it acknowledges, or is not the one that was meant.
@Suite(.serialized, .timeLimit(.minutes(5))) struct PostgreSQLTroubleTests {
  /// A server that is frozen, or a COMMIT that waits for a standby.
  @Test func `a caller that waits for a connection is answered, though none becomes free`() async throws {
    let url = try await TestEngine.newURL()
    let ledger = try await Ledger.open(
      url: url, connections: 1, settings: .init(patience: .seconds(1), overtime: .seconds(600)))
    let (isBusy, end) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let busy = Task {
      try await ledger.engine.submit { _ in
        isBusy.signal()
        end.wait()
      }
    }
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        isBusy.wait()
        continuation.resume()
      }
    }
    let (ends, ended) = AsyncStream<Bool>.makeStream()
    ledger.engine.submitLater { _ in
    } orElse: {
      ended.yield(false)
    }
    var ending = ends.makeAsyncIterator()
    #expect(await ending.next() == false)
    let error = await #expect(throws: LedgerError.self) { _ = try await ledger.memo("anything") }
    #expect(error == .unavailable("The ledger's connections were all busy"))
    end.signal()
    _ = try? await busy.value
    // The next of its kind is written.
    ledger.engine.submitLater { tables in
      try tables.keepMemo("later", "written")
      ended.yield(true)
    } orElse: {
      ended.yield(false)
    }
    #expect(await ending.next() == true)
    // The one connection answers after its commit.
    #expect(try await ledger.memo("later") == "written")
    await ledger.close()
  }

  @Test func `an error that another replica or a migration caused is no fault of the entry`() {
    for state in ["23505", "42P01", "42501", "40001"] {
      #expect(LedgerFailure(PostgreSQLError(state: state, message: "")).reach == .transaction, "\(state)")
    }
    for state in ["22021", "23514", "23503"] {
      #expect(LedgerFailure(PostgreSQLError(state: state, message: "")).reach == .entry, "\(state)")
    }
  }

  @Test func `a key that is taken may be free later, unless it is taken with the ledger to itself`() async throws {
    let url = try await TestEngine.newURL()
    let sentence = "The ledger's transaction could not go on (PostgreSQL 23505)"
    // Five pauses take 55 ms at least.
    for (patience, expected) in [(.milliseconds(40), .unavailable(sentence)), (.seconds(60), .unusable(sentence))]
      as [(Duration, LedgerError)]
    {
      let ledger = try await Ledger.open(url: url, connections: 1, settings: .init(patience: patience))
      let error = await #expect(throws: LedgerError.self) {
        try await ledger.engine.submit { tables in
          for _ in 1...2 { try tables.execute("INSERT INTO memo (name, text) VALUES ('one', 'text')") }
        }
      }
      #expect(error == expected)
      await ledger.close()
    }
  }

  @Test func `an operation whose server does not answer ends`() async throws {
    let url = try await TestEngine.newURL()
    let ledger = try await Ledger.open(
      url: url, connections: 1, settings: .init(patience: .seconds(3), overtime: .seconds(1)))
    let start = ContinuousClock.now
    await #expect(throws: LedgerError.self) {
      try await ledger.engine.submit { tables in
        _ = try tables.exists("SELECT 1 FROM (SELECT pg_sleep(25)) AS long")
      }
    }
    #expect(start.duration(to: .now) < .seconds(20))
    // The server may still be at it, and hold its locks.
    #expect(try await ledger.memo("anything") == nil)
    await ledger.close()
  }

  /// A server's messages to a client that it lets in, so far as libpq needs them: `AuthenticationOk`,
  /// `ParameterStatus`, `BackendKeyData`, `ReadyForQuery` (PostgreSQL's manual, "Message Formats").
  private static let login: [UInt8] = {
    let settings = ["server_version": "15.0", "in_hot_standby": "off", "default_transaction_read_only": "off"]
    return message("R", [0, 0, 0, 0]) + settings.flatMap { message("S", Array("\($0)\0\($1)\0".utf8)) }
      + message("K", [0, 0, 0, 1, 0, 0, 0, 1]) + ready
  }()
  private static let ready = message("Z", Array("I".utf8))

  private static func message(_ type: String, _ body: [UInt8]) -> [UInt8] {
    Array(type.utf8) + [0, 0, 0, UInt8(4 + body.count)] + body
  }

  /// A proxy that lets clients in and hands nothing on, or a server that freezes after the first words.
  @Test(arguments: [0, 1]) func `a server that falls silent after the login is given up`(answers: Int) async throws {
    try await RawTLSServer.running(identity: nil) { connection in
      _ = await connection.read()
      try await connection.write(Self.login)
      for _ in 0..<answers {
        _ = await connection.read()
        try await connection.write(Self.message("C", Array("SET\0".utf8)) + Self.ready)
      }
      await connection.waitForClose()
    } during: { server in
      let url = "postgresql://u@127.0.0.1:\(server.port)/d?sslmode=disable&gssencmode=disable"
      var address = try PostgreSQLAddress(url)
      address.patience = .milliseconds(200)
      let silent = address
      // Of an operation, and of a start.
      let error = await #expect(throws: PostgreSQLError.self) {
        try await blocking { _ = try silent.connectForOperations() }
      }
      #expect(error == PostgreSQLError(state: PostgreSQLError.lost, message: "The server does not answer"))
      await #expect(throws: LedgerOpenError.self) {
        try await blocking { () throws(LedgerOpenError) in try silent.checked { _ in } }
      }
      #expect(server.connectionsAccepted == 2)
    }
  }

  @Test func `statements that have an end answer as others do`() async throws {
    let connection = try PostgreSQLAddress(await TestEngine.newURL()).connect()
    #expect(try connection.run("SET jit = off; SELECT 1; SELECT 'last'", within: .seconds(60)) == "last")
    let error = #expect(throws: PostgreSQLError.self) {
      try connection.run("SELECT 1; SELECT nothing; SELECT 2", within: .seconds(60))
    }
    #expect(error?.state == "42703")
    #expect(try connection.run("SELECT NULL; SELECT pg_sleep(0.01)::text || 'x'", within: .seconds(60)) == "x")
  }

  @Test func `a connection is as durable as the first one was`() async throws {
    let server = try await TestEngine.running()
    let database = try await server.makeDatabase()
    let url = server.url(of: database)
    let ledger = try await Ledger.open(url: url, connections: 1)
    try await server.run("ALTER DATABASE \(database) SET synchronous_commit = off", on: "postgres")
    #expect(
      try await ledger.read { tables in try tables.exists("SELECT 1 WHERE current_setting('synchronous_commit') = 'on'")
      })
    await ledger.close()
  }

  @Test(arguments: [
    ("postgresql://u@db.example.com/d", true), ("postgresql://u@localhost/d", false), ("postgresql:///d", false),
    ("postgresql:///d?host=/run/postgresql", false), ("postgresql:///d?hostaddr=10.0.0.5", true),
    ("postgresql://localhost/d?hostaddr=10.0.0.5", true), ("postgresql:///d?hostaddr=127.0.0.1", false),
    ("postgresql://localhost,db.example.com/d", true), ("service=elsewhere", true),
  ])
  func `a server elsewhere has to prove its name`(url: String, hasTo: Bool) throws {
    #expect(try PostgreSQLAddress(url).sslMode == (hasTo ? "verify-full" : nil))
  }

  @Test func `receipts that a replica gives back untried are another's at once, without an attempt`() async throws {
    let url = try await TestEngine.newURL()
    let ledger = try await Ledger.open(url: url, connections: 1)
    for number in 0..<3 {
      let receipt = PendingReceipt(
        user: "u", base64: "receipt-\(number)", requestID: "r", receivedAt: clock(Double(number)))
      #expect(try await ledger.postpone(receipt) == .kept)
    }
    let claimed = try await ledger.pendingReceipts(dueAt: clock(100), limit: 10)
    #expect(try await ledger.pendingReceipts(dueAt: clock(100), limit: 10).isEmpty)
    try await ledger.giveBackPending(claimed.dropFirst(), at: clock(100))
    let again = try await ledger.pendingReceipts(dueAt: clock(100), limit: 10)
    #expect(again.map(\.id) == claimed.dropFirst().map(\.id))
    #expect(again.map(\.attempts) == [0, 0])
    await ledger.close()
  }
}
