import FoundationEssentials

/// All that a simulator has to know about a receipt to answer for it; it travels inside the receipt.
///
/// It lies in attribute 4, which is opaque in the store's receipts too. So a simulator that was just started answers for
/// a receipt that another one signed, and a sample receipt needs no simulator's memory.
struct ReceiptSeed: Codable, Hashable, Sendable {
  var scenario: Scenario
  var trouble: Trouble?
  var environment: StoreEnvironment
  /// Whose receipt it is. The same number has the same transaction IDs in every scenario.
  var subscriber: Int64
  var bundleID: String
  /// When the receipt was issued for the first time: what the scenario's story is counted from.
  var start: Int64
  /// When this copy was signed; later than `start` in the newest receipt that an answer brings along.
  var created: Int64
  var format: ReceiptFormat

  /// The highest number of a subscriber for which every ID keeps Apple's length.
  static let subscriberLimit: Int64 = 999_999_999

  var startedAt: Timestamp { Timestamp(milliseconds: start) }
  var createdAt: Timestamp { Timestamp(milliseconds: created) }

  func state(at now: Timestamp) -> CustomerState {
    scenario.timeline(start: startedAt, environment: environment).state(at: now)
  }

  /// The original transaction IDs of everything bought by then, in the order of purchase.
  func originalTransactionIDs(at now: Timestamp) -> [String] {
    var ids: [String] = []
    for row in state(at: now).rows {
      let id = transactionID(slot: row.slot, number: 0)
      if !ids.contains(id) { ids.append(id) }
    }
    return ids
  }

  /// 15 digits from production, 16 beginning with 2000 from the sandbox.
  func transactionID(slot: Int, number: Int) -> String {
    let base: Int64 = environment == .production ? 480_000_000_000_000 : 2_000_000_000_000_000
    return String(base + subscriber * 10_000 + Int64(slot) * 1_000 + Int64(number))
  }

  func webOrderLineItemID(slot: Int, number: Int) -> Int64 {
    let base: Int64 = environment == .production ? 490_000_000_000_000 : 2_010_000_000_000_000
    return base + subscriber * 10_000 + Int64(slot) * 1_000 + Int64(number)
  }

  /// The app's number; the sandbox has none.
  var appItemID: Int64 { environment == .production ? 1_234_567_890 : 0 }

  /// 18 digits and odd: beyond 2^53, so a reader that goes through a Double changes it.
  var downloadID: Int64 { environment == .production ? 500_000_000_000_000_001 + subscriber * 2 : 0 }

  /// When the app was bought; a constant in the sandbox.
  var originalPurchaseDate: Timestamp {
    environment == .production ? startedAt.adding(days: -400) : Timestamp(milliseconds: 1_375_340_400_000)
  }

  var originalApplicationVersion: String { environment == .production ? "7" : "1.0" }

  static let applicationVersion = "42"
}
