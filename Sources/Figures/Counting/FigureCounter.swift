package import Access
package import Entitlements
package import Ledger
package import Logging
internal import Resilience
internal import ServiceLifecycle

/// Counts the purchases and the users in experiments that records marked, a moment later, so that no receipt waits for it.
package struct FigureCounter: Service {
  /// The most purchases, or users, in one transaction, which no receipt should wait for long.
  static let batch = 100

  private let terms: [ProductID: Plans.Terms]
  private let ledger: Ledger
  private let logger: Logger
  private let pause: Duration

  package init(terms: [ProductID: Plans.Terms], ledger: Ledger, logger: Logger, pause: Duration) {
    self.terms = terms
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
        let (purchases, users) = (await count(), await countExposures())
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
    await attempt { () async throws(LedgerError) in
      try await ledger.run(CountPurchases(terms, limit: Self.batch))
    } ?? 0
  }

  /// - Returns: the number of users.
  func countExposures() async -> Int {
    await attempt { () async throws(LedgerError) in try await ledger.countExposures(terms, limit: Self.batch) } ?? 0
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
