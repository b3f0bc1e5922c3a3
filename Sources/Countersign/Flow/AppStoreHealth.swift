import AppStore
import Synchronization

/// Apple as last seen by this process, for operators.
final class AppStoreHealth: Sendable {
  enum State: String, Sendable {
    /// Not asked yet, or not for a while.
    case unknown
    case answering
    case unavailable
    /// Apple refuses our shared secret.
    case sharedSecretRejected = "shared_secret_rejected"
  }

  /// How long a bad sight counts. Readiness keeps callers away, and without calls nothing could ever clear it.
  static let memory: Duration = .seconds(60)

  /// Guards the last sight and when it was.
  private let last = Mutex<(state: State, at: ContinuousClock.Instant)?>(nil)
  private let clock: @Sendable () -> ContinuousClock.Instant

  init(clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.clock = clock
  }

  func answered() { note(.answering) }

  func failed(_ error: VerifyReceiptError) {
    switch error {
    case .notAuthentic: note(.answering)
    case .sharedSecretRejected: note(.sharedSecretRejected)
    case .unavailable, .unexpectedStatus: note(.unavailable)
    case .overloaded, .cancelled: break
    }
  }

  var state: State {
    let now = clock()
    return last.withLock { last in
      guard let last, last.at.duration(to: now) < Self.memory else { return .unknown }
      return last.state
    }
  }

  private func note(_ state: State) {
    let now = clock()
    last.withLock { $0 = (state, now) }
  }
}
