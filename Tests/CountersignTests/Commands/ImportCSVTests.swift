import CountersignAPI
import Foundation
import HTTPTransport
import Synchronization
import Testing

@testable import Countersign

/// `countersign import --from-csv` and `--grant-promotions`.
@Suite struct ImportCSVTests {
  private static let clock = Date(timeIntervalSince1970: 1_718_452_800.123_456_7)

  private func customers(_ text: String) throws -> [ImportedLine] {
    try CustomersCSV(Array(text.utf8)).text.split(separator: "\n").map {
      try ImportedLine(Data($0.utf8), at: Self.clock)
    }
  }

  // MARK: - Rows

  @Test(arguments: [
    ("a,b\n1,2\n", [["a", "b"], ["1", "2"]]), ("a;b,c;d\r\n1;2;3", [["a", "b,c", "d"], ["1", "2", "3"]]),
    ("\u{FEFF}a,b\n", [["a", "b"]]), ("a,\"b, \"\"c\"\"\nd\",e\n", [["a", "b, \"c\"\nd", "e"]]),
    ("a,\n\n,b", [["a", ""], [""], ["", "b"]]), ("\"\"", [[""]]), ("", []),
  ])
  func `rows are read as RFC 4180 has them`(text: String, rows: [[String]]) throws {
    var reader = CSVReader(Array(text.utf8))
    var found: [[String]] = []
    while let row = try reader.next() { found.append(row) }
    #expect(found == rows && reader.row == rows.count)
  }

  // MARK: - Customers

  @Test func `the rows of a customer are one line, with what is active and every purchase at Apple's`() throws {
    let lines = try customers(
      """
      rc_original_app_user_id;rc_last_seen_app_user_id_alias;store;store_transaction_id;original_store_transaction_id;\
      entitlement_identifiers;effective_end_time;refunded_at
      $RC:1;u1;app_store;71;7;["pro"];2024-06-01 00:00:00;
      $RC:2;u2;play_store;GPA.1;GPA.1;["pro"];2024-07-01 00:00:00;
      $RC:1;u1;app_store;72;7;["pro"];2024-07-01 00:00:00;
      $RC:1;u1;mac_app_store;8;8;"[""gold"", ""pro""]";;
      $RC:3;u3;promotional;;;["pro"];2024-08-01T00:00:00Z;
      $RC:4;u4;app_store;9;9;["pro"];2024-07-01 00:00:00;2024-06-02 00:00:00

      """)
    #expect(lines.map(\.user) == ["u1", "u2", "u3", "u4"])
    #expect(lines.map(\.tiers) == [["gold", "pro"], ["pro"], ["pro"], []])
    #expect(lines.map(\.purchasesElsewhere) == [0, 1, 0, 0])
    let proofs = lines.map(\.proofs)
    #expect(proofs.first == [.transactionID("7"), .transactionID("8")])
    #expect(proofs.dropFirst() == [[], [], [.transactionID("9")]])
    let end = try #require(ImportedLine.date("2024-08-01T00:00:00Z"))
    #expect(lines.map(\.promotions) == [[], [], [ImportedLine.Promotion(tier: "pro", end: end)], []])
  }

  @Test func `a row is of the user whom it names, in whichever column, and of an anonymous ID where it names nobody`()
    throws
  {
    let anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    let lines = try customers(
      """
      rc_original_app_user_id,rc_last_seen_app_user_id_alias,store,store_transaction_id
      alice,\(anonymous),app_store,1
      \(anonymous),bob,app_store,2
      $RCAnonymousID:1,\(anonymous),app_store,3
      alice,,app_store,4
      """)
    #expect(lines.map(\.user) == ["alice", "bob", anonymous])
    #expect(lines.first?.proofs == [.transactionID("1"), .transactionID("4")])
    #expect(lines.dropFirst().map(\.proofs) == [[.transactionID("2")], [.transactionID("3")]])
  }

  @Test func `a hand-made file needs no more than a user and a purchase`() throws {
    let lines = try customers("user_id,original_transaction_id\nu1,7\nu2,8\n")
    #expect(lines.map(\.user) == ["u1", "u2"] && lines.map(\.tiers) == [nil, nil])
    #expect(lines.map(\.proofs) == [[.transactionID("7")], [.transactionID("8")]])
    #expect(try customers("tier,user_id\nfree,u1\n").first?.tiers == ["free"])
  }

  @Test(arguments: ["app_store", "apple", "App Store", "iOS", "APP_STORE"])
  func `Apple's store has several names`(store: String) throws {
    let lines = try customers("user_id,original_transaction_id,store\nu1,7,\(store)\n")
    #expect(lines.map(\.proofs) == [[.transactionID("7")]] && lines.map(\.purchasesElsewhere) == [0])
  }

  @Test(arguments: [("null,app_store", "its transaction is there"), ("GPA.1,Google", #"store is "play_store""#)])
  func `a customer without a tier and without a purchase at Apple's is no line that agrees`(
    row: String, sentence: String
  ) {
    let error = #expect(throws: ImportedLine.Unreadable.self) {
      try customers("user_id,original_transaction_id,store\nu2,\(row)\n")
    }
    #expect(error?.sentence.contains(sentence) == true, "\(String(describing: error))")
  }

  @Test(arguments: [
    ("", "no column of user IDs"), ("name,tier\nu,pro\n", "no column of user IDs"),
    ("user_id,tier\n\n", "has no customers"), ("user_id,age\nu,3\n", "neither a column of transactions"),
    ("user_id,tier\n,pro\n", "row 2 has no user ID"),
    ("user_id,tier,expires_at\nu,pro,soon\n", "row 2: \"soon\" is no date"),
    ("user_id,tier\nu1,pro\nu2,\"pro\nu3,pro\n", "row 3 has a quote (\") that is not closed"),
    ("user_id,tier\nu1,\"pro\nu2,pro\nu3,pro\"\n", "row 2 has a line end in an ID or a tier"),
    ("user_id,tier\r\nu1,\"pro\r\nu2,pro\"\r\n", "row 2 has a line end in an ID or a tier"),
    ("user_id,tier,note\nu1,pro,\"x\nu2,pro,\"y\"\n", "row 2 has a quote (\") that is not closed"),
    ("user_id,tier\nu1,pro\nu2,pro,7\n", "row 3 has 3 fields, and the first line 2"),
    ("user_id,tier,store\nu1,pro\n", "row 2 has 2 fields, and the first line 3"),
    ("user_id,transaction_id,store\nu,7,corner shop\n", "row 2: \"corner shop\" is no store that is known"),
  ])
  func `a file that cannot be used is told of`(text: String, sentence: String) {
    let error = #expect(throws: CustomersCSV.Unreadable.self) { try CustomersCSV(Array(text.utf8)) }
    #expect(error?.sentence.contains(sentence) == true)
  }

  // MARK: - Promotions

  @Test func `a period that was given without a purchase is given once, with its end`() async throws {
    try await RunningService.run(apple: .unreachable, now: { Self.clock }) { service in
      let text = try CustomersCSV(
        Array(
          """
          user_id,store,entitlement_identifiers,expires_at
          gift,promotional,pro,2024-07-01T00:00:00Z
          life,promotional,premium,
          over,promotional,pro,2024-06-01T00:00:00Z
          """.utf8)
      ).text
      for (grants, equal) in [(false, 1), (true, 3), (true, 3)] {
        let directory = try TemporaryDirectory()
        let file = try OpenFile(try directory.write("customers.jsonl", text), O_RDONLY)
        let output = Mutex<[String]>([])
        let end = await ImportRun(
          client: ServiceClient(transport: service.client, url: service.origin, key: RunningService.serviceKey),
          lines: LineReader(file, limit: ImportedLine.longest), rate: 1_000, isDryRun: false, grantsPromotions: grants,
          output: { line in output.withLock { $0.append(line.text) } }, now: { Self.clock }
        ).run()
        #expect(end.failure == nil && end.report.lines == 3 && end.report.same == equal)
        let lines = output.withLock { $0 }
        #expect(lines.count == 3 - equal && lines.allSatisfy { $0.contains("--grant-promotions") }, "\(lines)")
      }
      let grants = try await service.send(.get, "/v1/profiles/gift/grants")
      let list = try JSONDecoder.countersign.decode(GrantsResponse.self, from: Data(grants.body)).grants
      #expect(list.count == 1 && list.first?.kind == "migration" && list.first?.tier == "pro")
      #expect(list.first?.endsAt == ImportedLine.date("2024-07-01T00:00:00Z"))
      #expect(try await service.profile("life").verdict == "premium active granted")
    }
  }

  // MARK: - Differences

  @Test func `differences of several calls stay in the file, for its owner alone, until they are settled`() throws {
    let directory = try TemporaryDirectory()
    let differences = ImportDifferences(path: directory.path + "/customers.jsonl.differences")
    func line(_ number: Int, _ detail: String) throws -> ImportReport.Line {
      try #require(ImportReport.Line(number, user: "u\(number)", .differs(detail)))
    }
    func details() -> [String] {
      let text = (try? String(contentsOfFile: differences.path, encoding: .utf8)) ?? ""
      return text.split(separator: "\n").map { $0.firstMatch(of: /"detail":"([^"]*)"/).map { String($0.1) } ?? "" }
    }
    try differences.write([line(4, "four"), line(2, "two")], unequal: [2, 4])
    #expect(details() == ["two", "four"])
    #expect(
      try FileManager.default.attributesOfItem(atPath: differences.path)[.posixPermissions] as? Int == 0o600)
    try differences.write([line(9, "nine"), line(4, "again")], unequal: [4, 9])
    #expect(details() == ["again", "nine"])
    try differences.write([], unequal: [])
    #expect(!FileManager.default.fileExists(atPath: differences.path))
  }
}
