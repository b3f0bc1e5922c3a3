import Testing

@testable import Resilience

@Suite struct ConcurrencyLimitTests {
  @Test func `one caller of each key is let in, and so many in all`() {
    let gate = ConcurrencyLimit<String>(limit: 3)
    #expect(gate.enter("mallory"))
    for _ in 0..<10 { #expect(!gate.enter("mallory")) }
    #expect(gate.enter("anna"))
    #expect(gate.enter("ben"))
    #expect(!gate.enter("cleo"))
    gate.leave("mallory")
    #expect(gate.enter("cleo"))
    #expect(!gate.enter("mallory"))
  }
}
