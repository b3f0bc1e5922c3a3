/// A figure that is watched: the part of a whole, over a month that is over.
///
/// Days that can still change much are left out, today among them.
package struct WatchedFigure: Hashable, Sendable {
  package enum Name: String, CaseIterable, Sendable {
    /// Users who pay, of those who were first heard of.
    case conversion
    /// Users who pay, of those who saw a paywall.
    case paywallConversion = "paywall_conversion"
    /// Trials that were paid for, of those that are over.
    case trialConversion = "trial_conversion"
    /// Subscriptions that ended and did not come back, of those that were active.
    case churn
    /// Attempts to tell receivers of events that succeeded.
    case webhookSuccess = "webhook_success"
  }

  package var name: Name
  package var part: Int64
  package var whole: Int64

  /// - Returns: `nil` without a whole.
  package var ratio: Double? { whole > 0 ? Double(part) / Double(whole) : nil }

  package init(_ name: Name, _ part: Int64, of whole: Int64) {
    self.name = name
    self.part = part
    self.whole = whole
  }

  /// The days of a watched month.
  package static let length = 30
  /// The days for which a user, or a trial, is waited for: as long as the usual trial.
  package static let patience = 7

  /// The span of days to read.
  package static func span(today: Int) -> FigureSpan {
    FigureSpan(days: today - length - patience..<today, grain: .day)
  }
}

extension FigureSeries {
  /// Churn of the last month, and conversion of the trials of the month that ended a week before: of the span that
  /// `WatchedFigure.span` names.
  package var watched: [WatchedFigure] {
    let (patience, length) = (WatchedFigure.patience, WatchedFigure.length)
    guard periods.count == patience + length else { return [] }
    func sum(_ figure: Figure, _ days: ArraySlice<Period>) -> Int64 { days.reduce(0) { $0 + $1.total[figure] } }
    let (month, settled) = (periods.suffix(length), periods.prefix(length))
    return [
      WatchedFigure(
        .churn, sum(.ended, month) - sum(.resubscribed, month), of: periods[patience - 1].total[.active]),
      WatchedFigure(
        .trialConversion, sum(.trialConversions, settled), of: sum(.trialStarts, settled) - sum(.trialsPending, settled)
      ),
    ]
  }
}
