import Ledger
import Logging
import Resilience
import ServiceLifecycle

/// The job that makes due what a wrong clock delayed, as soon as Apple has corrected the clock.
struct ClockWatch: Service {
  var clock: ServiceClock
  var ledger: Ledger
  var logger: Logger
  var pause: Duration = .seconds(1)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var seen = 0
      await repeatUntilCancelled {
        let corrections = clock.corrections
        if corrections != seen {
          do throws(LedgerError) {
            try await ledger.releaseClaims()
            seen = corrections
          } catch {
            logger.warning("schedules set by a wrong clock cannot be corrected", metadata: ["error": "\(error)"])
          }
        }
        return pause
      }
    }
  }
}
