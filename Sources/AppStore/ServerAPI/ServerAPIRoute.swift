import Entitlements
import HTTPTransport

/// The next step after each call. Pure: it neither waits nor calls.
///
/// A place is a store and an app. The places are asked one after the other, each by one endpoint after the other, until
/// one has the transaction.
///
///     outcome                                 next
///     an answer                               the next page, the next endpoint, or conclude
///     an answer that there is no such order   as 4040010
///     4040001, 4040003, 4040005, 4040010,     the next endpoint; the next place if no endpoint here has it; after the
///       4000006, 4000008                        last one not found, or key rejected if one of them rejected the key
///     401                                     once for each app the same call with a fresh token, then the next place:
///                                               production rejects an app without a release, and the sandbox may not
///     4040002, 4040004, 4040006               retry, then unavailable: never "not found"
///     5000000, 5000001, any other 5xx         retry, then unavailable; not before Retry-After
///     429                                     unavailable at once: no call would be answered before Retry-After
///     another 4xx with a code                 unexpected
///     404 and the like without a code         retry, then unavailable: never "not found"
///     HTTP 200 with an unreadable body        retry, then unavailable
///     an answer that fails verification       fail: the next one would be the same
///     no connection, reset, not HTTP          retry, then unavailable
///     stalled, too large, TLS refused,        unavailable: the next attempt would end the same way
///       shut down
struct ServerAPIRoute {
  /// A store, and the app whose token is sent to it.
  struct Place: Hashable, Sendable {
    var environment: StoreEnvironment
    var bundleID: BundleID
  }

  enum Step {
    case conclude
    /// A new call, to the present `place` and `endpoint`.
    case ask
    case renewToken
    /// The same call once more.
    ///
    /// - Parameters:
    ///   - ceiling: the longest pause.
    ///   - least: the shortest pause, which Apple asked for.
    ///   - failure: the error if there is no time for another attempt.
    case retry(ceiling: Duration, least: Duration, failure: AppStoreError)
    case fail(AppStoreError)
  }

  private let places: [Place]
  private let endpoints: [ServerAPIEndpoint]
  private let retry: RetryPolicy
  private var placeIndex = 0
  private var endpointIndex = 0
  private var attemptsHere = 0
  /// Whether an endpoint of this place has the transaction.
  private var isKnownHere = false
  private var renewed: Set<BundleID> = []
  private var isKeyRejected = false

  /// - Returns: `nil` if there is nothing to ask.
  init?(stores: [StoreEnvironment], bundleIDs: [BundleID], endpoints: [ServerAPIEndpoint], retry: RetryPolicy) {
    places = stores.flatMap { store in bundleIDs.map { Place(environment: store, bundleID: $0) } }
    guard !places.isEmpty, !endpoints.isEmpty else { return nil }
    self.endpoints = endpoints
    self.retry = retry
  }

  var place: Place { places[placeIndex] }
  var endpoint: ServerAPIEndpoint { endpoints[endpointIndex] }

  mutating func next(after outcome: ServerAPIOutcome) -> Step {
    attemptsHere += 1
    switch outcome {
    case .answer(let contents, _):
      if contents.isNotFound { return nextEndpoint() }
      isKnownHere = true
      if contents.nextRevision != nil {
        attemptsHere = 0
        return .ask
      }
      return nextEndpoint()
    case .refused(let error): return .fail(error)
    case .error(let status, let code):
      switch code.meaning {
      case .notFound: return nextEndpoint()
      case .temporary: return again(.unavailable(appleStatus: code.rawValue, httpStatus: status, .trouble))
      case .unknown: return .fail(.unexpected(appleStatus: code.rawValue, httpStatus: status))
      }
    case .http(401, _, _): return keyRefused()
    case .http(let status, let code, let retryAfter):
      let trouble = code == nil ? Unavailability.http(status) : .trouble
      return again(.unavailable(appleStatus: code, httpStatus: status, trouble), least: retryAfter ?? .zero)
    case .rateLimited(let code, let retryAfter):
      return .fail(.unavailable(appleStatus: code, httpStatus: 429, .rateLimited(retryAfter: retryAfter)))
    case .malformed(let error): return again(.unavailable(httpStatus: 200, .malformedAnswer(error.summary)))
    case .noAnswer(let error): return error.isWorthRetry ? again(AppStoreError(error)) : .fail(AppStoreError(error))
    }
  }

  private mutating func nextEndpoint() -> Step {
    attemptsHere = 0
    if endpointIndex + 1 < endpoints.count {
      endpointIndex += 1
      return .ask
    }
    return isKnownHere ? .conclude : nextPlace()
  }

  private mutating func nextPlace() -> Step {
    guard placeIndex + 1 < places.count else { return .fail(isKeyRejected ? .keyRejected : .notFound) }
    placeIndex += 1
    endpointIndex = 0
    attemptsHere = 0
    return .ask
  }

  private mutating func keyRefused() -> Step {
    if renewed.insert(place.bundleID).inserted { return .renewToken }
    // The earlier answers of this place are not all that was asked for.
    guard !isKnownHere else { return .fail(.keyRejected) }
    isKeyRejected = true
    return nextPlace()
  }

  /// Another attempt at the same call, if one is left.
  private func again(_ failure: AppStoreError, least: Duration = .zero) -> Step {
    guard attemptsHere < retry.attempts else { return .fail(failure) }
    return .retry(ceiling: retry.ceiling(before: attemptsHere + 1), least: least, failure: failure)
  }
}
