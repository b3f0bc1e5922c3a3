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
  let service: Service
  /// The name under which the user's things are stored, apart from those of other users and services.
  let account: String
  let trials: TrialClient

  nonisolated let held: Locked<HeldAccess?>
  private nonisolated let audience: Locked<Audience>

  var keys: [SigningKey]
  var waiting: WaitingPosts
  var isWaitingRead: Bool
  private var isTokenRead: Bool
  var posting: [String: Task<Submission, any Error>] = [:]
  /// Transactions posted since the app's start: the App Store often delivers one in two ways at once.
  var answered: Set<String> = []
  var refused: Set<String> = []
  /// Transactions that were answered with a 5xx, which may be about each alone.
  var troubled: Set<String> = []
  var refreshing: Task<AccessState, any Error>?
  /// The last answers by name, with their entity tags.
  var answers: [String: KeptAnswer] = [:]
  /// The store's products by ID.
  var products: [String: StoreProduct] = [:]
  /// Whether the store's entitlements were compared with the tier in this run of the app.
  var hasCompared = false
  var events = EventQueue()
  var areEventsRead = false
  var delivering: Task<Void, any Error>?
  var retryingEvents: Task<Void, Never>?
  var eventFailures = 0

  var isStarted = false
  let signedOut = Locked(false)
  var failures = 0
  var listener: Task<Void, Never>?
  var retrying: Task<Void, Never>?
  /// Calls of `postWaiting` that are under way.
  var runningPosts = 0
  var clock: Task<Void, Never>?

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
      transport: options.transport, now: options.now, log: options.log)
    let account = "\(baseURL.account)@\(UUID(uuidString: user)?.uuidString ?? user)"
    self.account = account
    trials = TrialClient(service: service, options: options, account: account)

    var access: HeldAccess?
    do {
      (keys, access) = try Self.stored(options, of: user, account)
      isTokenRead = true
    } catch {
      options.onError(.storage)
      keys = options.keys ?? []
      isTokenRead = false
    }
    do {
      waiting = WaitingPosts(try options.storage.read("posts@\(account)"))
      isWaitingRead = true
    } catch {
      options.onError(.storage)
      waiting = WaitingPosts(nil)
      isWaitingRead = false
    }
    held = Locked(access)
    audience = Locked(Audience(last: AccessState(access, at: options.now())))
  }

  private static func stored(
    _ options: Options, of user: String, _ account: String
  ) throws -> (keys: [SigningKey], access: HeldAccess?) {
    let keys = try options.keys ?? options.storage.read("keys@\(account)").flatMap(KeySet.parse) ?? []
    let token = try options.storage.read("token@\(account)")
    return (keys, token.flatMap { HeldAccess($0, of: user, keys: keys, verify: options.verify) })
  }

  /// The keychain cannot be read before the first unlock of the device.
  func readToken() {
    guard !isTokenRead, !isSignedOut, let stored = try? Self.stored(options, of: user, account) else { return }
    isTokenRead = true
    // A newer one may have come meanwhile.
    guard held.withLock({ $0 == nil }) else { return }
    keys = stored.keys
    held.withLock { $0 = stored.access }
    publish()
  }

  deinit {
    for task in [listener, retrying, clock, retryingEvents] { task?.cancel() }
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
    return held.withLock { held in
      guard let held, held.validity(at: now) != .unknown else { return ifUnknown }
      return held.access.features[feature]?.isAllowed ?? false
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

  // MARK: The end

  /// Forgets what the user may do, and ends everything in the background. Posts and events that wait stay in the storage for when
  /// this user signs in again. Make another client then.
  public func signOut() {
    signedOut.withLock { $0 = true }
    for task in [listener, retrying, clock, retryingEvents] { task?.cancel() }
    store(nil, "token")
    for name in ["profile", "access"] {
      answers[name] = nil
      cache(nil, name)
    }
    held.withLock { $0 = nil }
    publish()
    endAudience()
  }

  /// `nil` before the first answer.
  var clockDifference: TimeInterval? { held.withLock { $0?.clockDifference } }

  var isSignedOut: Bool { signedOut.withLock { $0 } }

  func checkSignedIn() throws {
    if isSignedOut { throw CountersignError.signedOut }
  }

  func theStore() throws -> any Store {
    guard let store = options.store else {
      throw CountersignError.refused(code: "no_store", detail: "This system has no App Store: set options.store.")
    }
    return store
  }

  func quietly(_ work: () async throws -> Void) async {
    do { try await work() } catch { report(error as? CountersignError ?? .later(retryAfter: nil)) }
  }

  /// Outside the lock: a reader that ends takes it to remove itself.
  private nonisolated func endAudience() {
    for reader in audience.withLock({ $0.takeReaders() }) { reader.finish() }
  }

  nonisolated func publish() {
    let state = state
    guard audience.withLock({ $0.publish(state) }) else { return }
    log(.info, "state changed", ["state": state.word, "tier": state.access?.tier ?? ""])
  }

  /// A storage that fails stops nothing: the App Store has the transaction, and the service the state.
  func store(_ data: Data?, _ name: String) {
    do { try options.storage.write(data, to: "\(name)@\(account)") } catch { report(.storage) }
  }
}

extension CountersignError {
  static let storage = refused(code: "storage", detail: "What is kept on this device cannot be read or written.")

  var isRefusal: Bool {
    if case .refused = self { true } else { false }
  }
}
