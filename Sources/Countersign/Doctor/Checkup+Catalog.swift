import Entitlements
import Ledger

extension Checkup {
  /// Compares the catalog with the recorded verdicts, as a start does; empty without a ledger.
  func catalogFindings() async -> [Finding] {
    guard let counts = await LedgerInspection.accessGiven(at: configuration.ledger.place) else { return [] }
    let comparison = CatalogComparison(counts, catalog: configuration.catalog)
    let refusal = comparison.refusal(
      accepting: configuration.acceptedLoss, percent: configuration.revalidation.maxDowngrades)
    if let refusal { return [Finding("catalog", .fail, refusal)] }
    guard comparison.losses.isEmpty else {
      return comparison.losses.prefix(20).map { Finding("catalog", .warning, $0.sentence) }
    }
    return [
      Finding("catalog", .ok, "gives the \(comparison.total) subscribers of the ledger at least what they have")
    ]
  }
}
