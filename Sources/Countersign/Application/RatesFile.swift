import CountersignServer
import Figures
import FoundationEssentials
import Glibc
import Logging
import Resilience
import ServiceLifecycle
import Synchronization

/// The exchange rates of `figures.rates_file`, read again when the file is replaced. One that cannot be used leaves the
/// rates of before.
final class RatesFile: Service {
  /// Changes when the file is replaced or written.
  private struct Stamp: Hashable {
    var file: UInt64
    var size: Int64
    var seconds: Int
    var nanoseconds: Int

    init?(path: String) {
      var status = stat()
      guard stat(path, &status) == 0 else { return nil }
      (file, size) = (UInt64(status.st_ino), Int64(status.st_size))
      (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
    }
  }

  private let path: String
  private let currency: String
  private let logger: Logger
  private let pause: Duration
  private let present: Mutex<ExchangeRates>

  init(_ figures: ServiceConfiguration.Figures.Rates, logger: Logger, pause: Duration) {
    (path, currency) = (figures.path, figures.rates.currency)
    (self.logger, self.pause) = (logger, pause)
    present = Mutex(figures.rates)
  }

  var rates: ExchangeRates { present.withLock { $0 } }

  func run() async throws {
    await cancelWhenGracefulShutdown {
      // Read once more: it may have been replaced since the configuration was read.
      var seen: Stamp?
      await repeatUntilCancelled {
        let stamp = Stamp(path: self.path)
        if stamp != seen { self.look() }
        seen = stamp
        return self.pause
      }
    }
  }

  private func look() {
    do throws(ExchangeRates.Unusable) {
      let rates = try ExchangeRates(file: path, into: currency)
      let former = self.rates.days
      present.withLock { $0 = rates }
      guard rates.days != former else { return }
      logger.info("the exchange rates were read", metadata: ["newest": "\(ExchangeRates.text(rates.days.upperBound))"])
    } catch {
      logger.warning(
        "the file of exchange rates cannot be used, and the rates of before stay",
        metadata: ["key": "figures.rates_file", "finding": "\(Quotation.of(path, length: 4_096)) \(error.reason)"])
    }
  }
}
