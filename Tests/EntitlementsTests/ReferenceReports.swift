import Entitlements

import struct FoundationEssentials.Date

/// Several reports of one subscription, read together as naively as the table: the row that gives access now.
struct ReferenceReports {
  enum Line: CaseIterable {
    /// A purchase that the newest answer lacks counts, or no longer.
    case ahead, tooOld
    /// A refund stands against an older word, or falls to a later one.
    case refundStands, refundFell
    /// The period before an upgrade that was refunded.
    case upgradeRefunded
  }

  private struct Row {
    var purchase: Purchase
    var reportedAt: Date
    var isInAnswer: Bool
    var isReplaced: Bool

    var begin: Date { purchase.purchaseDate ?? .distantPast }
    var end: Date { purchase.expiresDate ?? .distantPast }
    func runs(at moment: Date) -> Bool {
      begin < moment && moment < end && (purchase.cancellationDate.map { moment < max($0, begin) } ?? true)
    }
  }

  private var rows: [Row] = []
  private(set) var lines: Set<Line> = []

  init(_ reports: [RandomReports.Report]) {
    let answer = reports.filter(\.isAnswer).max { $0.at < $1.at }
    let answeredAt = answer?.at ?? .distantPast
    for row in answer?.rows ?? [] {
      rows.append(Row(purchase: row, reportedAt: answeredAt, isInAnswer: true, isReplaced: row.isUpgraded))
    }
    // Each transaction as it was reported last.
    func last(_ reports: [RandomReports.Report], of id: TransactionID) -> Row? {
      reports.filter { $0.rows.contains { $0.transactionID == id } }.max { $0.at < $1.at }.flatMap { report in
        report.rows.first { $0.transactionID == id }.map {
          Row(purchase: $0, reportedAt: report.at, isInAnswer: false, isReplaced: $0.isUpgraded)
        }
      }
    }
    let ids = Set(reports.flatMap(\.rows).map(\.transactionID))
    for id in ids {
      guard let signed = last(reports.filter { $0.at > answeredAt }, of: id) else { continue }
      rows.removeAll { $0.purchase.transactionID == id }
      rows.append(signed)
    }
    // The last purchase of all that the answer lacks, though it was told before.
    if answer != nil {
      let earlier = ids.filter { id in !rows.contains { $0.purchase.transactionID == id } }
        .compactMap { last(reports, of: $0) }
        .filter { row in rows.allSatisfy { $0.begin < row.begin } }
        .max { $0.begin < $1.begin }
      if let earlier {
        let isRecent = answeredAt <= earlier.begin.advanced(by: .seconds(3_600))
        if isRecent, !earlier.isReplaced, answeredAt < earlier.end { rows.append(earlier) }
        if earlier.purchase.cancellationDate == nil { lines.insert(isRecent ? .ahead : .tooOld) }
      }
    }
    replaceUpgraded()
    noteRefunds(reports)
  }

  /// In the order of purchase: another product that was bought while a period ran replaces it for good. Answers say so
  /// themselves, unless the other one was refunded. So does a shorter period that was signed alone: paid periods do not
  /// overlap.
  private mutating func replaceUpgraded() {
    for later in rows.sorted(by: { $0.begin < $1.begin }) {
      let running = rows.filter {
        !$0.isReplaced && $0.runs(at: later.begin) && $0.purchase.transactionID != later.purchase.transactionID
      }
      func isSigned(_ row: Row) -> Bool { !row.isInAnswer || !later.isInAnswer }
      let isUpgrade = running.contains {
        $0.purchase.productID != later.purchase.productID && (isSigned($0) || later.purchase.cancellationDate != nil)
      }
      for index in rows.indices {
        guard running.contains(where: { $0.purchase.transactionID == rows[index].purchase.transactionID }) else {
          continue
        }
        let row = rows[index]
        let cut = min(row.end, row.purchase.cancellationDate.map { max($0, row.begin) } ?? .distantFuture)
        guard isUpgrade || isSigned(row) && later.end < cut else { continue }
        rows[index].isReplaced = true
        if later.purchase.cancellationDate != nil, row.purchase.cancellationDate == nil {
          lines.insert(.upgradeRefunded)
        }
      }
    }
  }

  private mutating func noteRefunds(_ reports: [RandomReports.Report]) {
    for row in rows {
      let words = reports.flatMap { report in report.rows.map { (at: report.at, row: $0) } }.filter {
        $0.row.transactionID == row.purchase.transactionID && $0.at < row.reportedAt
      }
      let isRefunded = row.purchase.cancellationDate != nil
      if isRefunded, words.contains(where: { $0.row.cancellationDate == nil }) { lines.insert(.refundStands) }
      if !isRefunded, words.contains(where: { $0.row.cancellationDate != nil }) { lines.insert(.refundFell) }
    }
  }

  /// The period that gives access, `nil` where none runs.
  func running(at now: Date) -> Purchase? {
    let live = rows.filter { $0.purchase.cancellationDate == nil && !$0.isReplaced }
    let last = live.max { a, b in
      func place(_ row: Row) -> [Int64] {
        [
          row.end.millisecondsSince1970, row.begin.millisecondsSince1970,
          ReferenceModel.tiers[row.purchase.productID] == "premium" ? 1 : 0,
        ]
      }
      return place(a) == place(b)
        ? a.purchase.transactionID.rawValue < b.purchase.transactionID.rawValue
        : place(a).lexicographicallyPrecedes(place(b))
    }
    return last.flatMap { now < $0.end ? $0.purchase : nil }
  }

  /// Whether a purchase for life stands: the last report on any of its copies says it.
  static func isForLife(_ reports: [RandomReports.Report]) -> Bool {
    reports.max { $0.at < $1.at }?.rows.allSatisfy { $0.cancellationDate == nil } ?? false
  }
}
