import AppStore
import Synchronization

/// Apple as last seen by this process, for operators.
package final class AppStoreHealth: Sendable {
  package enum State: String, Sendable {
    /// Not asked yet, or not for a while.
    case unknown
    case answering
    case unavailable
    /// Apple refuses our shared secret.
    case sharedSecretRejected = "shared_secret_rejected"
    /// Apple refuses our key of the App Store Server API.
    case serverAPIKeyRejected = "server_api_key_rejected"
  }

  /// How long a bad sight counts. Readiness keeps callers away, and without calls nothing could ever clear it.
  static let memory: Duration = .seconds(60)

  /// Guards the last sight and when it was.
  private let last = Mutex<(state: State, at: ContinuousClock.Instant)?>(nil)
  private let clock: @Sendable () -> ContinuousClock.Instant

  package init(clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.clock = clock
  }

  func answered() { note(.answering) }

  func failed(_ error: AppStoreError) {
    switch error {
    case .verifyReceipt(.notAuthentic), .serverAPI(.notFound), .serverAPI(.wrongApp): note(.answering)
    // The receipt alone may be the cause. In a real outage the breaker opens, which health shows.
    case .verifyReceipt(let error) where error.mayBeProvoked: break
    case .verifyReceipt(.sharedSecretRejected): note(.sharedSecretRejected)
    case .serverAPI(.keyRejected): note(.serverAPIKeyRejected)
    case .verifyReceipt(.unavailable), .verifyReceipt(.unexpectedStatus), .serverAPI(.unavailable),
      .serverAPI(.unexpected), .serverAPI(.invalidAnswer):
      note(.unavailable)
    case .verifyReceipt(.doubtful), .verifyReceipt(.overloaded), .verifyReceipt(.cancelled), .serverAPI(.overloaded),
      .serverAPI(.cancelled),
      .noSource:
      break
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
