import Ledger
import Logging
import ServiceLifecycle

/// Makes due what was put off by a clock that was wrong, as soon as Apple has put the clock right.
struct ClockWatch: Service {
  var clock: ServiceClock
  var ledger: any Ledger
  var logger: Logger
  var pause: Duration = .seconds(1)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var seen = 0
      while !Task.isCancelled {
        let corrections = clock.corrections
        if corrections != seen {
          do throws(LedgerError) {
            try await ledger.releaseClaims()
            seen = corrections
          } catch {
            logger.warning("what a wrong clock put off cannot be written anew", metadata: ["error": "\(error)"])
          }
        }
        // Ended only by the shutdown.
        do { try await Task.sleep(for: pause) } catch { return }
      }
    }
  }
}
