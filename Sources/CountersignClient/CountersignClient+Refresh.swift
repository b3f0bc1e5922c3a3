import CountersignAPI
import Foundation

extension CountersignClient {
  /// Call it once, when the app starts: it listens to the App Store, posts what waits, and asks for the state.
  ///
  ///     Task { await client.start() }
  ///
  /// It returns when all of that was answered or has failed, which takes seconds on a poor network. Nothing needs to wait
  /// for it: `state` is right before. From then on the client keeps itself up to date: it posts again what could not be
  /// posted, and asks again each hour. What goes wrong is told to `options.onError`.
  public func start() async {
    guard !isStarted, !isSignedOut else { return }
    isStarted = true
    if let store = options.store {
      let updates = store.updates()
      listener = Task { [weak self] in
        for await transaction in updates { await self?.receive(transaction) }
      }
    }
    readWaiting()
    watchClock()
    await retryQuietly()
    await deliverQuietly()
  }

  /// Asks the service for the state. Callers at the same time share one request.
  ///
  /// Call it when the app comes to the foreground, so that a purchase on another device is seen. Where it fails, the state
  /// stays what it is by the clock.
  @discardableResult
  public func refresh() async throws -> AccessState {
    try checkSignedIn()
    if let refreshing { return try await refreshing.value }
    let task = Task {
      // Cleared by the task itself, so that nobody who comes after its end is given its result.
      defer { refreshing = nil }
      do { return try await fetchToken() } catch {
        publish()
        watchClock()
        retryLater(error)
        throw error
      }
    }
    refreshing = task
    return try await task.value
  }

  /// A request that began before a purchase was posted does not know it.
  func refreshAnew() async throws -> AccessState {
    if let refreshing { _ = try? await refreshing.value }
    return try await refresh()
  }

  private func fetchToken() async throws -> AccessState {
    // The last session of a trial ends what the token says.
    do { try await trials.sync() } catch {}
    struct Answer: Decodable { var token: String }
    let text = try await service.send("GET", "/v1/profiles/me/token").decoded(Answer.self, now: options.now()).token
    guard let token = AccessToken(text) else {
      throw CountersignError.refused(code: "unreadable_token", detail: "The answer has no access token of this kind.")
    }
    guard token.isAbout(user) else {
      throw CountersignError.refused(
        code: "other_user", detail: "The bearer token is another user's than the one this client was made for.")
    }
    guard let verify = options.verify else {
      throw CountersignError.refused(
        code: "no_verifier", detail: "This system cannot check the signature: set options.verify.")
    }
    if options.keys == nil, !keys.contains(where: { $0.kid == token.keyID }) { try await fetchKeys() }
    guard let access = token.access(of: user, keys: keys, verify: verify) else {
      throw CountersignError.refused(
        code: "untrusted_token", detail: "None of the known keys has signed the access token: compare options.keys.")
    }
    try checkSignedIn()
    let received = HeldAccess(access: access, clockDifference: access.issuedAt.timeIntervalSince(options.now()))
    store(received.stored(text), "token")
    held.withLock { $0 = received }
    readWaiting()
    if received.validity(at: options.now()) != .known {
      // The token's whole seconds end before the access does.
      retryLater(CountersignError.later(retryAfter: nil))
    } else if waiting.posts.isEmpty {
      failures = 0
      retrying?.cancel()
      retrying = nil
    } else if runningPosts == 0 {
      // Posts that waited since the user was signed out can go out again. A post that is under way schedules its own retry.
      retryLater(CountersignError.later(retryAfter: nil))
    }
    publish()
    watchClock()
    return state
  }

  private func fetchKeys() async throws {
    let response = try await service.send("GET", "/.well-known/jwks.json", isOpen: true)
    guard response.status == 200, let fetched = KeySet.parse(response.body), !fetched.isEmpty else {
      throw CountersignError.later(retryAfter: nil)
    }
    keys = fetched
    store(try? JSONEncoder().encode(KeySet(keys: fetched)), "keys")
  }
  // MARK: In the background

  /// Posts and asks again later, where the client was started: after 5 s, 10 s, … 10 minutes, spread by a quarter so that
  /// not every device comes at once, and not before the time that the service named.
  func retryLater(_ error: any Error) {
    guard case CountersignError.later(let retryAfter) = error, isStarted, !isSignedOut, retrying == nil else { return }
    failures += 1
    let backoff = min(600, 5 * pow(2, Double(failures - 1))) * Double.random(in: 0.75...1.25)
    retrying = Task { [weak self, sleep = options.sleep] in
      guard (try? await sleep(max(retryAfter ?? 0, backoff))) != nil else { return }
      await self?.retryQuietly()
    }
  }

  private func retryQuietly() async {
    retrying = nil
    await quietly { _ = try await retry() }
    await quietly { try await compareEntitlements() }
  }

  /// Looks when time alone changes the state, and each minute: a device's clock may be set at any time.
  private func watchClock() {
    clock?.cancel()
    guard isStarted, !isSignedOut, let held = held.withLock({ $0 }) else { return }
    let now = options.now()
    let last = held.validity(at: now)
    let pause = [held.access.knownUntil, held.access.offlineUntil]
      .map { $0.timeIntervalSince(now + held.clockDifference) }.filter { $0 > 0 }.reduce(60, min)
    clock = Task { [weak self, sleep = options.sleep] in
      guard (try? await sleep(pause)) != nil else { return }
      await self?.lookAtClock(after: last)
    }
  }

  /// Publishes the state, and asks again where it has become old or unknown.
  private func lookAtClock(after last: Access.Validity) async {
    publish()
    let validity = held.withLock { $0 }?.validity(at: options.now())
    // Once for each change: a token that is old at once must not make it ask without end.
    guard validity != last, validity != .known else { return watchClock() }
    await quietly { _ = try await refresh() }
  }
}
