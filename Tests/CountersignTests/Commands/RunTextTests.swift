import Testing

@testable import Countersign

extension ReceivedRun {
  /// A report as the service would send it.
  static func sample(
    id: String? = "7", state: String = "running", due: Int = 10_000, done: Int = 0, changed: Int = 0, failed: Int = 0,
    heldBack: Int = 0, rate: String = "null", waitingFor: String? = nil, reason: String? = nil
  ) -> String {
    func quoted(_ text: String?) -> String { text.map { "\"\($0)\"" } ?? "null" }
    return """
      {"changed":\(changed),"done":\(done),"due":\(due),"expiring_within":"1d","failed":\(failed),"finished_at":null,\
      "held_back":\(heldBack),"id":\(quoted(id)),"limit":100000,"rate":\(rate),\
      "remaining":\(due - done - failed - heldBack),"started_at":"2024-06-15T12:00:00Z","state":"\(state)",\
      "stopped_reason":\(quoted(reason)),"waiting_for":\(quoted(waitingFor))}
      """
  }

  static func make(_ json: String) throws -> ReceivedRun { try #require(ReceivedRun(body: Array(json.utf8))) }
}

@Suite struct RunTextTests {
  struct Case: Sendable {
    var json: String
    var columns = 120
    var bar: String
    var line: String
    var summary: String
  }

  static let cases = [
    Case(
      json: ReceivedRun.sample(),
      bar: "[........................................]    0 %  0 of 10,000  changed 0  failed 0",
      line: "Run 7: 0 of 10000, 0 changed, 0 failed, 0 held back", summary: ""),
    Case(
      json: ReceivedRun.sample(done: 5_000, changed: 1_204, failed: 2, rate: "9.8"),
      bar: "[####################....................]   50 %  5,002 of 10,000  9.8/s  9 min left  "
        + "changed 1,204  failed 2",
      line: "Run 7: 5002 of 10000, 1204 changed, 2 failed, 0 held back, 9.8/s, 9 min left", summary: ""),
    Case(
      json: ReceivedRun.sample(done: 9_999, rate: "10"),
      bar: "[#######################################.]   99 %  9,999 of 10,000  10.0/s  1 s left  changed 0  failed 0",
      line: "Run 7: 9999 of 10000, 0 changed, 0 failed, 0 held back, 10.0/s, 1 s left", summary: ""),
    Case(
      json: ReceivedRun.sample(done: 100, rate: "0.1", waitingFor: "app_store"),
      bar: "[........................................]    1 %  100 of 10,000  waiting for the App Store  "
        + "changed 0  failed 0",
      line: "Run 7: 100 of 10000, 0 changed, 0 failed, 0 held back, waiting for the App Store", summary: ""),
    Case(
      json: ReceivedRun.sample(due: 100_000, done: 1, rate: "5"), columns: 60,
      bar: "  0 %  1 of 100,000  5.0/s  5.6 h left  changed 0  failed 0",
      line: "Run 7: 1 of 100000, 0 changed, 0 failed, 0 held back, 5.0/s, 5.6 h left", summary: ""),
    Case(
      json: ReceivedRun.sample(state: "finished", due: 3, done: 3, changed: 1, rate: "3.0"), columns: 80,
      bar: "[##################################]  100 %  3 of 3  3.0/s  changed 1  failed 0", line: "",
      summary: "Run 7 is finished: 3 of 3 done, 1 changed, 0 failed, 0 held back."),
    Case(
      json: ReceivedRun.sample(state: "finished", due: 0), bar: "", line: "",
      summary: "Run 7 is finished: nothing was due."),
    Case(
      json: ReceivedRun.sample(
        state: "stopped", due: 60, done: 10, changed: 10, heldBack: 2, reason: "downgrade_brake"),
      columns: 100,
      bar: "[########................................]   20 %  12 of 60  changed 10  failed 0  held back 2", line: "",
      summary: "Run 7 was stopped by the downgrade brake: 10 of 60 done, 10 changed, 0 failed, 2 held back, "
        + "48 not asked about."),
    Case(
      json: ReceivedRun.sample(id: nil, state: "dry_run", due: 42), bar: "", line: "",
      summary: "42 subscriptions are due; nothing was done."),
    Case(
      json: ReceivedRun.sample(id: nil, state: "dry_run", due: 1), bar: "", line: "",
      summary: "1 subscription is due; nothing was done."),
  ]

  @Test(arguments: cases.indices) func `a run is told in words and shown as a bar`(_ index: Int) throws {
    let expected = Self.cases[index]
    let report = try ReceivedRun.make(expected.json)
    if !expected.bar.isEmpty { #expect(RunText.bar(report, columns: expected.columns) == expected.bar) }
    if !expected.line.isEmpty { #expect(RunText.line(report) == expected.line) }
    if !expected.summary.isEmpty { #expect(RunText.summary(report) == expected.summary) }
  }

  @Test func `no bar is wider than its terminal`() throws {
    for json in Self.cases.map(\.json) {
      let report = try ReceivedRun.make(json)
      for columns in 0...200 { #expect(RunText.bar(report, columns: columns).count <= max(0, columns - 1)) }
    }
  }

  @Test(arguments: [
    "", "[]", "{}", "<html>", ReceivedRun.sample(state: "asleep"), ReceivedRun.sample(id: nil),
    ReceivedRun.sample(due: -1),
    ReceivedRun.sample(id: "\\u001b[2J"), ReceivedRun.sample(rate: "true"),
  ])
  func `an answer that is no run's report is not taken for one`(_ json: String) {
    #expect(ReceivedRun(body: Array(json.utf8)) == nil)
  }
}
