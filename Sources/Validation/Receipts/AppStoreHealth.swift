import AppStore
import Synchronization

/// The last known state of Apple, for operators.
package final class AppStoreHealth: Sendable {
  /// The state of Apple. The raw values are part of the answer of `/readyz`.
  package enum State: String, Sendable {
    /// Not asked, or not for a while.
    case unknown
    case answering
    case unavailable
    case sharedSecretRejected = "shared_secret_rejected"
    /// Apple refuses our key of the App Store Server API.
    case serverAPIKeyRejected = "server_api_key_rejected"
  }

  /// The time for which a state counts. Readiness keeps callers away, and without calls no better state could follow.
  static let memory: Duration = .seconds(60)

  private let last = Mutex<(state: State, at: ContinuousClock.Instant)?>(nil)
  private let clock: @Sendable () -> ContinuousClock.Instant

  package init(clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.clock = clock
  }

  func answered() { note(.answering) }

  func failed(_ error: AppStoreError) {
    switch error {
    case .notAuthentic, .notFound, .wrongApp: note(.answering)
    case .sharedSecretRejected: note(.sharedSecretRejected)
    case .keyRejected: note(.serverAPIKeyRejected)
    // The receipt alone may be the cause. In a real outage the breaker opens, which health shows.
    case .unavailable where error.mayBeProvoked: break
    case .unavailable, .unexpected, .invalidAnswer: note(.unavailable)
    case .doubtful, .overloaded, .cancelled: break
    }
  }

  package var state: State {
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
