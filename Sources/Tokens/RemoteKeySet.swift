package import HTTPTransport
import JSON
package import Logging
import Resilience
import ServiceLifecycle
import Synchronization

/// The public keys of the user tokens' issuer, fetched from `auth.jwt.jwks_url` and cached.
///
/// A background task refreshes them, so that no request waits for it. Only a request with an unknown key ID waits, for
/// one fetch shared by all such requests. While the issuer cannot be reached, the old keys stay valid.
package final class RemoteKeySet: Service {
  /// The limit of one fetch. A request may wait as long.
  static let deadline = Duration.seconds(5)
  /// Bytes. Sets with certificates have some 20 000.
  static let sizeLimit = 256 << 10
  /// The cause where the issuer publishes no key that can be used, as one that signs with a secret does.
  package static let noKey = "no key for RS256 or ES256 in the set"

  package enum Health: Hashable, Sendable {
    case unknown
    case ok
    /// The last fetch failed; earlier keys are still valid.
    case stale(cause: String)
    /// No keys: user tokens cannot be verified.
    case unavailable(cause: String)

    var isUnavailable: Bool { if case .unavailable = self { true } else { false } }
  }

  private struct State {
    var schedule: KeySetSchedule
    var keys: [TokenKey] = []
    var cause: String?
    var flight: Task<Void, Never>?
  }

  private enum Finding {
    case found(TokenKey)
    case notFound
    case noKeys
  }

  private let state: Mutex<State>
  private let url: String
  private let transport: any Transport
  private let logger: Logger
  private let clock: @Sendable () -> ContinuousClock.Instant
  private let jitter: @Sendable (Duration) -> Duration
  private let pause: Duration

  /// - Parameter pause: between two checks whether a fetch is due.
  package init(
    url: String, transport: any Transport, logger: Logger,
    clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    jitter: @escaping @Sendable (Duration) -> Duration, pause: Duration = .seconds(1)
  ) {
    self.url = url
    self.transport = transport
    self.logger = logger
    self.clock = clock
    self.jitter = jitter
    self.pause = pause
    state = Mutex(State(schedule: KeySetSchedule(at: clock())))
  }

  func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await repeatUntilCancelled {
        await refreshIfDue()
        return pause
      }
    }
  }

  package func refreshIfDue() async {
    let flight = state.withLock { state in
      state.schedule.isDue(at: clock()) ? self.flight(&state) : nil
    }
    await flight?.value
  }

  package var health: Health {
    state.withLock { state in
      let cause = state.cause ?? "not fetched yet"
      if state.schedule.isUsable(at: clock()) { return state.cause == nil ? .ok : .stale(cause: cause) }
      return state.cause == nil ? .unknown : .unavailable(cause: cause)
    }
  }

  /// The key that a token names.
  ///
  /// - Throws: `.refused` if the key certainly does not exist, `.keysUnavailable` if the issuer cannot be reached.
  package func key(for token: UserToken) async throws(TokenError) -> TokenKey {
    if let key = knownKey(for: token) { return key }
    let flight = state.withLock { state -> Task<Void, Never>? in
      // A scheduled fetch is not an extra one: the first token after a start must not use up the minute.
      if state.flight == nil, !state.schedule.isDue(at: clock()), !state.schedule.demand(at: clock()) { return nil }
      return self.flight(&state)
    }
    await flight?.value
    switch find(token) {
    case .found(let key): return key
    case .noKeys: throw .keysUnavailable
    case .notFound:
      // The key may be a new one that was not fetched yet, and the token a paying customer's.
      guard state.withLock({ $0.schedule.isInformed }) else { throw .keysUnavailable }
      throw .refused(.unknownKey)
    }
  }

  /// The key that a token names; `nil` where it would have to be fetched.
  func knownKey(for token: UserToken) -> TokenKey? {
    if case .found(let key) = find(token) { key } else { nil }
  }

  private func find(_ token: UserToken) -> Finding {
    state.withLock { state in
      guard state.schedule.isUsable(at: clock()) else { return .noKeys }
      // A token without a key ID is accepted only if exactly one key fits. Two keys of the same ID are ambiguous.
      let meant = state.keys.filter {
        $0.algorithm.rawValue == token.algorithm && (token.keyID == nil || $0.id == token.keyID)
      }
      guard meant.count == 1, let key = meant.first else { return .notFound }
      return .found(key)
    }
  }

  private func flight(_ state: inout State) -> Task<Void, Never> {
    if let flight = state.flight { return flight }
    let flight = Task { await fetch() }
    state.flight = flight
    return flight
  }

  private func fetch() async {
    let result: Result<[TokenKey], Trouble>
    do throws(Trouble) { result = .success(try await fetched()) } catch { result = .failure(error) }
    let wasFailing = state.withLock { state in
      let wasFailing = state.cause != nil
      state.flight = nil
      switch result {
      case .success(let keys):
        state.keys = keys
        state.cause = nil
        state.schedule.succeeded(at: clock(), jitter: jitter)
      case .failure(let trouble):
        state.cause = trouble.cause
        state.schedule.failed(at: clock(), jitter: jitter)
      }
      return wasFailing
    }
    switch result {
    case .success(let keys):
      logger.log(
        level: wasFailing ? .notice : .debug, "keys for users' tokens were fetched",
        metadata: ["keys": .stringConvertible(keys.count)])
    case .failure(let trouble):
      let health = health
      logger.log(
        level: health.isUnavailable ? .error : .warning, "keys for users' tokens cannot be fetched",
        metadata: [
          "cause": "\(trouble.cause)", "users": health.isUnavailable ? "cannot be let in" : "old keys count",
        ])
    }
  }

  private struct Trouble: Error {
    var cause: String
  }

  private func fetched() async throws(Trouble) -> [TokenKey] {
    let response: TransportResponse
    do {
      response = try await transport.send(
        TransportRequest(
          method: .get, url: url, headers: [TransportHeader("Accept", "application/json")],
          responseBodyLimit: Self.sizeLimit),
        deadline: .now.advanced(by: Self.deadline))
    } catch {
      throw Trouble(cause: "\(error)")
    }
    guard response.status == 200 else { throw Trouble(cause: "status \(response.status)") }
    let published: [PublishedKey]
    do throws(JSONReader.Failure) {
      published = try await JSONReader.shared.read(response.body) { set throws(JSONError) in
        try PublishedKey.all(in: set)
      }
    } catch {
      throw Trouble(cause: "not a JWK Set")
    }
    var keys: [TokenKey] = []
    for key in published {
      // An invalid key does not invalidate the others.
      if let key = try? TokenKey(key) { keys.append(key) }
    }
    // A set emptied by mistake must not lock every user out.
    guard !keys.isEmpty else { throw Trouble(cause: Self.noKey) }
    return keys
  }
}
