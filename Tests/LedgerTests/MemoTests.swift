import Ledger
import LedgerFixtures
import Testing

@Suite struct MemoTests {
  @Test func `a memo is kept by name, replaced and removed`() async throws {
    try await Scratch.withLedger { ledger, _ in
      #expect(try await ledger.memo("brake") == nil)
      try await ledger.keepMemo("brake", "one")
      try await ledger.keepMemo("other", "")
      try await ledger.keepMemo("brake", "two")
      #expect(try await ledger.memo("brake") == "two")
      #expect(try await ledger.memo("other") == "")
      try await ledger.keepMemo("brake", nil)
      try await ledger.keepMemo("brake", nil)
      #expect(try await ledger.memo("brake") == nil)
      #expect(try await ledger.memo("other") == "")
    }
  }

  @Test func `a memo outlives a restart`() async throws {
    let scratch = try Scratch()
    let first = try await scratch.open()
    try await first.keepMemo("brake", "engaged")
    await first.close()
    let second = try await scratch.open()
    #expect(try await second.memo("brake") == "engaged")
    await second.close()
  }

  @Test func `a zero in a text is kept as a replacement character, and finds what was kept with it`() async throws {
    try await Scratch.withLedger { ledger, _ in
      try await ledger.keepMemo("a\0", "\0 and \0")
      #expect(try await ledger.memo("a\0") == "\u{FFFD} and \u{FFFD}")
      #expect(try await ledger.memo("a") == nil)
    }
  }

  @Test func `a memo without a name is refused`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = await #expect(throws: LedgerError.self) { try await ledger.keepMemo("", "x") }
    }
  }
}
