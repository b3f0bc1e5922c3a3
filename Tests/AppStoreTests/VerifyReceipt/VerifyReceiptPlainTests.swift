import Foundation
import SeededRandom
import Testing

@testable import AppStore
@testable import JSON

/// The answer decoded of a plain text by its index is the one decoded of the parser's tree, whatever the answer is.
@Suite(.timeLimit(.minutes(30)), .computing) struct VerifyReceiptPlainTests {
  /// 600 of each kind, 6,000 in `make cases`, or more by `COUNTERSIGN_MUTATIONS`.
  private static let count =
    ProcessInfo.processInfo.environment["COUNTERSIGN_MUTATIONS"].flatMap { Int($0) } ?? SeededRandom.cases(6_000)

  /// How many texts went which way.
  private struct Tally {
    var all = 0
    var plain = 0
    var decoded = 0
    var decodedPlain = 0
    var syntaxErrors = 0
  }

  private func decode(_ document: JSONDocument) -> Result<VerifyReceiptResponse, JSONError> {
    Result { () throws(JSONError) in try VerifyReceiptResponse(document.root) }
  }

  /// - Returns: whether both ways agree.
  private func check(_ bytes: [UInt8], _ tally: inout Tally) -> Bool {
    let expected = Result { () throws(JSONError) in try JSONDocument(parsing: bytes) }.flatMap(decode)
    let plain = JSONDocument(plain: bytes, root: .object, limits: JSONLimits())
    tally.all += 1
    if plain != nil { tally.plain += 1 }
    switch expected {
    case .success:
      tally.decoded += 1
      if plain != nil { tally.decodedPlain += 1 }
    case .failure(.syntax): tally.syntaxErrors += 1
    case .failure: break
    }
    guard plain.map(decode) ?? expected == expected else {
      Issue.record("not the same: \(String(decoding: bytes, as: UTF8.self))")
      return false
    }
    return true
  }

  @Test func `generated answers decode to the same by index and by tree`() {
    var generator = AnswerGenerator(seed: 0x5E1E_C7ED)
    var tally = Tally()
    for _ in 0..<Self.count where !check(generator.answer(), &tally) { return }
    print("made up: \(tally)")
    // Without a share of each the comparison would prove nothing.
    #expect(tally.plain > tally.all / 3)
    #expect(tally.decodedPlain > tally.all / 10)
    #expect(tally.syntaxErrors > tally.all / 20)
    // Most of what Apple might send is plain, though much is made up to be odd.
    #expect(tally.decodedPlain > tally.decoded * 2 / 3)
  }

  @Test func `damaged answers decode to the same by index and by tree`() {
    // All but the status alone, which is among the texts below.
    let seeds = VerifyReceiptMutationTests.seeds.dropLast()
    var dice = SeededRandom(seed: 0xDA3A_6ED5)
    var tally = Tally()
    for number in 0..<Self.count {
      let bytes = TextDamage.mutate(Array(seeds[number % seeds.count].utf8), &dice)
      guard check(bytes, &tally) else { return }
    }
    print("damaged: \(tally)")
    #expect(tally.plain > tally.all / 20)
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
    #expect(tally.plain == 0)
    #expect(check(bytes, &tally))
    #expect(tally.plain == 1)
  }

  @Test(arguments: ["usual", "with a large number, and escapes"])
  func `an ordinary answer is plain`(_ kind: String) {
    var body = Sample.body(inApp: Sample.row, latest: "[\(Sample.refundedRow),\(Sample.row),\(Sample.lifetimeRow)]")
    if kind != "usual" {
      body = body.replacingOnce("AA==", with: #"MII\/A\u002B=="#)
        .replacingOnce(#""1719792000000""#, with: "1719792000000.5")
    }
    var tally = Tally()
    #expect(check(Array(body.utf8), &tally))
    #expect(tally.decodedPlain == 1)
  }

  @Test(
    .enabled(if: ReceiptFixtures.areThere),
    arguments: VerifyReceiptFixtures.cases("verifyreceipt_response"))
  func `a recorded answer decodes to the same, damaged or not`(_ recorded: VerifyReceiptFixtures.Case) throws {
    let bytes = try ReceiptFixtures.contents(recorded.file)
    var dice = SeededRandom(seed: 0xF1C7)
    var tally = Tally()
    #expect(check(bytes, &tally))
    #expect(tally.plain == 1)
    for _ in 0..<(Self.count / 40) where !check(TextDamage.mutate(bytes, &dice), &tally) { return }
  }
}
