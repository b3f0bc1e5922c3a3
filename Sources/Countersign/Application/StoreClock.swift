import AppStore
import HTTPTransport
import Logging
import Validation

/// The clock of a simulated store, which the service's own follows (`app_store.clock: store`).
///
/// It is asked at the start, once a second, and where something is signed ahead of the service's clock: whoever moves the
/// simulator's clock need not tell the service.
struct StoreClock: Sendable {
  let transport: CurlTransport
  /// `app_store.production_url`.
  let url: String
  let clock: ServiceClock
  let logger: Logger

  /// The longest wait of the start for the first answer: both programs may have been started together.
  static let patience: Duration = .seconds(5)

  /// Asks for the time, and goes by it.
  ///
  /// - Returns: whether the store answered: the service's clock is its own now, whoever asked first.
  func catchUp() async -> Bool {
    // Nobody answers this path, and every answer has a date.
    let request = TransportRequest(method: .get, url: "\(url)/clock", responseBodyLimit: 64 << 10)
    let answer = try? await transport.send(request, deadline: .now.advanced(by: .seconds(2)))
    guard let date = answer?.header("Date").flatMap(HTTPDate.parse) else { return false }
    if let ahead = clock.follow(date) { ClockCorrection(ahead: ahead, byApple: false).log(logger) }
    return true
  }

  /// Waits for the first answer. Without one the service starts by the machine's clock.
  func begin() async {
    let end = ContinuousClock.now.advanced(by: Self.patience)
    while await !catchUp() {
      guard ContinuousClock.now < end, (try? await Task.sleep(for: .milliseconds(50))) != nil else {
        return logger.warning(
          "the simulated store does not answer; the machine's clock is used until it does",
          metadata: ["key": "app_store.production_url"])
      }
    }
  }
}

/// A clock that was put right by the store's.
struct ClockCorrection {
  /// Seconds by which the machine's was ahead; negative where it was behind.
  var ahead: Double
  /// Whether the store is Apple's own. A simulator's clock is set by its user.
  var byApple: Bool

  func log(_ logger: Logger) {
    let metadata: Logger.Metadata = ["machine": "\(text)"]
    if byApple {
      logger.error("the machine's clock is wrong; Apple's clock is used from now on", metadata: metadata)
    } else {
      logger.notice(
        "the store's clock differs from the machine's; the store's clock is used from now on", metadata: metadata)
    }
  }

  /// `311 days ahead`, `2 hours behind`
  var text: String {
    let seconds = ahead.magnitude
    let units: [(length: Double, name: String)] = [(86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds")]
    // The largest of which there are two, so that nothing is rounded by half.
    let unit = units.first { seconds >= 2 * $0.length } ?? (1, "seconds")
    return "\(Int(min(seconds / unit.length, 1e9))) \(unit.name) \(ahead < 0 ? "behind" : "ahead")"
  }
}
