import Entitlements
import Foundation
import SeededRandom
import Testing

@testable import AppStore
@testable import JSON

/// Damaged answers: whatever happens to the bytes, decoding ends, and a refund never gets lost on the way.
@Suite(.timeLimit(.minutes(30)), .computing) struct VerifyReceiptMutationTests {
  /// 400, 4,000 in `make cases`, or more by `COUNTERSIGN_MUTATIONS`.
  private static let count =
    ProcessInfo.processInfo.environment["COUNTERSIGN_MUTATIONS"].flatMap { Int($0) } ?? SeededRandom.cases(4_000)

  static let seeds: [String] = [
    Sample.body(latest: "[\(Sample.refundedRow),\(Sample.row)]"),
    Sample.body(inApp: "\(Sample.refundedRow),\(Sample.lifetimeRow)", latest: nil),
    #"{"status":0,"receipt":\#(Sample.transaction),"latest_receipt_info":\#(Sample.transaction),"auto_renew_status":0}"#,
    #"{"status":21006,"latest_expired_receipt_info":\#(Sample.transaction),"expiration_intent":"1"}"#,
    #"{"status":21104,"is-retryable":"1","environment":"Production"}"#,
    #"{"status":21010}"#,
  ]

  /// The rows of an answer as another reader of JSON sees them, with whether each says it was taken back.
  private static func cancelled(_ bytes: [UInt8]) throws -> (latest: [Bool]?, sent: [Bool]) {
    let parsed = try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any] ?? [:]
    func rows(_ value: Any?) -> [Bool]? {
      let list = value as? [[String: Any]] ?? (value as? [String: Any]).flatMap { $0.isEmpty ? nil : [$0] } ?? []
      return list.isEmpty ? nil : list.map(isCancelled)
    }
    func isCancelled(_ row: [String: Any]) -> Bool {
      row.contains { key, value in
        key.hasPrefix("cancellation_") && known.contains(key) && !(value is NSNull) && (value as? String) != ""
      }
    }
    let known = [
      "cancellation_date", "cancellation_date_ms", "cancellation_date_pst", "cancellation_date_formatted",
      "cancellation_date_formatted_pst", "cancellation_reason",
    ]
    let isExpired = "\(parsed["status"] ?? "")" == "21006"
    let latest = rows(parsed["latest_receipt_info"])
    let expired = rows(parsed["latest_expired_receipt_info"])
    let receipt = parsed["receipt"] as? [String: Any] ?? [:]
    let hasApp = ["in_app", "bundle_id"].contains { receipt[$0] != nil && !(receipt[$0] is NSNull) }
    return (
      latest: isExpired ? expired ?? latest : latest ?? expired,
      sent: (hasApp ? rows(receipt["in_app"]) : rows(receipt)) ?? []
    )
  }

  @Test func `no damage crashes the decoder or loses a refund`() throws {
    var dice = SeededRandom(seed: 0x00C0_FFEE)
    var decoded = 0
    var refunds = 0
    for number in 0..<Self.count {
      let seed = Self.seeds[number % Self.seeds.count]
      let bytes = TextDamage.mutate(Array(seed.utf8), &dice)
      guard let document = try? JSONDocument(bytes), let response = try? VerifyReceiptResponse(document.root) else {
        continue
      }
      decoded += 1
      guard response.status.isVerdict else { continue }
      let expected = try Self.cancelled(bytes)
      let latest = response.latestRows?.map { $0.cancellationDate != nil }
      let sent = response.receiptRows.map { $0.cancellationDate != nil }
      refunds += (latest ?? sent).count { $0 }
      guard latest == expected.latest, sent == expected.sent else {
        Issue.record("mutation \(number) lost a refund: \(String(decoding: bytes, as: UTF8.self))")
        return
      }
      _ = response.purchaseHistory(environment: .production, askedAt: TestTime.date)
    }
    // A test whose every input is refused would prove nothing.
    #expect(decoded > Self.count / 20)
    #expect(refunds > Self.count / 100)
    print("mutations: \(Self.count), decoded: \(decoded), refunds seen: \(refunds)")
  }

  @Test(arguments: ["cancellation_date_ms", "cancellation_date"])
  func `every single damage to a refund's date that makes it unreadable fails the answer`(_ key: String) throws {
    // Only the form under test is left, so that nothing can stand in for it.
    var row = Sample.refundedRow.replacingOnce(
      #""cancellation_date_pst":"2024-06-09 17:00:00 America/Los_Angeles","#, with: "")
    row =
      key == "cancellation_date"
      ? row.replacingOnce(#""cancellation_date_ms":"1717977600000","#, with: "")
      : row.replacingOnce(#""cancellation_date":"2024-06-10 00:00:00 Etc/GMT","#, with: "")
    let value = key == "cancellation_date" ? "2024-06-10 00:00:00 Etc/GMT" : "1717977600000"
    #expect(try Sample.decodeRow(row)?.cancellationDate == moment(1_717_977_600_000))

    var refused = 0
    for place in value.indices {
      for replacement in ["", "x", " ", "-", ".", "/", "9", "\\n", "é", "\\u0661"] {
        let damaged = value.replacingCharacters(in: place...place, with: replacement)
        let text = row.replacingOnce(#""\#(key)":"\#(value)""#, with: #""\#(key)":"\#(damaged)""#)
        do throws(JSONError) {
          let decoded = try Sample.decodeRow(text)
          #expect(decoded?.cancellationDate != nil, "\(damaged) was read as no refund")
        } catch {
          #expect(error == .unreadable(path: "latest_receipt_info[0].\(key)"))
          refused += 1
        }
      }
    }
    #expect(refused > SeededRandom.cases(80))
    for damaged in ["null", #""""#] {
      // Emptied, the date is absent; the reason that is still there says that a refund is.
      let text = row.replacingOnce(#""\#(key)":"\#(value)""#, with: #""\#(key)":\#(damaged)"#)
      #expect(throws: JSONError.missing(path: "latest_receipt_info[0].cancellation_date")) {
        try Sample.decodeRow(text)
      }
    }
  }
}
