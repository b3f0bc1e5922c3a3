package import Ledger
package import Logging
import Resilience
import ServiceLifecycle

/// Makes due what was put off by a clock that was wrong, as soon as Apple has put the clock right.
package struct ClockWatch: Service {
  package var clock: ServiceClock
  package var ledger: any Ledger
  package var logger: Logger
  package var pause: Duration = .seconds(1)

  package init(clock: ServiceClock, ledger: any Ledger, logger: Logger, pause: Duration = .seconds(1)) {
    self.clock = clock
    self.ledger = ledger
    self.logger = logger
    self.pause = pause
  }

  package func run() async throws {
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
