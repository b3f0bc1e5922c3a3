import CountersignAPI
import Foundation
import Testing

/// The wire types decode what they encode, and nothing of it depends on who wrote it.
@Suite struct WireTypeTests {
  private static let moment = Date(timeIntervalSince1970: 1_718_452_800.017)

  private static let entitlement = EntitlementState(
    tier: "pro", status: .gracePeriod, reason: .billingGrace, expiresAt: moment, isTrial: false, isStale: false,
    isProvisional: true)
  private static let explained = ExplainedEntitlement(
    entitlement: entitlement, explanation: "Apple retries the payment.",
    decision: Decision(
      reason: .billingGrace, policy: Decision.Policy(key: "policy.billing_retry_access", value: "60d"),
      passedOver: [Decision.PassedOver(transactionID: "1", productID: "a", cause: "upgraded")], passedOverCount: 1,
      evaluatedAt: moment))
  private static let change = HistoryEvent(
    recordedAt: moment, requestID: "request-1", askedBy: "support", note: "moved",
    detail: .ownerChange(
      HistoryEvent.OwnerChange(environment: .sandbox, originalTransactionID: "2", toUserID: "b"),
      explanation: "It was presented for the first time."))
  private static let purchase = PurchaseResponse(
    originalTransactionID: "2", environment: .production, userID: "a", state: explained, ownershipChanges: [change])

  private func same<Value: Codable & Equatable>(_ value: Value) throws {
    let json = try JSONEncoder.countersign.encode(value)
    let again = try JSONDecoder.countersign.decode(Value.self, from: json)
    #expect(again == value)
    #expect(try JSONEncoder.countersign.encode(again) == json)
  }

  private func text(_ value: some Encodable) throws -> String {
    String(decoding: try JSONEncoder.countersign.encode(value), as: UTF8.self)
  }

  @Test func `every answer decodes what it encodes`() throws {
    let period = PurchasePeriod(
      originalTransactionID: "2", transactionID: "3", environment: .production, productID: "p", startsAt: Self.moment,
      isUpgraded: false, isTrial: true, ownership: .familyShared)
    for found in [nil, true, false] as [Bool?] {
      try same(
        EntitlementResponse(
          userID: "a", entitlement: Self.entitlement, profileWrite: .queued, isTransactionFound: found))
    }
    try same(
      HistoryResponse(
        userID: "a", now: Self.explained, periods: [period],
        entries: [
          Self.change,
          HistoryEvent(
            recordedAt: Self.moment, requestID: "r", detail: .verdict(Self.explained, isChanged: true)),
          HistoryEvent(recordedAt: Self.moment, requestID: "r", detail: .revalidation(explanation: "Asked.")),
          HistoryEvent(recordedAt: Self.moment, requestID: "r", detail: .other(kind: "new", explanation: "What?")),
        ], next: "/next"))
    try same(TransactionResponse(originalTransactionID: "2", purchases: [Self.purchase]))
    try same(
      LookUpResponse(
        id: "2", foundAs: ["order_id"], purchases: [Self.purchase],
        unowned: [.init(originalTransactionID: "4", environment: .sandbox, source: "app_store")], searchedAll: true,
        appStore: "answered"))
    try same(
      RunReport(
        id: "7", state: .running, expiringWithin: "1d", limit: 5, due: 4, done: 1, changed: 1, failed: 1, heldBack: 1,
        remaining: 1, rate: 9.8, startedAt: Self.moment))
    try same(BrakeState(isEngaged: true, since: Self.moment, lookedAt: 3, withheldByRules: 0))
    try same(NotificationResponse(outcome: "noted"))
    try same(
      Readiness(
        status: "ok", ledger: "ok", appStore: "answering", profileStore: "none",
        outbox: .init(depth: 1, ageSeconds: 2, missing: 3), downgradeBrake: "released", withheldByRules: 0, clock: "ok")
    )
    try same(Liveness())
    try same(
      ProblemDocument(
        type: "t", title: "t", status: 422, detail: "d", code: "wrong_app", isRetryable: false, requestID: "r"))
  }

  @Test func `every request decodes what it encodes, and leaves out what is not there`() throws {
    try same(ValidationRequest(receiptData: "AA==", userID: "a", transactionID: "7"))
    try same(UserRevalidationRequest(note: "why"))
    try same(TransferRequest(to: "b", note: "why"))
    #expect(
      try text(RunRequest(expiringWithin: "7d", isDryRun: true)) == #"{"dry_run":true,"expiring_within":"7d"}"#)
    #expect(try text(UserRevalidationRequest()) == "{}")
  }

  @Test func `a word that is newer than the client survives`() throws {
    let json = try text(EntitlementResponse(userID: "a", entitlement: Self.entitlement, profileWrite: .none))
      .replacing("billing_grace", with: "reason_of_tomorrow")
    let answer = try JSONDecoder.countersign.decode(EntitlementResponse.self, from: Data(json.utf8))
    #expect(answer.reason == "reason_of_tomorrow")
    #expect(try text(answer) == json)
  }

  @Test func `an unknown member is written as null, and read where it is absent`() throws {
    #expect(
      try text(BrakeState(isEngaged: false, withheldByRules: 0))
        == #"{"engaged":false,"looked_at":null,"lowered":null,"since":null,"withheld":null,"withheld_by_rules":0}"#)
    let short = Data(#"{"engaged":false,"withheld_by_rules":0}"#.utf8)
    #expect(try JSONDecoder.countersign.decode(BrakeState.self, from: short).since == nil)
  }

  @Test(arguments: [
    (1_718_452_800.0, "2024-06-15T12:00:00Z"), (1_718_452_800.017, "2024-06-15T12:00:00.017Z"),
    (-0.001, "1969-12-31T23:59:59.999Z"), (253_402_300_799.999, "9999-12-31T23:59:59.999Z"),
  ])
  func `a date is written in RFC 3339`(seconds: Double, expected: String) throws {
    let json = try text([Date(timeIntervalSince1970: seconds)])
    #expect(json == "[\"\(expected)\"]")
    let date = try #require(try JSONDecoder.countersign.decode([Date].self, from: Data(json.utf8)).first)
    #expect(abs(date.timeIntervalSince1970 - seconds) < 0.0005)
  }

  @Test(arguments: [#""yesterday""#, #""""#, "17", #""2024-06-15""#])
  func `a date that cannot be read is an error, and not an absent one`(date: String) {
    let json = #"{"engaged":true,"since":\#(date),"withheld_by_rules":0}"#
    #expect(throws: DecodingError.self) {
      try JSONDecoder.countersign.decode(BrakeState.self, from: Data(json.utf8))
    }
  }

  private static let samples = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()
    .appendingPathComponent("samples")

  private func files(_ folder: String) throws -> [Data] {
    let files = try FileManager.default.contentsOfDirectory(
      at: Self.samples.appendingPathComponent(folder), includingPropertiesForKeys: nil
    ).filter { $0.pathExtension == "json" }
    #expect(!files.isEmpty)
    return try files.map { try Data(contentsOf: $0) }
  }

  /// The text of any JSON with its members in the order of their names.
  private func sorted(_ json: Data) throws -> Data {
    try JSONSerialization.data(
      withJSONObject: JSONSerialization.jsonObject(with: json), options: [.sortedKeys, .withoutEscapingSlashes])
  }

  @Test func `the samples are read, and written as they are`() throws {
    for file in try files("answers") {
      let answer = try JSONDecoder.countersign.decode(EntitlementResponse.self, from: file)
      #expect(try sorted(try JSONEncoder.countersign.encode(answer)) == sorted(file))
    }
    for file in try files("problems") {
      let problem = try JSONDecoder.countersign.decode(ProblemDocument.self, from: file)
      #expect(try sorted(try JSONEncoder.countersign.encode(problem)) == sorted(file))
    }
    for file in try files("requests") {
      let request = try JSONDecoder.countersign.decode(ValidationRequest.self, from: file)
      #expect((request.receiptData == nil) != (request.originalTransactionID == nil))
    }
  }
}
