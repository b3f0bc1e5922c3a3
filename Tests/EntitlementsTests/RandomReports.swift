import Entitlements
import SeededRandom

import struct FoundationEssentials.Date

/// A few reports of one purchase: signed transactions, and answers of which some lag behind what was signed.
struct RandomReports {
  struct Report {
    var at: Date
    var rows: [Purchase]
    var isAnswer: Bool
    var evidence: [SubscriptionEvidence]
  }

  struct Refund {
    var at: Date
    /// When Apple took it back.
    var until: Date?

    func stands(at moment: Date) -> Bool { at <= moment && (until.map { moment < $0 } ?? true) }
  }

  var random: SeededRandom
  private(set) var purchases: [Purchase] = []
  private var refunds: [OriginalTransactionID: [TransactionID: Refund]] = [:]
  /// Whether Apple says of a period that it was upgraded; else only the purchases tell.
  private var marksUpgrades = false
  private var moments: Set<Date> = []

  init(seed: UInt64) { random = SeededRandom(seed: seed) }

  /// Periods of one subscription that follow one another or upgrade one another, some refunded, in two to six reports.
  mutating func subscription() -> [Report] {
    marksUpgrades = random.chance(50)
    var begin = random.moment(-60...0)
    for number in 1...Int.random(in: 1...4, using: &random) {
      let end = begin.advanced(by: .seconds(86_400 * Int64(random.pick([1, 7, 30, 30], or: 30))))
      let id = TransactionID("\(number)")
      purchases.append(
        row(id, random.pick([pro, proYearly, premium], or: pro), group: "A", from: begin, until: end))
      if random.chance(30) { refund(purchases[number - 1], within: 12) }
      let days = (end.millisecondsSince1970 - begin.millisecondsSince1970) / 86_400_000
      begin =
        random.chance(40)
        ? begin.advanced(by: .seconds(3_600 * Int64.random(in: 1...(24 * days), using: &random)))
        : end.advanced(by: .seconds(86_400 * Int64(random.pick([0, 0, 3, 20], or: 0))))
    }
    return (0..<Int.random(in: 2...6, using: &random)).compactMap { _ in random.chance(45) ? answer() : signed() }
  }

  /// A purchase for life and its restored copies. Some reports are of receipts that Apple only decoded.
  mutating func lifetime() -> [Report] {
    let begin = random.moment(-40 ... -20)
    for number in 1...3 { purchases.append(row(TransactionID("\(number)"), forever, from: begin, until: nil)) }
    if random.chance(80) {
      refund(purchases[0], within: 20)
      let one = refunds["100"]?["1"]
      for copy in purchases { refunds["100"]?[copy.transactionID] = one }
    }
    return (0..<Int.random(in: 2...6, using: &random)).compactMap { _ in
      guard random.chance(50), let (at, made) = moment(after: begin, lag: [0, 86_400, 10 * 86_400]) else {
        return signed()
      }
      let rows = rows(at: made).filter { _ in random.chance(60) }.map { row in
        var row = row
        row.reportedAt = made
        return row
      }
      return rows.isEmpty ? nil : report(at: made, answeredAt: at, rows, isAnswer: true)
    }
  }

  private mutating func refund(_ purchase: Purchase, within days: Int) {
    let at = (purchase.purchaseDate ?? noon).advanced(
      by: .seconds(3_600 * Int64.random(in: 1...24 * Int64(days), using: &random)))
    let until = random.chance(30) ? at.advanced(by: .seconds(3_600 * Int64.random(in: 1...200, using: &random))) : nil
    refunds[purchase.originalTransactionID, default: [:]][purchase.transactionID] = Refund(at: at, until: until)
  }

  /// The rows as Apple knew them then.
  private func rows(at moment: Date) -> [Purchase] {
    let known = purchases.filter { ($0.purchaseDate ?? noon) <= moment }
    return known.map { row in
      var row = row
      let refund = refunds[row.originalTransactionID]?[row.transactionID]
      row.cancellationDate = refund.flatMap { $0.stands(at: moment) ? $0.at : nil }
      row.isUpgraded =
        marksUpgrades
        && known.contains { later in
          guard let begin = row.purchaseDate, let next = later.purchaseDate, let end = row.expiresDate else {
            return false
          }
          return begin < next && next < end && later.productID != row.productID
        }
      return row
    }
  }

  /// A moment of its own, near a purchase or anywhere, and a moment of which its report may be.
  private mutating func moment(after first: Date, lag: [Int64]) -> (at: Date, of: Date)? {
    let dates = purchases.compactMap(\.purchaseDate)
    let near = (random.chance(60) ? dates.last : dates.randomElement(using: &random)) ?? first
    let seconds = random.pick([0, 1_800, 3_600, 7_200], or: 0)
    let at =
      random.chance(50)
      ? near.advanced(by: .milliseconds(Int64(seconds * 1_000 + random.pick([0, 0, 1, 60_000], or: 0))))
      : first.advanced(by: .seconds(Int64.random(in: 0...(90 * 86_400), using: &random)))
    let of = at.advanced(by: .seconds(-random.pick(lag, or: 0)))
    return moments.insert(of).inserted && (of == at || moments.insert(at).inserted) && first <= of ? (at, of) : nil
  }

  private mutating func answer() -> Report? {
    guard let first = purchases.first?.purchaseDate,
      let (at, known) = moment(after: first, lag: [0, 600, 3_600, 10_800, 10_800])
    else { return nil }
    let rows = rows(at: known)
    // The Server API has the last transaction alone.
    return report(at: at, answeredAt: at, random.chance(30) ? rows.suffix(1) : rows, isAnswer: true)
  }

  private mutating func signed() -> Report? {
    guard let first = purchases.first?.purchaseDate, let (at, _) = moment(after: first, lag: [0]),
      let row = rows(at: at).randomElement(using: &random)
    else { return nil }
    return report(at: at, answeredAt: at, [row], isAnswer: false)
  }

  private func report(at moment: Date, answeredAt: Date, _ rows: [Purchase], isAnswer: Bool) -> Report {
    Report(
      at: moment, rows: rows, isAnswer: isAnswer,
      evidence: PurchaseHistory(
        environment: .production, source: isAnswer ? .verifyReceipt : .signature, evidenceTime: answeredAt,
        evaluatedAt: answeredAt, purchases: rows, coverage: isAnswer ? .snapshot : .partial(since: nil)
      ).evidence())
  }
}
