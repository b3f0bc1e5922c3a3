import Testing

@testable import JSON
@testable import Resilience

@Suite(.timeLimit(.minutes(1))) struct JSONCondenserTests {
  private static let selection = JSONSelection(
    ["a", "list", "a_rather_long_name_of_a_member", "exactly8"], falseByDefault: ["flag"],
    precedences: [.init(of: "t_ms", over: ["t", "t_pst"]), .init(of: "u_ms", over: ["u"])])

  private func condense(_ text: String, limits: JSONLimits = JSONLimits()) -> String? {
    condense(Array(text.utf8), limits: limits)
  }

  private func condense(_ bytes: [UInt8], limits: JSONLimits = JSONLimits()) -> String? {
    bytes.withUnsafeBytes { JSONCondenser.condense($0, to: Self.selection, limits: limits) }
      .map { String(decoding: $0.bytes, as: UTF8.self) }
  }

  @Test(arguments: [
    ("{}", "{}"),
    (" { } \n", "{}"),
    (#"{"a":1}"#, #"{"a":1}"#),
    (#"{"a":1,"b":2}"#, #"{"a":1}"#),
    (#"{"b":2,"a":1}"#, #"{"a":1}"#),
    (#"{"b":2,"a":1,"c":[{"a":1}],"exactly8":2}"#, #"{"a":1,"exactly8":2}"#),
    ("{ \"b\" : 2 ,\r\n\t\"a\" : 1 , \"list\" : [ ] }", #"{"a" : 1,"list" : []}"#),
    // Names that are nearly the same.
    (#"{"A":1,"aa":2,"":3,"exactly":4,"exactly80":5,"a_rather_long_name_of_b_member":6}"#, #"{"":0}"#),
    (
      #"{"a_rather_long_name_of_a_member":"x","a_rather_long_name_of_a_membe":"y"}"#,
      #"{"a_rather_long_name_of_a_member":"x"}"#
    ),
    // Elements keep their numbers, and no object that has members becomes one that has none.
    (#"{"list":[{"b":1},1,{},[],"x",[null,{"c":[]}]]}"#, #"{"list":[{"":0},1,{},[],"x",[null,{"":0}]]}"#),
    (#"{"b":{}}"#, #"{"":0}"#),
    (#"{"a":{"b":1,"a":{"a":true,"x":false}}}"#, #"{"a":{"a":{"a":true}}}"#),
    // Values are copied as they are.
    (#"{"a":"\"\\\/\b\f\n\r\t\u00e9\u0001 é😀"}"#, #"{"a":"\"\\\/\b\f\n\r\t\u00e9\u0001 é😀"}"#),
    (#"{"a":-0.50}"#, #"{"a":-0.50}"#),
    (#"{"b":"ключ","ключ":1,"a":null}"#, #"{"a":null}"#),
    // The others of a group are dropped for the first: before it, if they come right before it, and behind it.
    (#"{"t":"x","t_ms":"1","t_pst":"y"}"#, #"{"t_ms":"1"}"#),
    (#"{"a":1,"t_pst":"y","t":"x","t_ms":1,"list":0}"#, #"{"a":1,"t_ms":1,"list":0}"#),
    (#"{"t":"x","b":0,"t_ms":"1"}"#, #"{"t_ms":"1"}"#),
    (#"{"t":"x","a":0,"t_ms":"1","t_pst":{}}"#, #"{"t":"x","a":0,"t_ms":"1"}"#),
    (#"{"t":"x","u":"y","t_ms":"1","u_ms":2}"#, #"{"t":"x","u":"y","t_ms":"1","u_ms":2}"#),
    (#"{"t":{"a":1},"t_ms":"1"}"#, #"{"t":{"a":1},"t_ms":"1"}"#),
    // What says nothing settles nothing.
    (#"{"t":"x","t_ms":"","t_pst":"y"}"#, #"{"t":"x","t_ms":"","t_pst":"y"}"#),
    (#"{"t":"x","t_ms":null,"t_pst":"y"}"#, #"{"t":"x","t_ms":null,"t_pst":"y"}"#),
    (#"{"t":"x","t_ms":true,"t_pst":"y"}"#, #"{"t":"x","t_ms":true,"t_pst":"y"}"#),
    (#"{"t":"x","t_ms":[],"t_pst":"y"}"#, #"{"t":"x","t_ms":[],"t_pst":"y"}"#),
    // Each object for itself.
    (#"{"list":[{"t_ms":1},{"t":2}],"t":3}"#, #"{"list":[{"t_ms":1},{"t":2}],"t":3}"#),
    // Only the very text.
    (#"{"flag":"false","a":"false"}"#, #"{"a":"false"}"#),
    (#"{"flag":"falsE"}"#, #"{"flag":"falsE"}"#),
    (#"{"flag":false}"#, #"{"flag":false}"#),
    (#"{"flag":"f\u0061lse"}"#, #"{"flag":"f\u0061lse"}"#),
  ])
  func `what is looked at is kept`(_ text: String, _ kept: String) throws {
    #expect(condense(text) == kept)
    _ = try JSONDocument(Array(kept.utf8))
  }

  @Test(arguments: JSONDocumentTests.Hostile.all)
  func `hostile JSON is left to the parser`(_ hostile: JSONDocumentTests.Hostile) {
    #expect(condense(hostile.bytes) == nil)
  }

  @Test(arguments: [
    "", " ", "{", "}", "[]", "{]", "[}", "{,}", #"{"b"}"#, #"{"b":}"#, #"{"b" 1}"#, #"{"b":1 "c":2}"#, #"{"b":1,}"#,
    #"{"b":1]"#, #"{"b":[1}"#, #"{"b":[1,]}"#, #"{"b":[,1]}"#, #"{"b":[1 2]}"#, #"{"b":1}}"#, #"{"b":1}{}"#, #"{b:1}"#,
    #"{"b":tru}"#, #"{"b":truE}"#, #"{"b":falsy}"#, #"{"b":nul"#, #"{"b":true1}"#, #"{"b":truetrue}"#, #"{"b":-}"#,
    #"{"b":+1}"#, #"{"b":.5}"#, #"{"b":1.}"#, #"{"b":1.e1}"#, #"{"b":00}"#, #"{"b":-01}"#, #"{"b":1x}"#, #"{"b":"\x"}"#,
    #"{"b":"\u12"}"#, #"{"b":"\u12g4"}"#, #"{"b":"\"}"#, #"{"b":"\"#, #"{"b":"\u"#, #"{"b":"\u00"#, "{\"b\":\"\n\"}",
    "{\"b\n\":1}", "{\u{B}}", "{\u{A0}}", #"{"b":1,"b":1}"#, #"{"b":{"c":[{"x":1,"y":2,"x":3}]}}"#,
    #"{"t":1,"t":1,"t_ms":1}"#, #"{"t_ms":1,"t":1,"t":1}"#,
  ])
  func `a syntax error in what is stepped over is found`(_ text: String) {
    #expect(condense(text) == nil)
    #expect(throws: JSONError.syntax) { try JSONDocument(Array(text.utf8)) }
  }

  @Test(arguments: [
    #"{"\u0061":1}"#, #"{"b\n":1}"#, #"{"b":1e5}"#, #"{"b":1234567890123456789}"#, #"{"b":"\ud83d\ude00"}"#,
    "{\(String(repeating: " ", count: 3))\((0..<300).map { "\"k\($0)\":0" }.joined(separator: ","))}",
  ])
  func `a text that is not plain is left to the parser, which takes it`(_ text: String) throws {
    #expect(condense(text) == nil)
    _ = try JSONDocument(Array(text.utf8))
  }

  @Test func `every place in a text is looked at`() {
    // Longer than some words of eight bytes, so that the damage is once in each place of a word and at each end.
    let text = #"{"bbbbbbbbbbbbbbbbbbb":"0123456789012345678901234567890123456789","list":[{"cc":1234567}]}"#
    #expect(condense(text) == #"{"list":[{"":0}]}"#)
    let bytes = Array(text.utf8)
    for place in bytes.indices {
      #expect(condense(Array(bytes[..<place])) == nil)
      for byte: UInt8 in [0, 0x0A, 0x1F, 0x80, 0xC3, 0xFF] {
        var damaged = bytes
        damaged[place] = byte
        let isTaken = (try? JSONDocument(damaged)) != nil
        // The parser takes a NUL behind a number for nothing; nobody else has to.
        #expect((condense(damaged) != nil) == (isTaken && byte != 0))
      }
      // Nothing of what lies behind the text is read.
      let behind = Array(bytes[..<place]) + [UInt8](repeating: UInt8(ascii: "}"), count: 16)
      let condensed = behind.withUnsafeBytes {
        JSONCondenser.condense(UnsafeRawBufferPointer(rebasing: $0[..<place]), to: Self.selection, limits: JSONLimits())
      }
      #expect(condensed == nil)
    }
  }

  @Test func `the limits are those of the parser`() {
    let texts = [
      #"{"b":[[[]]]}"#, #"{"b":[{},{},{}]}"#, #"{"b":[1,2,3,4,5]}"#, #"{"a":1,"b":2,"c":3,"list":4}"#, "{}",
      #"{"b":"[{,"}"#,
    ]
    for text in texts {
      for limits in [1, 2, 3, 4, 5].flatMap({ most in
        [JSONLimits(containers: most), JSONLimits(values: most), JSONLimits(depth: most), JSONLimits(bytes: most * 4)]
      }) {
        let admitted = Array(text.utf8).withUnsafeBytes { limits.admit($0) }
        #expect((condense(text, limits: limits) != nil) == admitted, "\(text), \(limits)")
      }
    }
  }

  @Test func `the containers and values that are kept are counted`() throws {
    let text = #"{"a":[1,{"a":2,"b":[{}]},3],"b":[{},{},{}]}"#
    let condensed = try #require(
      Array(text.utf8).withUnsafeBytes { JSONCondenser.condense($0, to: Self.selection, limits: JSONLimits()) })
    #expect(condensed.containers == 3)
    #expect(condensed.values == 3)
  }

  @Test func `a selection knows its names`() {
    for name in ["a", "list", "a_rather_long_name_of_a_member", "exactly8", "flag", "t_ms", "t", "t_pst", "u"] {
      #expect(Self.selection.contains(name))
    }
    for name in ["", "b", "A", "exactly", "exactly88", "a_rather_long_name_of_a_membe", "t_", "u_pst"] {
      #expect(!Self.selection.contains(name))
    }
  }

  @Test func `a member of two groups is kept in both`() {
    let selection = JSONSelection(
      ["n"], precedences: [.init(of: "x", over: ["z", "n"]), .init(of: "y", over: ["z"])])
    let text = #"{"x":1,"z":2,"n":3}"#
    let condensed = Array(text.utf8).withUnsafeBytes {
      JSONCondenser.condense($0, to: selection, limits: JSONLimits())
    }
    #expect(condensed.map { String(decoding: $0.bytes, as: UTF8.self) } == text)
  }

  @Test func `an answer of which little is kept waits for nobody`() async throws {
    let reader = JSONReader(simultaneously: 0)
    let small = Array(#"{"a":7,"b":"\#(String(repeating: "x", count: 100_000))"}"#.utf8)
    let read = try await reader.read(small, selecting: Self.selection) { root throws(JSONError) in
      if case .integer(let number)? = root.kind("a") { number } else { throw root.missing("a") }
    }
    #expect(read == 7)
  }

  @Test(arguments: [
    #"{"a":"\#(String(repeating: "x", count: 70_000))"}"#,
    #"{"a":[\#(Array(repeating: "{}", count: 2_100).joined(separator: ","))]}"#,
    #"{"a":[\#(Array(repeating: "1", count: 10_100).joined(separator: ","))]}"#,
    #"{"a":7,"b":"\#(String(repeating: "x", count: 300_000))"}"#,
    #"{"\u0061":7}"#,
  ])
  func `a text that may need much memory waits for its turn`(_ text: String) async throws {
    let reader = JSONReader(simultaneously: 0)
    let task = Task {
      try await reader.read(Array(text.utf8), selecting: Self.selection) { root throws(JSONError) in root.has("a") }
    }
    while reader.semaphore.waiting < 1 { await Task.yield() }
    task.cancel()
    await #expect(throws: JSONReader.Failure.cancelled) { try await task.value }
    let read = try await JSONReader(simultaneously: 1).read(Array(text.utf8), selecting: Self.selection) {
      root throws(JSONError) in root.has("a")
    }
    #expect(read)
  }

  @Test func `a cancelled task gets no result, even of a text that is read at once`() async {
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      return try await JSONReader.shared.read(Array("{}".utf8), selecting: Self.selection) { _ throws(JSONError) in 1 }
    }
    task.cancel()
    await #expect(throws: JSONReader.Failure.cancelled) { try await task.value }
  }
}
