import Entitlements
import LedgerFixtures
import Testing

@testable import Figures

/// The figures that are watched.
@Suite struct WatchedFigureTests {
  /// Two hundred subscriptions from before; each day one ends, one trial begins, and half of the trials are paid for.
  @Test func `churn leaves today out, and trials have a week to be paid for`() throws {
    let today = 20_000
    var sums: [FigureKey: FigureCounts] = [:]
    func add(_ figure: Figure, _ amount: Int64, on day: Int) {
      sums[FigureKey(day: day, product: "pro", currency: "USD"), default: FigureCounts()][figure] += amount
    }
    add(.active, 200, on: today - 50)
    for day in today - 37...today {
      add(.ended, day == today ? 150 : 1, on: day)
      add(.active, day == today ? -150 : -1, on: day)
      add(.trialStarts, 4, on: day)
      add(.trialConversions, day < today - 7 ? 1 : 0, on: day)
      add(.trialsPending, day < today - 7 ? 2 : 4, on: day)
    }
    let span = WatchedFigure.span(today: today)
    var months: [FigureKey: FigureCounts] = [:]
    for (key, counts) in sums {
      let month = FigureKey(day: CalendarDay.firstOfMonth(of: key.day), product: key.product, currency: key.currency)
      months[month, default: FigureCounts()] += counts
    }
    let series = FigureSeries(span, pending: 0) { grain, days, _ in
      (grain == .month ? months : sums).filter { days.contains($0.key.day) }
    }
    #expect(
      series.watched == [WatchedFigure(.churn, 30, of: 193), WatchedFigure(.trialConversion, 30, of: 60)])
    #expect(WatchedFigure(.churn, 1, of: 0).ratio == nil)
    #expect(WatchedFigure(.churn, 1, of: 4).ratio == 0.25)
  }
}
