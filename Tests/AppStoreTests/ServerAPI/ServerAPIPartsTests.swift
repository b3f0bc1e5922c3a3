import Entitlements
import FoundationEssentials
import Synchronization
import Testing

@testable import AppStore
@testable import HTTPTransport
@testable import JSON

/// The rate, the moment to judge at, the header that says when to come back, and the shapes of answers.
@Suite struct ServerAPIPartsTests {
  // MARK: The rate

  @Test func `turns come at an even rate, with some at once after a rest`() throws {
    let start = ContinuousClock.now
    var bucket = RateBucket(rate: 50, at: start)
    let never = start + .seconds(3600)
    let first = (0..<12).map { _ in bucket.take(at: start, before: never) }
    #expect(first == Array(repeating: .zero, count: 10) + [.milliseconds(20), .milliseconds(40)])
    // Turns that were not used for an hour are not made up for.
    let later = start + .seconds(1800)
    let second = (0..<11).map { _ in bucket.take(at: later, before: never) }
    #expect(second == Array(repeating: .zero, count: 10) + [.milliseconds(20)])
  }

  @Test(arguments: [1, 5, 50]) func `no second has more turns than the rate and what was saved`(_ rate: Int) throws {
    let start = ContinuousClock.now
    var bucket = RateBucket(rate: rate, at: start)
    var turns: [Duration] = []
    for _ in 0..<(rate * 5) {
      let turn = bucket.take(at: start, before: start + .seconds(60))
      turns.append(try #require(turn))
    }
    for turn in turns {
      let within = turns.count { $0 >= turn && $0 < turn + .seconds(1) }
      #expect(within <= rate + max(1, rate / 5))
    }
  }

  @Test func `a turn that comes too late is not taken`() {
    let start = ContinuousClock.now
    var bucket = RateBucket(rate: 1, at: start)
    #expect(bucket.take(at: start, before: start + .seconds(1)) == .zero)
    for _ in 0..<3 { #expect(bucket.take(at: start, before: start + .seconds(1)) == nil) }
    #expect(bucket.take(at: start, before: start + .seconds(2)) == .seconds(1))
  }

  @Test func `each app and each kind of call has its own turns`() {
    let limit = ServerAPIRateLimit(callsPerSecond: [.production: 1])
    let start = ContinuousClock.now
    func turn(_ app: BundleID, _ endpoint: ServerAPIEndpoint) -> ServerAPIRateLimit.Turn {
      limit.turn(
        for: .init(environment: .production, bundleID: app, endpoint: endpoint), at: start,
        before: start + .seconds(1))
    }
    #expect(turn("a", .statuses) == .after(.zero))
    #expect(turn("a", .statuses) == .tooLate)
    #expect(turn("a", .history) == .after(.zero))
    #expect(turn("b", .statuses) == .after(.zero))
  }

  @Test func `Apple answers a fifth of the orders`() {
    let limit = ServerAPIRateLimit(callsPerSecond: [.production: 50])
    let start = ContinuousClock.now
    let orders = ServerAPIRateLimit.Quota(environment: .production, bundleID: "a", endpoint: .order)
    let turns = (0..<4).map { _ in limit.turn(for: orders, at: start, before: start + .seconds(1)) }
    #expect(
      turns == [.after(.zero), .after(.zero), .after(.milliseconds(100)), .after(.milliseconds(200))])
  }

  @Test func `a store that is closed for long is not opened by a shorter wish`() {
    let limit = ServerAPIRateLimit(callsPerSecond: [:])
    let start = ContinuousClock.now
    limit.close(.production, for: .seconds(60), at: start)
    limit.close(.production, for: .seconds(1), at: start)
    #expect(limit.closed(.production, at: start + .seconds(2)) == .seconds(58))
    #expect(limit.closed(.production, at: start + .seconds(60)) == nil)
    #expect(limit.closed(.sandbox, at: start) == nil)
  }

  // MARK: Retry-After

  private static let noon = Date(timeIntervalSince1970: 1_718_452_800)

  @Test(arguments: [
    ("0", Duration?.some(.zero)), ("120", .seconds(120)), ("86400", .seconds(86_400)), ("90000", .seconds(86_400)),
    ("999999999", .seconds(86_400)), ("1718452860", .seconds(60)), ("1718452800", .zero), ("1718452700", .zero),
    ("1718452860000", .seconds(60)), ("1718452860001", .milliseconds(60_001)), ("1718452799999", .zero),
    ("9223372036854775807", .seconds(86_400)), ("Sat, 15 Jun 2024 12:01:00 GMT", .seconds(60)), ("-1", nil),
    ("+60", nil), ("60.5", nil), ("", nil), ("soon", nil), ("99999999999999999999", nil),
  ])
  func `Retry-After is read by the size of its number`(_ value: String, _ pause: Duration?) {
    #expect(RetryAfter.parse(value, answeredAt: Self.noon) == pause)
  }

  // MARK: The moment to judge at

  @Test func `the moment to judge at is the newest signature, unless Apple's clock has gone on since`() {
    func evaluated(_ signed: Double?, _ answered: Double?, ours: Double = 0) -> Double {
      func date(_ seconds: Double) -> Date { Self.noon.addingTimeInterval(seconds) }
      return ServerAPIFindings.evaluatedAt(
        signedDate: signed.map(date), answeredAt: answered.map(date), now: date(ours)
      ).timeIntervalSince(Self.noon)
    }
    #expect(evaluated(-1, 0) == -1)
    #expect(evaluated(-60, 0) == -60)
    #expect(evaluated(-61, 0) == 0)
    #expect(evaluated(-86_400, 0) == 0)
    #expect(evaluated(-86_400, nil) == -86_400)
    // A date that the edge made up does not end anything.
    #expect(evaluated(-86_400, 301) == -86_400)
    #expect(evaluated(-86_400, 300) == 300)
    // The result is the same, whatever our own clock says.
    #expect(evaluated(-10, 0, ours: 86_400) == -10)
    #expect(evaluated(5, 0) == 5)
    #expect(evaluated(nil, -5) == -5)
    #expect(evaluated(nil, nil) == 0)
  }

  @Test func `an old signature leaves the evidence as old as it is`() async throws {
    let day: Int64 = 86_400_000
    let item = try ServerAPISample.item(
      .init(signedAt: ServerAPISample.signedAt - day), renewal: .init(signedAt: ServerAPISample.signedAt - day),
      status: 1)
    let time = TestTime()
    let observed = Mutex<[ServerAPIAttempt]>([])
    let client = ServerAPIClient(
      transport: ScriptedTransport(
        [
          .body(
            ServerAPISample.statuses([[item]]),
            headers: [TransportHeader("Date", "Sat, 15 Jun 2024 12:00:01 GMT")])
        ], time: time),
      configuration: try ServerAPISample.configuration(), verifier: try SignedDataPKI.made.get().verifier(),
      timing: time.timing(), observe: { attempt in observed.withLock { $0.append(attempt) } })
    let answer = try await client.history(
      of: "1", bundleIDs: ["com.example.app"], includesOneTimePurchases: false, deadline: time.now + .seconds(10))
    #expect(answer.history.evidenceTime == moment(ServerAPISample.signedAt - day))
    #expect(answer.history.evaluatedAt == moment(ServerAPISample.signedAt + 1000))
    #expect(observed.withLock { $0 }.first?.answeredAt == moment(ServerAPISample.signedAt + 1000))
  }

  // MARK: Shapes

  private func history(_ members: String) throws(JSONError) -> HistoryResponse {
    try HistoryResponse(JSONDocument(Array(#"{"environment":"Production","bundleId":"a"\#(members)}"#.utf8)).root)
  }

  @Test func `a page of a history says what is on it and whether there are more`() throws {
    let page = try history(#","signedTransactions":["x","y"],"hasMore":true,"revision":"r""#)
    #expect(page.signedTransactions == ["x", "y"])
    #expect(page.nextRevision == "r")
    #expect(try history(#","signedTransactions":[],"hasMore":false,"revision":"r""#).nextRevision == nil)
  }

  @Test(arguments: [
    "", #","hasMore":false"#, #","signedTransactions":[]"#, #","signedTransactions":{},"hasMore":false"#,
    #","signedTransactions":[1],"hasMore":false"#, #","signedTransactions":[null],"hasMore":false"#,
    #","signedTransactions":[],"hasMore":true"#, #","signedTransactions":[],"hasMore":true,"revision":"""#,
    #","signedTransactions":[],"hasMore":"?","revision":"r""#,
    #","signedTransactions":[],"hasMore":true,"revision":"\#(String(repeating: "r", count: 1025))""#,
  ])
  func `a page with a missing or invalid member is no answer`(_ members: String) {
    #expect(throws: JSONError.self) { try history(members) }
  }
}

/// The shapes of Apple's own library; skipped where the folder is not. What is signed in them is a placeholder.
@Suite(
  "Shapes of the Server API",
  .enabled(if: ReceiptFixtures.areThere, "the folder of examples is not there; set COUNTERSIGN_FIXTURES"))
struct ServerAPIFixtureTests {
  private static let folder = "apple__app-store-server-library/models"

  private func document(_ name: String) throws -> JSONDocument {
    try JSONDocument(ReceiptFixtures.contents("\(Self.folder)/\(name).json"))
  }

  @Test func `the statuses of two groups are read`() throws {
    let response = try StatusesResponse(document("getAllSubscriptionStatusesResponse").root)
    #expect(response.head.environmentName == "LocalTesting")
    #expect(response.head.environment == nil)
    #expect(response.head.bundleID == "com.example")
    #expect(response.head.appAppleID == 5_454_545)
    #expect(response.items.map(\.groupID) == ["sub_group_one", "sub_group_one", "sub_group_two"])
    #expect(response.items.map(\.originalTransactionID) == ["3749183", "5314314134", "3413453"])
    #expect(response.items.map(\.signedTransaction).last == "signed_transaction_three")
    #expect(response.items.map(\.signedRenewal).first == "signed_renewal_one")
    #expect(response.items.map(\.path).last == "data[1].lastTransactions[0]")
  }

  @Test func `the answer about one transaction is read`() throws {
    guard
      case .transaction(let text) = try ServerAPIResponse(document("transactionInfoResponse").root, of: .transaction)
    else {
      Issue.record("another answer")
      return
    }
    #expect(text == "signed_transaction_info_value")
  }

  @Test(arguments: [
    ("apiTooManyRequestsException", 4_290_000), ("apiException", 5_000_000), ("transactionIdNotFoundError", 4_040_010),
  ])
  func `errors of the Server API are read`(_ name: String, _ code: Int) throws {
    #expect(try ServerAPIErrorCode(document(name).root).rawValue == code)
  }
}
