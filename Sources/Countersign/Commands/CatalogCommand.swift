import Access
import ArgumentParser
import CountersignServer
import Entitlements
import FoundationEssentials
import Ledger
import NIOCore

/// `countersign catalog`
struct CatalogCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "catalog", abstract: "Look into the catalog.", subcommands: [Check.self])

  struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Check the catalog, and what it would take from subscribers.",
      discussion: """
        Reads the catalog as a start does, and compares it with what the users of the \
        ledger have: a product or a tier that it lacks, a product with a lower tier, and \
        a purchase for life that would end are losses. The service may run meanwhile. \
        No secret is needed. Without a ledger the catalog alone is checked, with a \
        warning: a relative ledger.path begins in the present directory.

        EXIT CODES
            0  nobody loses anything, but for products in catalog.accept_loss
            1  somebody would, or the ledger cannot be read
           64  wrong usage
           78  the catalog is wrong

        EXAMPLES
          countersign catalog check --config countersign.yaml
          countersign catalog check --json
        """)

    @OptionGroup var options: ConfigurationOptions

    @Flag(name: .long, help: "Print JSON.")
    var json = false

    func run() async throws {
      let settings: CatalogSettings
      do throws(ConfigurationError) {
        settings = try ServiceConfiguration.loadCatalog(
          file: options.config, environment: ProcessInfo.processInfo.environment)
      } catch { return try CheckupReport(error).finish(json: json) }
      try CheckupReport(await settings.findings()).finish(json: json)
    }
  }
}

extension CatalogSettings {
  /// The catalog in numbers, its warnings, and each loss.
  func findings() async -> [Finding] {
    let (catalog, plans) = (section.catalog, section.plans)
    let numbers = [
      (catalog.tiers.count, "tier"), (catalog.products.count, "product"), (plans.features.count, "feature"),
      (plans.offerings.count, "offering"), (plans.experiments.count, "experiment"),
    ].filter { $0.0 > 0 }.map { "\($0) \($1)\($0 == 1 ? "" : "s")" }
    return [Finding("catalog", .ok, "is well-formed: \(Wording.list(numbers))")]
      + warnings.map { Finding("catalog", .warning, $0.description) } + (await losses())
  }

  private func losses() async -> [Finding] {
    guard let counts = await LedgerInspection.accessGiven(at: ledger) else {
      if case .file(let path) = ledger, !FileManager.default.fileExists(atPath: path) {
        return [
          Finding(
            "ledger", .warning,
            "there is none at \(ledger.name) to compare with; if the service has one, run this in its directory")
        ]
      }
      return [
        Finding("ledger", .fail, "cannot be read; run this as the service's user, after the service has started once")
      ]
    }
    let comparison = CatalogComparison(counts, catalog: section.catalog)
    if let refusal = comparison.refusal(accepting: section.acceptedLoss, percent: maxDowngrades) {
      return [Finding("ledger", .fail, refusal)]
    }
    guard comparison.losses.isEmpty else {
      return comparison.losses.map { loss in
        section.acceptedLoss.contains(loss.product)
          ? Finding("ledger", .warning, "\(loss.sentence); catalog.accept_loss lists it")
          : Finding("ledger", .fail, loss.sentence)
      }
    }
    return [Finding("ledger", .ok, "the catalog gives its \(comparison.total) subscribers at least what they have")]
  }
}
