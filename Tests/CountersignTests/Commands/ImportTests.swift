import CountersignAPI
import Foundation
import HTTPTransport
import Synchronization
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// `countersign import`: the way in from another service.
@Suite struct ImportTests {
  private final class Output: Sendable {
    private let state = Mutex<[String]>([])
    var lines: [String] { state.withLock { $0 } }
    func note(_ line: String) { state.withLock { $0.append(line) } }
  }

  private func importing(
    _ text: String, _ service: RunningService, progress: String? = nil, isDryRun: Bool = false, rate: Int = 10,
    isCutOff: Bool = false, again: Bool = false, pauses: Output = Output(), anew: Output = Output()
  ) async throws -> (end: ImportRun.End, output: [String]) {
    let directory = try TemporaryDirectory()
    let file = try OpenFile(try directory.write("customers.jsonl", text), O_RDONLY)
    let output = Output()
    // By this clock nothing takes any time, so that a pause is as long as the pace wants it.
    let moment = ContinuousClock.now
    let end = await ImportRun(
      client: ServiceClient(transport: service.client, url: service.origin, key: RunningService.serviceKey),
      lines: LineReader(file, limit: ImportedLine.longest), progress: progress.map(ImportProgress.init), rate: rate,
      isDryRun: isDryRun, again: again, output: { output.note($0.text) }, begunAnew: { anew.note("anew") },
      clock: { moment }, now: { noon },
      sleep: { pause in
        if isCutOff { throw CancellationError() }
        pauses.note("\(pause > .zero)")
      }
    ).run()
    return (end, output.lines)
  }

  // MARK: Lines

  @Test func `a customer of RevenueCat's is read with the purchases at Apple's`() throws {
    let line = """
      {"request_date":"2024-06-15T12:00:00Z","request_date_ms":1718452800000,"subscriber":{"original_app_user_id":"u1",
      "entitlements":{"pro":{"expires_date":"2024-07-01T00:00:00Z","product_identifier":"m"},
      "old":{"expires_date":"2024-01-01T00:00:00Z","product_identifier":"o"},
      "life":{"expires_date":null,"product_identifier":"l"}},
      "subscriptions":{"m":{"store":"app_store","store_transaction_id":"7"},
      "g":{"store":"play_store","store_transaction_id":"GPA.1"}},
      "non_subscriptions":{"l":[{"id":"x","store":"app_store","store_transaction_id":"8"}]}}}
      """
    let customer = try ImportedLine(Data(line.utf8), at: noon)
    #expect(customer.user == "u1" && customer.tiers == ["pro", "life"] && customer.purchasesElsewhere == 1)
    #expect(customer.proofs == [.transactionID("7"), .transactionID("8")])
    // Without the time of the answer, it is as of now.
    let undated = Data(line.replacing(#""request_date":"2024-06-15T12:00:00Z","#, with: "").utf8)
    #expect(try ImportedLine(undated, at: noon).tiers == ["pro", "life"])
    #expect(try ImportedLine(undated, at: noon + 30 * 86_400).tiers == ["life"])
  }

  @Test(
    arguments: [
      (#""2024-06-10T00:00:00Z","grace_period_expires_date":"2024-06-20T00:00:00Z""#, ["pro"]),
      (#""2024-06-10T00:00:00Z","grace_period_expires_date":"2024-06-12T00:00:00Z""#, []),
      (#""2024-06-20T00:00:00Z","grace_period_expires_date":"2024-06-12T00:00:00Z""#, ["pro"]),
      (#""2024-06-10T00:00:00Z","grace_period_expires_date":null"#, []),
      (#"null,"grace_period_expires_date":"2024-06-12T00:00:00Z""#, ["pro"]),
    ] as [(String, Set<String>)])
  func `a customer of RevenueCat's in a grace period has the tier`(dates: String, tiers: Set<String>) throws {
    let line = #"{"subscriber":{"original_app_user_id":"u","entitlements":{"pro":{"expires_date":\#(dates)}}}}"#
    #expect(try ImportedLine(Data(line.utf8), at: noon).tiers == tiers)
  }

  @Test(arguments: [
    "", "{", "[]", "{}", #"{"user_id":"u"}"#, #"{"user_id":"","receipt_data":"x"}"#, #"{"receipt_data":"x"}"#,
    #"{"subscriber":{"original_app_user_id":"u","subscriptions":{"p":{"store":"app_store"}}}}"#,
  ])
  func `a line that cannot be used is told of`(line: String) {
    #expect(throws: ImportedLine.Unreadable.self) { try ImportedLine(Data(line.utf8), at: noon) }
  }

  @Test(arguments: [
    (#"{"user_id":"u","original_transaction_id":480000000010000}"#, #""original_transaction_id" has to be a text"#),
    (#"{"user_id":5,"receipt_data":"x"}"#, #""user_id" has to be a text"#),
    (#"{"subscriber":{}}"#, #""subscriber.original_app_user_id" is missing"#),
    (#"{"subscriber":{"original_app_user_id":null}}"#, #""subscriber.original_app_user_id" is null"#),
    (#"{"subscriber":"u"}"#, #""subscriber" has to be of another type"#),
    ("[]", "it is no JSON object with 'user_id' or 'subscriber'"),
  ])
  func `the member that cannot be read is named`(line: String, sentence: String) {
    #expect(throws: ImportedLine.Unreadable(sentence: sentence)) { try ImportedLine(Data(line.utf8), at: noon) }
  }

  @Test func `lines are read whole, the last without its end, and one that is too long is skipped`() throws {
    let directory = try TemporaryDirectory()
    let text = "one\n\n" + String(repeating: "x", count: 3 << 20) + "\nlast"
    let file = try OpenFile(try directory.write("f", text), O_RDONLY)
    var reader = LineReader(file, limit: 1 << 20)
    var lines: [String] = []
    while let line = try reader.next() {
      lines.append("\(line.number) \(line.bytes.map { String(decoding: $0, as: UTF8.self) } ?? "too long")")
    }
    #expect(lines == ["1 one", "2 ", "3 too long", "4 last"])
  }

  // MARK: Imports

  @Test func `equal verdicts of both services are counted, and differences are printed`() async throws {
    try await RunningService.besideStore(withServerAPI: true) { service, store in
      func receipt(_ scenario: Scenario, _ number: Int64) throws -> String {
        try store.simulator.issueReceipt(scenario, subscriber: number).receiptData
      }
      let known = try store.simulator.issueTransaction(.renewing, subscriber: 9).originalTransactionID
      func several(_ user: String, _ number: Int64, _ tiers: [String]) throws -> String {
        let known = try store.simulator.issueTransaction(.renewing, subscriber: number).originalTransactionID
        let entitlements = tiers.map { #""\#($0)":{"expires_date":null}"# }.joined(separator: ",")
        return #"{"app_user_id":"\#(user)","subscriber":{"original_app_user_id":"x","#
          + #""entitlements":{\#(entitlements)},"subscriptions":{"p":{"store":"app_store","store_transaction_id":"\#(known)"}}}}"#
      }
      let lines = [
        #"{"user_id":"same","receipt_data":"\#(try receipt(.grace, 1))","tier":"pro"}"#,
        #"{"user_id":"lapsed","receipt_data":"\#(try receipt(.expiredVoluntary, 2))","tier":"pro"}"#,
        #"{"user_id":"unsaid","receipt_data":"\#(try receipt(.lifetime, 3))"}"#,
        #"{"user_id":"forged","receipt_data":"bm90IGEgcmVjZWlwdA==","tier":"pro"}"#,
        "not JSON",
        #"{"app_user_id":"by-id","subscriber":{"original_app_user_id":"x","entitlements":{"gold":{"expires_date":null}},"#
          + #""subscriptions":{"p":{"store":"app_store","store_transaction_id":"\#(known)"}}}}"#,
        #"{"subscriber":{"original_app_user_id":"nothing","entitlements":{},"subscriptions":{}}}"#,
        try several("higher", 10, ["pro", "premium"]), try several("highest", 11, ["free", "pro"]),
        try several("beside", 12, ["pro", "gold"]),
        #"{"user_id":"half","receipt_data":"\#(try receipt(.renewing, 13))","original_transaction_id":"999","tier":"pro"}"#,
      ]
      let (end, output) = try await importing(lines.joined(separator: "\n"), service)
      #expect(end.failure == nil)
      #expect(
        end.report
          == ImportReport(lines: 11, same: 4, different: 4, refused: 2, unreadable: 1, skipped: 0), "\(output)")
      #expect(output.count == 7)
      #expect(output[0] == "2 lapsed: pro there, free here (voluntary)")
      #expect(output[1].hasPrefix("4 forged: refused: "))
      #expect(output[2].hasPrefix("5: cannot be read: "))
      #expect(output[3] == "6 by-id: gold there, pro here (renewing); the catalog has no tier gold")
      // The highest of several tiers counts, and a tier that the catalog lacks differs.
      #expect(output[4] == "8 higher: premium + pro there, pro here (renewing)")
      #expect(output[5] == "10 beside: gold + pro there, pro here (renewing); the catalog has no tier gold")
      // One purchase that counts hides no other one that is refused.
      #expect(output[6].hasPrefix("11 half: refused: "))
      #expect(try await service.profile("by-id").verdict == "pro active renewing")
      #expect(try await service.profile("unsaid").verdict == "premium active lifetime")
    }
  }

  @Test func `a dry run posts nothing, and compares with what is known`() async throws {
    try await RunningService.besideStore { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let (end, output) = try await importing(
        #"{"user_id":"u1","receipt_data":"\#(receipt)","tier":"pro"}"#, service, isDryRun: true)
      #expect(end.report.different == 1 && output == ["1 u1: pro there, free here (no_purchases)"])
      #expect(store.simulator.calls.total == 0)
    }
  }

  @Test func `an import that was cut off goes on where it ended, and at its pace`() async throws {
    try await RunningService.besideStore { service, store in
      let lines = try (1...20).map { number in
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number)).receiptData
        return #"{"user_id":"u\#(number)","receipt_data":"\#(receipt)","tier":"pro"}"#
      }.joined(separator: "\n")
      let directory = try TemporaryDirectory()
      let progress = directory.path + "/customers.jsonl.progress"
      // Somebody ends it in the pause after the first lines.
      let (end, _) = try await importing(lines, service, progress: progress, rate: 1, isCutOff: true)
      #expect(end.failure == .cancelled && end.report.lines == 8 && end.report.same == 8)
      #expect(ImportProgress(path: progress).read().through == 8)
      let pauses = Output()
      let (rest, output) = try await importing(lines, service, progress: progress, rate: 1, pauses: pauses)
      #expect(rest.failure == nil && rest.report.skipped == 8 && rest.report.same == 12 && output.isEmpty)
      #expect(pauses.lines == ["true", "true"])
      #expect(ImportProgress(path: progress).read().through == 20)
    }
  }

  @Test func `a purchase that is not found is not said to be unknown to Apple where Apple is not asked`() async throws {
    try await RunningService.besideStore { service, store in
      let known = try store.simulator.issueTransaction(.renewing).originalTransactionID
      let (_, output) = try await importing(#"{"user_id":"u","original_transaction_id":"\#(known)"}"#, service)
      #expect(output.first?.hasSuffix("; without app_store.server_api Apple is not asked by an ID") == true)
    }
  }

  @Test func `a line that is refused is taken again with the next call, one that differs when that is asked for`()
    async throws
  {
    try await RunningService.besideStore { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let lapsed = try store.simulator.issueReceipt(.expiredVoluntary, subscriber: 2).receiptData
      func lines(_ third: String) -> String {
        [("same", receipt), ("lapsed", lapsed), ("refused", third)].map { user, receipt in
          #"{"user_id":"\#(user)","receipt_data":"\#(receipt)","tier":"pro"}"#
        }.joined(separator: "\n")
      }
      let directory = try TemporaryDirectory()
      let progress = directory.path + "/customers.jsonl.progress"
      let forged = lines("bm90IGEgcmVjZWlwdA==")
      let first = try await importing(forged, service, progress: progress).end.report
      #expect(first == ImportReport(lines: 3, same: 1, different: 1, refused: 1) && !first.isEqual)
      #expect(ImportProgress(path: progress).read().unequal == [2: .differs, 3: .refused])
      let (second, output) = try await importing(forged, service, progress: progress)
      #expect(second.report == ImportReport(lines: 1, refused: 1, skipped: 2, skippedDifferent: 1))
      #expect(!second.report.isEqual)
      #expect(output.count == 1 && output.first?.hasPrefix("3 refused: refused: ") == true)

      let mended = lines(try store.simulator.issueReceipt(.renewing, subscriber: 3).receiptData)
      let third = try await importing(mended, service, progress: progress).end.report
      #expect(third == ImportReport(lines: 1, same: 1, skipped: 2, skippedDifferent: 1) && !third.isEqual)
      #expect(third.summary.hasSuffix("2 were settled before, 1 of them differ (--again takes those again)."))
      _ = try await service.send(.post, "/v1/profiles/lapsed/grants", body: #"{"tier":"pro","for":"1d"}"#)
      let fourth = try await importing(mended, service, progress: progress, again: true).end.report
      #expect(fourth == ImportReport(lines: 1, same: 1, skipped: 2) && fourth.isEqual)
      let settled = ImportProgress(path: progress).read()
      #expect(settled.through == 3 && settled.unequal.isEmpty)
      // Exported anew under the same name, or with a line less, the file has other lines.
      let line = mended.split(separator: "\n").prefix(1).joined(separator: "")
      for other in [line.replacing("{", with: "{ "), line] {
        let anew = Output()
        let report = try await importing(other, service, progress: progress, anew: anew).end.report
        #expect(report.lines == 1 && report.skipped == 0 && anew.lines == ["anew"])
        #expect(ImportProgress(path: progress).read().through == 1)
        _ = try await importing(mended, service, progress: progress)
      }
      // With another one at its end it has the same ones.
      let more = try await importing(mended + "\n" + line, service, progress: progress).end.report
      #expect(more.lines == 1 && more.skipped == 3)
    }
  }

  @Test func `a line of progress that was cut off, and one of another time, harm nothing`() throws {
    let directory = try TemporaryDirectory()
    let (one, two) = (String(repeating: "0", count: 15) + "1", String(repeating: "0", count: 15) + "2")
    for (text, settled) in [
      ("", ImportProgress.Settled()), ("20\n", .init()), ("20 \(one)\n", .init(through: 20, digest: 1)),
      ("20 \(one)\n4 refused \(two)\n4 same \(two)\n21 dif", .init(through: 20, digest: 1)),
      ("20 \(one)\n21 same 00", .init(through: 20, digest: 1)),
      (
        "20 \(one)\n4 refused \(two)\n22 same \(one)\n23 differs \(two)\n24 unreadable \(one)\n",
        .init(through: 24, digest: 0, unequal: [4: .refused, 23: .differs, 24: .unreadable])
      ),
    ] {
      let progress = ImportProgress(path: try directory.write("progress", text))
      #expect(progress.read() == settled, "\(text)")
      let file = try progress.begin(settled)
      #expect(progress.read() == settled)
      try ImportProgress.note(30, .unreadable, digest: 4, in: file)
      #expect(progress.read().unequal[30] == .unreadable && progress.read().through == 30)
      #expect(progress.read().digest == settled.digest)
    }
  }

  @Test func `as JSON each customer who is not equal is a line`() throws {
    let line = try #require(ImportReport.Line(4, user: "a\u{1B}b", .refused("why")))
    let json = String(decoding: try JSONEncoder.countersign.encode(line), as: UTF8.self)
    #expect(json.contains(#""detail":"why","line":4,"outcome":"refused","user_id":"a"#))
    #expect(line.text == "4 ab: refused: why", "a terminal gets no control characters")
    #expect(ImportReport.Line(4, user: nil, .same) == nil)
  }

  @Test func `while Apple is away it waits, and gives up without a verdict of its own`() async throws {
    try await RunningService.besideStore { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let pauses = Output()
      let (end, output) = try await importing(
        #"{"user_id":"u1","receipt_data":"\#(receipt)","tier":"pro"}"#, service, pauses: pauses)
      guard case .away = end.failure else {
        Issue.record("it did not give up: \(String(describing: end.failure))")
        return
      }
      #expect(end.report == ImportReport() && output.isEmpty && pauses.lines.count > 5)
    }
  }

  @Test func `a key that the service refuses ends it at once`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      let directory = try TemporaryDirectory()
      let file = try OpenFile(try directory.write("f", #"{"user_id":"u1","receipt_data":"x"}"#), O_RDONLY)
      let end = await ImportRun(
        client: ServiceClient(transport: service.client, url: service.origin, key: "wrong"),
        lines: LineReader(file, limit: 1_000), rate: 10, isDryRun: false, output: { _ in }
      ).run()
      #expect(end.failure == .refusedCredential("the service does not know this key."))
      #expect(end.report == ImportReport())
    }
  }
}
