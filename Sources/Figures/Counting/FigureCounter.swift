package import Access
internal import Entitlements
package import Ledger
package import Logging
internal import Resilience
internal import ServiceLifecycle

/// Counts the purchases, the users in experiments and those near a limit that records marked, a moment later, so that no
/// receipt waits for it.
package struct FigureCounter: Service {
  /// The most purchases, or users, in one transaction, which no receipt should wait for long.
  static let batch = 100

  private let terms: [ProductID: Plans.Terms]
  private let features: [Feature]
  private let ledger: Ledger
  private let logger: Logger
  private let pause: Duration

  package init(plans: Plans, ledger: Ledger, logger: Logger, pause: Duration) {
    terms = plans.terms
    features = plans.features
    self.ledger = ledger
    self.logger = logger
    self.pause = pause
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      var hasBegun = false
      await repeatUntilCancelled {
        if !hasBegun { hasBegun = await begin() }
        guard hasBegun else { return pause }
        // Counting a purchase marks its owner, so exposures come second.
        let (purchases, users) = (await count(), max(await countExposures(), await countLimits()))
        return max(purchases, users) == Self.batch ? .milliseconds(20) : pause
      }
    }
  }

  /// Begins a recount if the catalog's prices changed.
  func begin() async -> Bool {
    await attempt { () async throws(LedgerError) in try await ledger.beginFigures(terms) } != nil
  }

  /// - Returns: the number of purchases.
  func count() async -> Int {
    await attempt { () async throws(LedgerError) in try await ledger.countPurchases(terms, limit: Self.batch) } ?? 0
  }

  /// - Returns: the number of users.
  func countExposures() async -> Int {
    await attempt { () async throws(LedgerError) in try await ledger.countExposures(terms, limit: Self.batch) } ?? 0
  }

  /// - Returns: the number of users.
  func countLimits() async -> Int {
    await attempt { () async throws(LedgerError) in try await ledger.countLimits(features, limit: Self.batch) } ?? 0
  }

  private func attempt<Result>(_ body: () async throws(LedgerError) -> Result) async -> Result? {
    do throws(LedgerError) {
      return try await body()
    } catch {
      logger.warning("the figures cannot be counted", metadata: ["error": "\(error)"])
      return nil
    }
  }
}
