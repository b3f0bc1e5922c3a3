import Testing

@testable import CountersignServer

@Suite struct RequestIDTests {
  @Test(arguments: ["a", "0123-abc_DEF.9", String(repeating: "x", count: 128)])
  func `a harmless ID of the caller is kept`(id: String) {
    #expect(RequestID.accepted(id) == id)
  }

  @Test(arguments: ["", " ", "a b", "a\nb", "ä", "\u{202e}", "<script>", String(repeating: "x", count: 129)])
  func `any other is replaced`(id: String) {
    #expect(RequestID.accepted(id) == nil)
  }

  @Test func `our own IDs are 32 hexadecimal digits and differ`() {
    let ids = Set((0..<1000).map { _ in RequestID.random() })
    #expect(ids.count == 1000)
    #expect(ids.allSatisfy { $0.count == 32 && $0.allSatisfy(\.isHexDigit) })
  }
}
