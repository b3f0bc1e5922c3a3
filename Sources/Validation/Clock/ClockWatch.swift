import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

/// The job that makes due what a wrong clock delayed, and gives again what one ended, as soon as Apple has corrected the clock.
/// The wrong clock may have been that of an earlier process: given periods and claims of receivers are looked through once after
/// the start as well.
///
/// A simulated store is asked for its time first: its clock is moved by hand, and without a word to the service.
struct ClockWatch: Service {
  var clock: ServiceClock
  /// Asks a simulated store for its time; does nothing where the store is Apple's.
  var catchUp: @Sendable () async -> Bool = { false }
  var ledger: Ledger
  var verdicts: VerdictContext
  var logger: Logger
  var pause: Duration = .seconds(1)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var seen = 0
      var isPutRight = false
      await repeatUntilCancelled {
        _ = await catchUp()
        let corrections = clock.corrections
        do throws(LedgerError) {
          if corrections != seen {
            try await ledger.releaseClaims()
            (seen, isPutRight) = (corrections, false)
          }
          if !isPutRight, clock.isWitnessed {
            try await ledger.shortenWebhookClaims(to: clock.now.advanced(by: WebhookClaims.lease))
            try await correctGiven()
            isPutRight = true
          }
        } catch {
          logger.warning("what a wrong clock did cannot be corrected", metadata: ["error": "\(error)"])
        }
        return pause
      }
    }
  }

  private func correctGiven() async throws(LedgerError) {
    let count = try await ledger.correctGiven(
      verdicts.evaluationContext, tolerance: .seconds(ServiceClock.tolerance)
    ) { periods in
      logger.error(
        "grants and trials of a wrong clock stay: their users cannot be read",
        metadata: ["rows": "\(periods.map(String.init).joined(separator: " "))"])
    }
    guard count > 0 else { return }
    logger.notice("grants and trials of a wrong clock were put right", metadata: ["periods": .stringConvertible(count)])
  }
}
