import CountersignAPI
import Foundation

/// Purchases, restore, and what a user may do, with a Countersign service behind it.
///
///     let client = CountersignClient(
///       baseURL: URL(string: "https://countersign.example.com")!, user: session.userID,
///       token: { try await session.accessToken() })
///     Task { await client.start() }
///     if client.isAllowed("filters") { showFilters() }
///
/// Make one for each signed-in user, and keep it as long as they are signed in. Every error that a call throws is a
/// `CountersignError`. Times are in seconds.
public actor CountersignClient {
  /// The same as the service's. It goes with each request.
  public static let version = "0.1.0"

  nonisolated let user: String
  nonisolated let options: Options
  private let service: Service
  /// The name under which the user's things are stored, apart from those of other users and services.
  private let account: String

  /// The newest token's content, checked.
  private nonisolated let held: Locked<Access?>
  private nonisolated let audience: Locked<Audience>

  private var keys: [SigningKey]
  private var waiting: WaitingPosts
  private var isWaitingRead: Bool
  private var posting: [String: Task<Submission, any Error>] = [:]
  /// Transactions posted since the app's start: the App Store often delivers one in two ways at once.
  private var answered: Set<String> = []
  private var refused: Set<String> = []
  /// Transactions that were answered with a 5xx, which may be about each alone.
  private var troubled: Set<String> = []
  private var refreshing: Task<AccessState, any Error>?
  private var profileTag: (tag: String, profile: EntitlementResponse)?

  private var isStarted = false
  private let signedOut = Locked(false)
  private var failures = 0
  private var listener: Task<Void, Never>?
  private var retrying: Task<Void, Never>?
  /// Calls of `postWaiting` that are under way.
  private var runningPosts = 0
  private var clock: Task<Void, Never>?

  /// Reads what is kept of the user. No request is made: `state` is right at once, and offline.
  ///
  /// - Parameters:
  ///   - baseURL: of the service, without `/v1`.
  ///   - user: the ID of the signed-in user, the `sub` of their tokens. Where it is a UUID, it is the `appAccountToken` of
  ///     their purchases.
  ///   - token: the user's own bearer token. It is asked for before each request, and once more after a 401, so it should
  ///     return a fresh one then. Throw `CountersignError.signedOut` where there is none; any other error counts as trouble
  ///     that passes, as does one that takes longer than `options.tokenDeadline`. A JWT of another user's than `user` is not
  ///     sent.
  ///   - options: the rest.
  public init(
    baseURL: URL, user: String, token: @escaping @Sendable () async throws -> String, options: Options = Options()
  ) {
    self.user = user
    self.options = options
    service = Service(
      baseURL: baseURL, user: user, token: token, tokenDeadline: options.tokenDeadline, isSignedOut: signedOut,
      transport: options.transport)
    let host = "\(baseURL.host ?? "")\(baseURL.port.map { ":\($0)" } ?? "")"
    let account = "\(host)@\(UUID(uuidString: user)?.uuidString ?? user)"
    self.account = account

    func kept(_ name: String) -> Data? {
      do { return try options.storage.read("\(name)@\(account)") } catch {
        options.onError(.storage)
        return nil
      }
    }
    let keys = options.keys ?? kept("keys").flatMap(KeySet.parse) ?? []
    self.keys = keys
    do {
      waiting = WaitingPosts(try options.storage.read("posts@\(account)"))
      isWaitingRead = true
    } catch {
      options.onError(.storage)
      waiting = WaitingPosts(nil)
      isWaitingRead = false
    }
    let token = kept("token").flatMap { AccessToken(String(decoding: $0, as: UTF8.self)) }
    let access = options.verify.flatMap { token?.access(of: user, keys: keys, verify: $0) }
    held = Locked(access)
    audience = Locked(Audience(last: AccessState(access, at: options.now())))
  }

  deinit {
    listener?.cancel()
    retrying?.cancel()
    clock?.cancel()
    endAudience()
  }

  // MARK: What the user may do

  /// The state now. Read from memory.
  public nonisolated var state: AccessState {
    AccessState(held.withLock { $0 }, at: options.now())
  }

  /// Whether the user may use a feature. It reads memory alone and takes less than a microsecond: call it wherever a view
  /// needs it.
  ///
  ///     guard client.isAllowed("export") else { return showPaywall() }
  ///
  /// - Parameters:
  ///   - feature: a name in the service's catalog. One that the catalog lacks is not allowed.
  ///   - ifUnknown: the answer where the state is unknown. `true` is kind to a paying user who was offline for long.
  public nonisolated func isAllowed(_ feature: String, ifUnknown: Bool = false) -> Bool {
    let now = options.now()
    return held.withLock { access in
      guard let access, access.validity(at: now) != .unknown else { return ifUnknown }
      return access.features[feature]?.isAllowed ?? false
    }
  }

  /// The state now, and then each change of it, for as long as somebody reads. Who reads slowly gets the newest.
  ///
  ///     for await state in client.access { show(state) }
  public nonisolated var access: AsyncStream<AccessState> {
    AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
      let id = audience.withLock { audience in
        continuation.yield(state)
        return audience.add(continuation)
      }
      continuation.onTermination = { [audience] _ in audience.withLock { $0.remove(id) } }
    }
  }

  /// The number of purchases that wait to be posted.
  public var waitingCount: Int {
    readWaiting()
    return waiting.posts.count
  }

  // MARK: Start and refresh

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
    watchClock()
    await retryQuietly()
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
  private func refreshAnew() async throws -> AccessState {
    if let refreshing { _ = try? await refreshing.value }
    return try await refresh()
  }

  private func fetchToken() async throws -> AccessState {
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
    store(Data(text.utf8), "token")
    held.withLock { $0 = access }
    readWaiting()
    if waiting.posts.isEmpty {
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

  // MARK: Purchases

  /// Shows the App Store's sheet, posts the purchase, and returns the state that it caused.
  ///
  ///     let state = try await client.purchase("com.example.pro.monthly")
  ///     if state.access?.tier == "pro" { dismiss() }
  ///
  /// No purchase is lost: it is kept before it is posted, and the App Store delivers it again until the service
  /// has answered.
  @discardableResult
  public func purchase(_ productID: String) async throws -> AccessState {
    try checkSignedIn()
    let store = try theStore()
    let outcome: StorePurchase
    do {
      outcome = try await store.purchase(productID: productID, appAccountToken: UUID(uuidString: user))
    } catch let error as CountersignError {
      throw error
    } catch {
      throw CountersignError.refused(code: "store_error", detail: error.localizedDescription)
    }
    switch outcome {
    case .cancelled: throw CountersignError.cancelled
    case .pending: throw CountersignError.pending
    case .success(let transaction):
      if try await post(transaction).isQueued { try await waitForProfile() }
      return try await refreshAfterPost()
    }
  }

  /// The purchase is recorded: a no to the token is not one to the purchase.
  private func refreshAfterPost() async throws -> AccessState {
    do { return try await refreshAnew() } catch let error as CountersignError where error.isRefusal {
      options.onError(error)
      throw CountersignError.later(retryAfter: nil)
    }
  }

  /// Posts everything that the store account owns.
  ///
  ///     let restored = try await client.restore { done, total in
  ///       Task { @MainActor in progress = Double(done) / Double(total) }
  ///     }
  ///     if restored.purchases == 0 { message = "No purchases were found." }
  ///
  /// - Parameters:
  ///   - syncs: whether the App Store is asked anew, which may ask the user to sign in: only on a tap. `false` takes what
  ///     the device knows, as is right after the user has signed in to the app.
  ///   - progress: how many purchases are done, of how many. It is called with `(0, total)` first, and not at all where
  ///     there are none.
  @discardableResult
  public func restore(
    syncs: Bool = true, progress: @Sendable (_ done: Int, _ total: Int) -> Void = { _, _ in }
  ) async throws -> Restoration {
    try checkSignedIn()
    let store = try theStore()
    do { if syncs { try await store.sync() } } catch {
      throw error as? CountersignError ?? .refused(code: "store_error", detail: error.localizedDescription)
    }
    var found = await store.currentEntitlements()
    for transaction in await store.unfinished() where !found.contains(where: { $0.isSame(as: transaction) }) {
      found.append(transaction)
    }
    keep(found)
    if !found.isEmpty { progress(0, found.count) }
    var posted = 0
    var isQueued = false
    var trouble: CountersignError?
    var refused = 0
    for (index, transaction) in found.enumerated() {
      do {
        isQueued = try await post(transaction).isQueued || isQueued
        posted += 1
      } catch let error as CountersignError where isAboutOne(error, transaction) {
        trouble = trouble ?? error
        refused += error.isRefusal ? 1 : 0
      }
      progress(index + 1, found.count)
    }
    if posted == 0, let trouble { throw trouble }
    if isQueued { try await waitForProfile() }
    let state = posted == 0 ? try await refreshAnew() : try await refreshAfterPost()
    return Restoration(state: state, purchases: posted, refused: refused)
  }

  /// The result of a restore.
  public struct Restoration: Hashable, Sendable {
    public var state: AccessState
    /// The number of purchases that the service took; 0 where the store account has none.
    public var purchases: Int
    /// The number that it refused, for instance because they are another account's. Any others wait, and are posted again.
    public var refused: Int
  }

  /// Posts what waits now, instead of later, and asks for the state. For a button beside "waits to be confirmed".
  @discardableResult
  public func retry() async throws -> AccessState {
    try checkSignedIn()
    // A post that fails is no reason not to ask for the state.
    var trouble: CountersignError?
    do { try await postWaiting() } catch let error as CountersignError where error != .signedOut { trouble = error }
    let state = try await refreshAnew()
    if let trouble { throw trouble }
    return state
  }

  /// Posts the waiting transactions, and those that the App Store says are not finished. Throws at the end what was about one
  /// transaction, and any other error at once: what is left goes on waiting.
  private func postWaiting() async throws {
    runningPosts += 1
    defer { runningPosts -= 1 }
    readWaiting()
    let unfinished = await options.store?.unfinished() ?? []
    var transactions = unfinished
    for post in waiting.posts {
      // The same purchase may be signed anew meanwhile.
      let finish = unfinished.first { $0.id == post.transactionID }?.finish
      let transaction = StoreTransaction(id: post.transactionID, jwsRepresentation: post.jws, finish: finish ?? {})
      if !unfinished.contains(where: { $0.isSame(as: transaction) }) { transactions.append(transaction) }
    }
    transactions.removeAll { refused.contains($0.jwsRepresentation) }
    keep(transactions.filter { !answered.contains($0.jwsRepresentation) })
    var trouble: CountersignError?
    for transaction in transactions {
      do { try await postOnce(transaction) } catch let error as CountersignError where isAboutOne(error, transaction) {
        trouble = trouble ?? error
      }
    }
    if let trouble { throw trouble }
  }

  /// A renewal, a refund, an approval, or a purchase on another device.
  private func receive(_ transaction: StoreTransaction) async {
    guard !isSignedOut, !refused.contains(transaction.jwsRepresentation) else { return }
    let isNew = !answered.contains(transaction.jwsRepresentation)
    await quietly {
      try await postOnce(transaction)
      if isNew { _ = try await refreshAnew() }
    }
  }

  /// Whether the others may be posted all the same.
  private func isAboutOne(_ error: CountersignError, _ transaction: StoreTransaction) -> Bool {
    error.isRefusal || (error != .signedOut && troubled.contains(transaction.jwsRepresentation))
  }

  private func postOnce(_ transaction: StoreTransaction) async throws {
    if answered.contains(transaction.jwsRepresentation) {
      await transaction.finish()
      forget(transaction)
    } else {
      _ = try await post(transaction)
    }
  }

  /// The service's answer to a post.
  private struct Submission {
    /// The app's own profile row is not written yet.
    var isQueued: Bool
  }

  private func post(_ transaction: StoreTransaction) async throws -> Submission {
    let jws = transaction.jwsRepresentation
    if let posting = posting[jws] { return try await posting.value }
    keep([transaction])
    let task = Task {
      defer { posting[jws] = nil }
      do { return try await send(transaction) } catch {
        if (error as? CountersignError)?.isRefusal == true {
          // Not in this run of the app. At the next start the App Store delivers it again, and the cause, such as a
          // service that was not set up for this app, may be gone.
          refused.insert(jws)
          forget(transaction)
        } else {
          retryLater(error)
        }
        throw error
      }
    }
    posting[jws] = task
    return try await task.value
  }

  private func send(_ transaction: StoreTransaction) async throws -> Submission {
    try checkSignedIn()
    troubled.remove(transaction.jwsRepresentation)
    let response = try await service.send(
      "POST", "/v1/validations",
      body: ValidationRequest(receiptData: transaction.jwsRepresentation, transactionID: "\(transaction.id)"))
    if response.status >= 500 { troubled.insert(transaction.jwsRepresentation) }
    let verdict = try response.decoded(EntitlementResponse.self, from: [200, 202], now: options.now())
    if verdict.isTransactionFound == false {
      // A verdict without this purchase: it is posted again, and holds up no other.
      troubled.insert(transaction.jwsRepresentation)
      throw CountersignError.later(retryAfter: nil)
    }
    answered.insert(transaction.jwsRepresentation)
    refused.remove(transaction.jwsRepresentation)
    // The service has it on disk: now, and not before, the App Store may forget it.
    await transaction.finish()
    forget(transaction)
    return Submission(isQueued: response.status == 200 && verdict.profileWrite == .queued)
  }

  /// Waits until the app's own profile row is written: every two seconds, for ten seconds at most.
  private func waitForProfile() async throws {
    let end = options.now().addingTimeInterval(10)
    for _ in 0..<5 where options.now() < end {
      guard (try? await options.sleep(2)) != nil else { return }
      // The purchase is recorded: trouble here is only a row that is not seen yet.
      if let write = try? await profile().profileWrite, write == .committed || write == .none { return }
    }
  }

  /// The verdict on the user, for a settings page: product, dates, whether it renews. An unchanged one is not sent twice.
  public func profile() async throws -> EntitlementResponse {
    try checkSignedIn()
    let response = try await service.send(
      "GET", "/v1/profiles/me", headers: profileTag.map { ["If-None-Match": $0.tag] } ?? [:])
    if response.status == 304, let profileTag { return profileTag.profile }
    let profile = try response.decoded(EntitlementResponse.self, now: options.now())
    profileTag = response.headers["etag"].map { ($0, profile) }
    return profile
  }

  // MARK: Usage and trials

  /// Consumes an amount of a meter, before the app does what it is for. The service counts, and decides.
  ///
  ///     do {
  ///       try await client.consume("questions")
  ///       answer(question)
  ///     } catch CountersignError.refused(code: "limit_reached", detail: _) {
  ///       showPaywall()
  ///     }
  ///
  /// A lost answer is asked for again under the same key, twice at most, and the consumption counts once.
  ///
  /// - Parameters:
  ///   - feature: a meter of the catalog.
  ///   - amount: from 1 to 1,000,000.
  ///   - timeZone: where the user's days begin; the service allows one change a day. `nil`: as before.
  ///   - key: names this consumption. Give the same one to repeat a call that threw `later`.
  @discardableResult
  public func consume(
    _ feature: String, amount: Int = 1, timeZone: TimeZone? = nil, key: String = UUID().uuidString
  ) async throws -> FeatureResponse {
    try checkSignedIn()
    let body = UsageRequest(amount: amount, timeZone: timeZone?.identifier)
    for pause in [1, 2] as [TimeInterval] {
      do { return try await consume(feature, body, key) } catch CountersignError.later(let retryAfter) {
        // Somebody waits for this: what takes longer is theirs to repeat.
        guard retryAfter ?? 0 <= 5 else { throw CountersignError.later(retryAfter: retryAfter) }
        do { try await options.sleep(max(pause, retryAfter ?? 0)) } catch {
          throw CountersignError.later(retryAfter: retryAfter)
        }
      }
    }
    return try await consume(feature, body, key)
  }

  private func consume(_ feature: String, _ body: UsageRequest, _ key: String) async throws -> FeatureResponse {
    let response = try await service.send(
      "POST", "/v1/profiles/me/usage/\(feature.pathComponent)", headers: ["Idempotency-Key": key], body: body)
    if response.status == 403, let reached = response.problem?.feature { note(reached) }
    let answer = try response.decoded(FeatureResponse.self, now: options.now())
    note(answer)
    return answer
  }

  /// Until the next token says it, signed.
  private func note(_ answer: FeatureResponse) {
    held.withLock { access in
      // `allowed` was about the amount that was asked for; here it is about one more.
      access?.features[answer.feature] = Access.Feature(
        isAllowed: answer.remaining.map { $0 > 0 } ?? answer.isAllowed, limit: answer.limit, remaining: answer.remaining
      )
    }
    publish()
  }

  /// Begins a trial of the app's own, without the App Store. A user who has one gets it again.
  ///
  /// - Parameters:
  ///   - trial: its name; needed where the service has several.
  ///   - device: what else is to be said of this device, such as a token of DeviceCheck's. Its ID is made by this client,
  ///     and kept in the storage.
  @discardableResult
  public func startTrial(_ trial: String? = nil, device: DeviceRequest = DeviceRequest()) async throws -> TrialResponse
  {
    try checkSignedIn()
    let request = TrialRequest(
      trial: trial, deviceID: try deviceID(), device: device.device, pushToken: device.pushToken,
      deviceToken: device.deviceToken, secondDeviceToken: device.secondDeviceToken, isDevelopment: device.isDevelopment)
    let response = try await service.send("POST", "/v1/trials", body: request)
    let answer = try response.decoded(TrialResponse.self, from: [200, 201], now: options.now())
    await quietly { _ = try await refreshAnew() }
    return answer
  }

  /// The ID of the device, whoever uses it. The keychain keeps it when the app is deleted.
  private func deviceID() throws -> String {
    do {
      if let kept = try options.storage.read("device"), let id = UUID(uuidString: String(decoding: kept, as: UTF8.self))
      {
        return id.uuidString
      }
      let id = UUID().uuidString
      try options.storage.write(Data(id.utf8), to: "device")
      return id
    } catch {
      throw CountersignError.storage
    }
  }

  // MARK: Experiments

  /// The user's variant of an experiment, as the service has it; `nil` for an experiment that its catalog lacks.
  ///
  ///     let variant = (try? await client.variant(of: "paywall_headline")) ?? "control"
  ///     show(headlines[variant])
  ///     try? await client.noteExposure(to: variant, of: "paywall_headline")
  public func variant(of experiment: String) async throws -> String? {
    struct Answer: Decodable { var experiments: [String: String] }
    try checkSignedIn()
    let response = try await service.send("GET", "/v1/profiles/me/access")
    return try response.decoded(Answer.self, now: options.now()).experiments[experiment]
  }

  /// Reports that the user saw a variant. The first report of a user is kept: call it each time the app shows one, also of
  /// a fallback.
  public func noteExposure(to variant: String, of experiment: String) async throws {
    try checkSignedIn()
    let report = ExposureReport(experiment: experiment, variant: variant)
    _ = try await service.send("POST", "/v1/events", body: report).decoded(EventsRecorded.self, now: options.now())
  }

  // MARK: The end

  /// Forgets what the user may do, and ends everything in the background. Posts that wait stay in the storage for when this
  /// user signs in again. Make another client then.
  public func signOut() {
    signedOut.withLock { $0 = true }
    listener?.cancel()
    retrying?.cancel()
    clock?.cancel()
    store(nil, "token")
    held.withLock { $0 = nil }
    publish()
    endAudience()
  }

  private var isSignedOut: Bool { signedOut.withLock { $0 } }

  private func checkSignedIn() throws {
    if isSignedOut { throw CountersignError.signedOut }
  }

  private func theStore() throws -> any Store {
    guard let store = options.store else {
      throw CountersignError.refused(code: "no_store", detail: "This system has no App Store: set options.store.")
    }
    return store
  }

  // MARK: In the background

  /// Posts and asks again later, where the client was started: after 5 s, 10 s, … 10 minutes, spread by a quarter so that
  /// not every device comes at once, and not before the time that the service named.
  private func retryLater(_ error: any Error) {
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
  }

  /// Publishes what time alone changes, and asks again when the state becomes old.
  private func watchClock() {
    clock?.cancel()
    guard isStarted, !isSignedOut, let access = held.withLock({ $0 }) else { return }
    let now = options.now()
    // Not below nothing: a device's clock that is fast by hours must not make it ask without end.
    let untilOld = max(0, access.knownUntil.timeIntervalSince(now))
    let untilUnknown = access.offlineUntil.timeIntervalSince(now)
    clock = Task { [weak self, sleep = options.sleep] in
      if untilOld > 0 {
        guard (try? await sleep(untilOld)) != nil else { return }
        await self?.becomeOld()
      }
      guard untilUnknown > untilOld, (try? await sleep(untilUnknown - untilOld)) != nil else { return }
      self?.publish()
    }
  }

  private func becomeOld() async {
    publish()
    await quietly { _ = try await refresh() }
  }

  private func quietly(_ work: () async throws -> Void) async {
    do { try await work() } catch { options.onError(error as? CountersignError ?? .later(retryAfter: nil)) }
  }

  /// Outside the lock: a reader that ends takes it to remove itself.
  private nonisolated func endAudience() {
    for reader in audience.withLock({ $0.takeReaders() }) { reader.finish() }
  }

  private nonisolated func publish() {
    audience.withLock { $0.publish(state) }
  }

  // MARK: Storage

  /// The keychain cannot be read before the first unlock of the device: what it has is not replaced unread.
  private func readWaiting() {
    guard !isWaitingRead else { return }
    let json: Data?
    do { json = try options.storage.read("posts@\(account)") } catch { return }
    isWaitingRead = true
    waiting = WaitingPosts(json, then: waiting.posts, without: answered.union(refused))
    store(waiting.json, "posts")
  }

  private func keep(_ transactions: [StoreTransaction]) {
    readWaiting()
    guard transactions.contains(where: { !waiting.contains($0) }) else { return }
    waiting.add(transactions)
    storeWaiting()
  }

  private func forget(_ transaction: StoreTransaction) {
    readWaiting()
    guard waiting.contains(transaction) else { return }
    waiting.remove(transaction)
    storeWaiting()
  }

  private func storeWaiting() {
    if isWaitingRead { store(waiting.json, "posts") } else { options.onError(.storage) }
  }

  /// A storage that fails stops nothing: the App Store has the transaction, and the service the state.
  private func store(_ data: Data?, _ name: String) {
    do { try options.storage.write(data, to: "\(name)@\(account)") } catch { options.onError(.storage) }
  }
}

/// The readers of the state's changes.
private struct Audience: Sendable {
  var last: AccessState
  private var readers: [Int: AsyncStream<AccessState>.Continuation] = [:]
  private var lastID = 0

  init(last: AccessState) { self.last = last }

  mutating func add(_ reader: AsyncStream<AccessState>.Continuation) -> Int {
    lastID += 1
    readers[lastID] = reader
    return lastID
  }

  mutating func remove(_ id: Int) { readers[id] = nil }

  mutating func publish(_ state: AccessState) {
    guard state != last else { return }
    last = state
    for reader in readers.values { reader.yield(state) }
  }

  mutating func takeReaders() -> [AsyncStream<AccessState>.Continuation] {
    defer { readers = [:] }
    return Array(readers.values)
  }
}

extension StoreTransaction {
  func isSame(as other: StoreTransaction) -> Bool { jwsRepresentation == other.jwsRepresentation }
}

extension CountersignError {
  static let storage = refused(code: "storage", detail: "What is kept on this device cannot be read or written.")

  var isRefusal: Bool {
    if case .refused = self { true } else { false }
  }
}
