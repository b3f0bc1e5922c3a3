package import Foundation

extension Date {
  /// This moment by a machine's clock, which has nanoseconds: 400 of them before, so that a moment that is compared before it
  /// is rounded lies before the same one in the ledger.
  package var withNanoseconds: Date { addingTimeInterval(-0.000_000_4) }
}
