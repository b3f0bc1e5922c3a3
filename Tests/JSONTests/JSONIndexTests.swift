import Testing

@testable import JSON
@testable import Resilience

@Suite(.timeLimit(.minutes(10))) struct JSONIndexTests {
  private func document(_ text: String, limits: JSONLimits = JSONLimits()) -> JSONDocument? {
    document(Array(text.utf8), limits: limits)
  }

  private func document(_ bytes: [UInt8], limits: JSONLimits = JSONLimits()) -> JSONDocument? {
    JSONDocument(plain: bytes, root: .any, limits: limits)
  }

  /// The keys of all objects in a plain text.
  private func keys(_ bytes: [UInt8]) -> Set<String>? {
    JSONIndex(bytes, root: .any, limits: JSONLimits()).map { index in
      Set(index.names.map { String(decoding: bytes[Int($0.start)...].prefix(Int($0.count)), as: UTF8.self) })
    }
  }

  @Test(arguments: [
    "{}", " { } \n", "[]", "[[]]", #"{"a":1}"#, #"{"a":{}}"#, #"{"a":[]}"#, #"{"":""}"#, #"{"a":null}"#,
    "{ \"b\" : 2 ,\r\n\t\"a\" : 1 , \"list\" : [ ] }",
    #"{"list":[{"b":1},1,{},[],"x",[null,{"c":[]}]],"z":[{"a":[1,[2,[3]],4]},5]}"#,
    // Rows with the same names, fewer, more, and others.
    #"{"rows":[{"a":1,"b":2},{"a":3,"b":4},{"a":5},{"a":6,"b":7,"c":8},{"a":9,"c":0},{"b":1,"a":2},{},{"a":1}]}"#,
    #"[{"a":1,"b":2},{"a":{"a":[{"a":3,"b":4}],"b":5},"b":[{"b":6,"a":7},{"b":8,"aa":9}]},{"a":0,"b":{"c":1}}]"#,
    // Names that are nearly the same.
    #"{"A":1,"a":2,"":3,"exactly8":4,"exactly80":5,"a_rather_long_name_of_a_member":6,"a_rather_long_name_of_b_member":7}"#,
    #"{"a":"\"\\\/\b\f\n\r\t\u00e9\u0001 é😀","b":"\u0041","ключ":"ключ"}"#,
    #"{"a":[0,-0,1,-1,123456789012345678,-123456789012345678,0.5,-0.50,12.0,1401288473000.25],"b":true,"c":false}"#,
    // Long texts, the same and nearly so.
    #"["com.example.app.pro.monthly","com.example.app.pro.monthly","com.example.app.max.monthly","é.example.app.pro.mont"]"#,
  ])
  func `a plain text is read as the parser reads it`(_ text: String) throws {
    let bytes = Array(text.utf8)
    let parsed = try JSONDocument(parsing: bytes, root: .any)
    let names = try #require(keys(bytes))
    #expect(try #require(document(bytes)).root.description(names) == parsed.root.description(names))
  }

  @Test(arguments: JSONDocumentTests.Hostile.all)
  func `hostile JSON is left to the parser`(_ hostile: JSONDocumentTests.Hostile) {
    #expect(JSONDocument(plain: hostile.bytes, root: .object, limits: JSONLimits()) == nil)
  }

  @Test(arguments: [
    "", " ", "{", "}", "[", "]", "{]", "[}", "{,}", #"{"b"}"#, #"{"b":}"#, #"{"b" 1}"#, #"{"b":1 "c":2}"#, #"{"b":1,}"#,
    #"{"b":1]"#, #"{"b":[1}"#, #"{"b":[1,]}"#, #"{"b":[,1]}"#, #"{"b":[1 2]}"#, #"{"b":1}}"#, #"{"b":1}{}"#, #"{b:1}"#,
    #"{"b":tru}"#, #"{"b":truE}"#, #"{"b":falsy}"#, #"{"b":nul"#, #"{"b":true1}"#, #"{"b":truetrue}"#, #"{"b":-}"#,
    #"{"b":+1}"#, #"{"b":.5}"#, #"{"b":1.}"#, #"{"b":1.e1}"#, #"{"b":00}"#, #"{"b":-01}"#, #"{"b":1x}"#, #"{"b":"\x"}"#,
    #"{"b":"\u12"}"#, #"{"b":"\u12g4"}"#, #"{"b":"\"}"#, #"{"b":"\"#, #"{"b":"\u"#, #"{"b":"\u00"#, "{\"b\":\"\n\"}",
    "{\"b\n\":1}", "{\u{B}}", "{\u{A0}}", #"{"b":1,"b":1}"#, #"{"b":{"c":[{"x":1,"y":2,"x":3}]}}"#, #"{"":1,"":1}"#,
    #"{"b":{"c":1},"d":2,"b":{}}"#, #"{"list":[{"b":1,"c":2},{"b":1,"c":2,"b":3}]}"#,
    #"{"list":[{"b":1,"c":2},{"b":1,"d":2,"b":3}]}"#, #"{"list":[{"b":1},{"b":1,"c":2,"c":3}]}"#,
    #"{"list":[{"b":1},{"b"}]}"#, #"{"list":[{"b":1},{"b" 1}]}"#, #"{"list":[{"b":1},{"b"#,
  ])
  func `a syntax error is found`(_ text: String) {
    #expect(document(text) == nil)
    #expect(throws: JSONError.syntax) { try JSONDocument(Array(text.utf8), root: .any) }
  }

  @Test(arguments: [
    #"{"\u0061":1}"#, #"{"b\n":1}"#, #"{"b":1e5}"#, #"{"b":1234567890123456789}"#, #"{"b":"\ud83d\ude00"}"#,
    "{\((0..<400).map { "\"k\($0)\":0" }.joined(separator: ","))}",
  ])
  func `a text that is not plain is left to the parser, which takes it`(_ text: String) throws {
    #expect(document(text) == nil)
    _ = try JSONDocument(Array(text.utf8))
  }

  @Test func `an object may have as many keys as any of Apple's`() throws {
    let text = "{\((0..<200).map { "\"k\($0)\":\($0)" }.joined(separator: ","))}"
    let root = try #require(document(text)).root
    for number in 0..<200 {
      guard case .integer(Int64(number)) = root.kind("k\(number)") else {
        Issue.record("k\(number) is not found")
        return
      }
    }
    #expect(document(text.dropLast() + #","k7":1}"#) == nil)
  }

  @Test func `an error names the place of its value`() throws {
    let text = Array(#"{"":[],"a":{"b":[[],{},7,{"c":[{"d":1},[2,{"e":{}}]]}]},"f":[1]}"#.utf8)
    for root in [try JSONDocument(parsing: text).root, try #require(document(text)).root] {
      let rows = try #require(root["a"]?["b"]).elements
      let inner = try #require(rows[3]["c"]).elements[1].elements[1]
      #expect(inner.missing("x") == .missing(path: "a.b[3].c[1][1].x"))
      #expect(inner["e"]?.path == "a.b[3].c[1][1].e")
      #expect(rows[1].unreadable("x") == .unreadable(path: "a.b[1].x"))
      #expect(root["f"]?.elements.first?.path == "f[0]")
      #expect(root.missing("y") == .missing(path: "y"))
    }
  }

  @Test func `every place in a text is looked at`() {
    // Longer than some words of eight bytes, so that the damage is once in each place of a word and at each end.
    let text = #"{"bbbbbbbbbbbbbbbbbbb":"0123456789012345678901234567890123456789","list":[{"cc":1234567}]}"#
    let bytes = Array(text.utf8)
    for place in bytes.indices {
      #expect(document(Array(bytes[..<place])) == nil)
      for byte in UInt8.min...UInt8.max {
        var damaged = bytes
        damaged[place] = byte
        let parsed = try? JSONDocument(parsing: damaged)
        let plain = document(damaged)
        if let plain, let names = keys(damaged) {
          #expect(plain.root.description(names) == parsed?.root.description(names))
        } else {
          // The parser takes a NUL behind a number for nothing, and escapes and exponents; nobody else has to.
          #expect(parsed == nil || [0, UInt8(ascii: "\\"), UInt8(ascii: "e"), UInt8(ascii: "E")].contains(byte))
        }
      }
    }
  }

  @Test func `nothing behind a text is read`() throws {
    for text in [#"{"list":[{"cc":1234567}]}"#, #"{"a":"01234567","b":true}"#] {
      for place in text.utf8.indices {
        let behind = Array(text.utf8[..<place]) + [UInt8](repeating: UInt8(ascii: "}"), count: 16)
        behind.withUnsafeBytes { bytes in
          let cut = UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count - 16)])
          var scanner = JSONScanner(cut)
          while let value = scanner?.skipValue() ?? scanner?.skipName().map({ _ in .text }) { _ = value }
          #expect(scanner.map { $0.place - $0.start <= cut.count } ?? true)
        }
      }
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
        #expect((document(text, limits: limits) != nil) == admitted, "\(text), \(limits)")
      }
    }
  }

  @Test func `a small plain text waits for nobody`() async throws {
    let reader = JSONReader(simultaneously: 0)
    let small = Array(#"{"a":7,"b":"\#(String(repeating: "x", count: 100_000))"}"#.utf8)
    let read = try await reader.read(small) { root throws(JSONError) in
      if case .integer(let number)? = root.kind("a") { number } else { throw root.missing("a") }
    }
    #expect(read == 7)
    await #expect(throws: JSONReader.Failure.json(.missing(path: "a"))) {
      try await reader.read(Array("{}".utf8)) { root throws(JSONError) -> Int in throw root.missing("a") }
    }
  }

  @Test(arguments: [
    #"{"a":[\#(Array(repeating: "{}", count: 2_100).joined(separator: ","))]}"#,
    #"{"a":[\#(Array(repeating: "1", count: 10_100).joined(separator: ","))]}"#,
    #"{"a":7,"b":"\#(String(repeating: "x", count: 300_000))"}"#,
    #"{"\u0061":7}"#,
  ])
  func `a text that may need much memory waits for its turn`(_ text: String) async throws {
    let reader = JSONReader(simultaneously: 0)
    let task = Task {
      try await reader.read(Array(text.utf8)) { root throws(JSONError) in root.has("a") }
    }
    while reader.semaphore.waiting < 1 { await Task.yield() }
    task.cancel()
    await #expect(throws: JSONReader.Failure.cancelled) { try await task.value }
    let read = try await JSONReader(simultaneously: 1).read(Array(text.utf8)) { root throws(JSONError) in root.has("a")
    }
    #expect(read)
  }

  @Test func `a cancelled task gets no result, even of a text that is read at once`() async {
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      return try await JSONReader.shared.read(Array("{}".utf8)) { _ throws(JSONError) in 1 }
    }
    task.cancel()
    await #expect(throws: JSONReader.Failure.cancelled) { try await task.value }
  }
}

extension JSONValue {
  /// All that can be read of it.
  fileprivate func description(_ keys: Set<String>) -> String {
    switch kind {
    case .object:
      let members = keys.sorted().filter(has).map { key in
        "\(key): " + (self[key]?.description(keys) ?? "null")
      }
      return "{\(members.joined(separator: ", "))}\(isEmptyContainer)"
    case .array:
      return "[\(elements.map { $0.description(keys) }.joined(separator: ", "))]\(isEmptyContainer)"
    default: return "\(kind)"
    }
  }
}
