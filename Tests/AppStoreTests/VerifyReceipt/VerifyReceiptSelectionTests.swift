import Foundation
import Testing

@testable import AppStore
@testable import JSON

/// What is decoded of an answer after the first pass is what would be decoded of the whole answer, whatever it is.
@Suite(.timeLimit(.minutes(30))) struct VerifyReceiptSelectionTests {
  /// 4 000 of each kind, or more by `COUNTERSIGN_MUTATIONS`.
  private static let count =
    ProcessInfo.processInfo.environment["COUNTERSIGN_MUTATIONS"].flatMap { Int($0) } ?? 4000

  /// How many texts went which way.
  private struct Tally {
    var all = 0
    var condensed = 0
    var decoded = 0
    var decodedCondensed = 0
    var syntaxErrors = 0
  }

  private func whole(_ bytes: [UInt8]) -> Result<VerifyReceiptResponse, JSONError> {
    Result { () throws(JSONError) in try VerifyReceiptResponse(JSONDocument(bytes).root) }
  }

  private func selected(_ bytes: [UInt8]) -> Result<VerifyReceiptResponse, JSONError> {
    Result { () throws(JSONError) in
      try JSONReader.read(bytes, selecting: VerifyReceiptResponse.selection) { root throws(JSONError) in
        try VerifyReceiptResponse(root)
      }
    }
  }

  /// - Returns: whether both ways agree.
  private func check(_ bytes: [UInt8], _ tally: inout Tally) -> Bool {
    let expected = whole(bytes)
    let isCondensed = bytes.withUnsafeBytes {
      JSONCondenser.condense($0, to: VerifyReceiptResponse.selection, limits: JSONLimits()) != nil
    }
    tally.all += 1
    if isCondensed { tally.condensed += 1 }
    switch expected {
    case .success:
      tally.decoded += 1
      if isCondensed { tally.decodedCondensed += 1 }
    case .failure(.syntax): tally.syntaxErrors += 1
    case .failure: break
    }
    guard selected(bytes) == expected else {
      Issue.record("not the same: \(String(decoding: bytes, as: UTF8.self))")
      return false
    }
    return true
  }

  @Test func `generated answers decode to the same with a selection and without`() {
    var generator = AnswerGenerator(seed: 0x5E1E_C7ED)
    var tally = Tally()
    for _ in 0..<Self.count where !check(generator.answer(), &tally) { return }
    print("made up: \(tally)")
    // Without a share of each the comparison would prove nothing.
    #expect(tally.condensed > tally.all / 3)
    #expect(tally.decodedCondensed > tally.all / 10)
    #expect(tally.syntaxErrors > tally.all / 20)
    // Nearly all that Apple might send goes the short way.
    #expect(tally.decodedCondensed > tally.decoded * 3 / 4)
  }

  @Test func `damaged answers decode to the same with a selection and without`() {
    let seeds: [String] = [
      Sample.body(latest: "[\(Sample.refundedRow),\(Sample.row)]"),
      Sample.body(inApp: "\(Sample.refundedRow),\(Sample.lifetimeRow)", latest: nil),
      #"{"status":0,"receipt":\#(Sample.transaction),"latest_receipt_info":\#(Sample.transaction),"auto_renew_status":0}"#,
      #"{"status":21006,"latest_expired_receipt_info":\#(Sample.transaction),"expiration_intent":"1"}"#,
      #"{"status":21104,"is-retryable":"1","environment":"Production"}"#,
    ]
    var dice = Dice(state: 0xDA3A_6ED5)
    var tally = Tally()
    for number in 0..<Self.count {
      let bytes = TextDamage.mutate(Array(seeds[number % seeds.count].utf8), &dice)
      guard check(bytes, &tally) else { return }
    }
    print("damaged: \(tally)")
    #expect(tally.condensed > tally.all / 20)
    #expect(tally.syntaxErrors > tally.all / 4)
  }

  @Test(arguments: [
    Sample.body(), Sample.body(latest: "[\(Sample.refundedRow)]"), Sample.body(status: "21007"),
    #"{"status":0,"receipt":\#(Sample.transaction)}"#, #"{"status":21010}"#,
  ])
  func `an answer cut anywhere decodes to the same`(_ text: String) {
    let bytes = Array(text.utf8)
    var tally = Tally()
    for end in bytes.indices where !check(Array(bytes[..<end]), &tally) { return }
    #expect(tally.condensed == 0)
    #expect(check(bytes, &tally))
    #expect(tally.condensed == 1)
  }

  @Test func `members that nobody looks at are not parsed`() throws {
    let body = Sample.body(inApp: Sample.row, latest: "[\(Sample.row),\(Sample.lifetimeRow)]")
    let condensed = try #require(
      Array(body.utf8).withUnsafeBytes {
        JSONCondenser.condense($0, to: VerifyReceiptResponse.selection, limits: JSONLimits())
      })
    let text = String(decoding: condensed.bytes, as: UTF8.self)
    for piece in ["_pst", "expires_date\"", "purchase_date\"", "\"quantity", "latest_receipt\"", "is_trial_period"] {
      #expect(!text.contains(piece))
    }
    #expect(text.contains(#""expires_date_ms":"1719792000000""#))
  }

  @Test(
    .enabled(if: VerifyReceiptFixtures.isPresent),
    arguments: VerifyReceiptFixtures.cases("verifyreceipt_response"))
  func `a recorded answer decodes to the same, damaged or not`(_ recorded: VerifyReceiptFixtures.Case) throws {
    let bytes = try VerifyReceiptFixtures.bytes(recorded.file)
    var dice = Dice(state: 0xF1C7)
    var tally = Tally()
    #expect(check(bytes, &tally))
    #expect(tally.condensed == 1)
    for _ in 0..<(Self.count / 40) where !check(TextDamage.mutate(bytes, &dice), &tally) { return }
  }
}
