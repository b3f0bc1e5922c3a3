import Ledger
import Logging
import Resilience
import ServiceLifecycle

/// The job that makes due what a wrong clock delayed, as soon as Apple has corrected the clock.
///
/// A simulated store is asked for its time first: its clock is moved by hand, and without a word to the service.
struct ClockWatch: Service {
  var clock: ServiceClock
  /// Asks a simulated store for its time; does nothing where the store is Apple's.
  var catchUp: @Sendable () async -> Bool = { false }
  var ledger: Ledger
  var logger: Logger
  var pause: Duration = .seconds(1)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var seen = 0
      await repeatUntilCancelled {
        _ = await catchUp()
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
