import Access
import Entitlements
import Foundation
import Testing

@testable import Ledger

/// The figures as the ledger keeps them up.
@Suite struct FigureLedgerTests {
  private static let span = FigureSpan(days: at(0).utcDay..<at(0).utcDay + 40, grain: .day)

  private static func paid(_ id: String, time: Double = 0, days: Double, price: Int64 = 4_990) -> SubscriptionEvidence {
    var one = evidence(id, time: time, expires: days * 86_400)
    one.purchases[0].purchaseDate = at(0)
    one.purchases[0].sale = .init(price: price, currency: "USD")
    return one
  }

  private static func count(_ ledger: Ledger) async throws {
    while try await ledger.countFigures([:], limit: 2) > 0 {}
  }

  @Test func `a purchase is counted once, and its change takes back what it was counted as`() async throws {
    try await Scratch.withLedger { ledger, _ in
      for id in ["1", "2", "3"] {
        _ = try await ledger.record(entry(UserID("user-\(id)"), [Self.paid(id, days: 30)]))
      }
      #expect(try await ledger.figures(over: Self.span).pending == 3)
      try await Self.count(ledger)
      var series = try await ledger.figures(over: Self.span)
      #expect(series.pending == 0)
      #expect(
        series.periods.map { $0.total[.active] } == Array(repeating: 3, count: 30) + Array(repeating: 0, count: 10))
      #expect(series.periods.first?.counts["USD"]?[.mrr] == 14_970)
      #expect(series.flow(.ended) == 3)

      var refunded = Self.paid("2", time: 900, days: 30)
      refunded.purchases[0].cancellationDate = at(5 * 86_400)
      _ = try await ledger.record(entry("user-2", [refunded]))
      _ = try await ledger.record(entry("user-3", [Self.paid("3", time: 900, days: 30)]))
      try await Self.count(ledger)
      series = try await ledger.figures(over: Self.span)
      #expect(series.periods.map { $0.total[.active] }[4...5] == [3, 2])
      #expect(series.flow(.refunds) == 4_990)
      #expect(series.flow(.payments) == 3)
      #expect(series.flow(.ended) == 3)
      let other = FigureSpan(days: Self.span.days, grain: .day, product: "other")
      #expect(try await ledger.figures(over: other).flow(.payments) == 0)
    }
  }

  @Test func `a span that begins later knows the levels from before it, and months add up to the same`() async throws {
    try await Scratch.withLedger { ledger, _ in
      _ = try await ledger.record(entry("anna", [Self.paid("1", days: 365, price: 59_880)]))
      try await Self.count(ledger)
      let start = at(0).utcDay
      let later = try await ledger.figures(over: FigureSpan(days: start + 200..<start + 210, grain: .day))
      #expect(later.before["USD"]?[.active] == 1)
      #expect(later.periods.allSatisfy { $0.counts["USD"]?[.mrr] == 4_990 && $0.total[.new] == 0 })
      let months = try await ledger.figures(over: FigureSpan(days: start..<start + 365, grain: .month))
      #expect(months.flow(.new) == 1)
      #expect(months.periods.allSatisfy { $0.total[.active] == 1 })
    }
  }

  @Test func `other prices in the catalog count everything anew, the same ones nothing`() async throws {
    try await Scratch.withLedger { ledger, _ in
      var untold = Self.paid("1", days: 30)
      untold.purchases[0].sale = nil
      _ = try await ledger.record(entry("anna", [untold]))
      try await ledger.beginFigures([:])
      try await Self.count(ledger)
      #expect(try await ledger.figures(over: Self.span).periods.first?.counts.keys.sorted() == [""])
      try await ledger.beginFigures([:])
      #expect(try await ledger.figures(over: Self.span).pending == 0)

      let terms: [ProductID: Plans.Terms] = [pro: .init(prices: ["EUR": Price(milliunits: 3_990)])]
      try await ledger.beginFigures(terms)
      while try await ledger.countFigures(terms, limit: 10) > 0 {}
      let series = try await ledger.figures(over: Self.span)
      #expect(series.periods.first?.counts["EUR"]?[.mrr] == 3_990)
      #expect(series.periods.first?.total[.active] == 1)
    }
  }
}
