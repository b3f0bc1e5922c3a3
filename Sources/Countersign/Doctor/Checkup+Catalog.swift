import Entitlements
import Ledger

extension Checkup {
  /// Compares the catalog with the recorded verdicts, as a start does; empty without a ledger.
  func catalogFindings() async -> [Finding] { await lossFindings() + kindFindings() }

  /// Names the products that the catalog calls subscriptions, and of which Apple names no end.
  private func kindFindings() async -> [Finding] {
    let products = await LedgerInspection.productsWithoutEnd(at: configuration.ledger.place) ?? []
    return products.filter { configuration.catalog.products[$0]?.kind == .subscription }.map(\.rawValue).sorted()
      .prefix(20)
      .map { product in
        Finding(
          "catalog", .warning,
          "Apple names no end of \(product): if it does not renew, it needs kind: non_renewing and a period")
      }
  }

  private func lossFindings() async -> [Finding] {
    guard let counts = await LedgerInspection.accessGiven(at: configuration.ledger.place) else { return [] }
    let comparison = CatalogComparison(counts, catalog: configuration.catalog)
    let refusal = comparison.refusal(
      accepting: configuration.acceptedLoss, percent: configuration.revalidation.maxDowngrades)
    if let refusal { return [Finding("catalog", .fail, refusal)] }
    guard comparison.losses.isEmpty else {
      return comparison.losses.prefix(20).map { Finding("catalog", .warning, $0.sentence) }
    }
    return [Finding("catalog", .ok, "everybody in the ledger keeps their access (subscribers: \(comparison.total))")]
  }
}
