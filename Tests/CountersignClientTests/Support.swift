import CountersignAPI
import Foundation

@testable import CountersignClient

/// Time that a test moves. Every sleep is noted.
final class TestClock: Sendable {
  private struct Sleeper {
    var end: Date
    var continuation: CheckedContinuation<Void, any Error>
  }
  private struct State {
    var now = Date(timeIntervalSince1970: 1_768_478_400)
    var sleepers: [Int: Sleeper] = [:]
    var cancelled: Set<Int> = []
    var slept: [TimeInterval] = []
    var lastID = 0
  }
  private let state = Locked(State())
  /// Whether a sleep ends at once, and moves the time.
  private let isAutomatic: Bool

  init(isAutomatic: Bool) { self.isAutomatic = isAutomatic }

  var now: Date { state.withLock { $0.now } }
  var slept: [TimeInterval] { state.withLock { $0.slept } }
  func isSleeping(until end: Date) -> Bool { state.withLock { $0.sleepers.values.contains { $0.end == end } } }

  /// The time that the first sleeper still sleeps.
  var nextWait: TimeInterval? {
    state.withLock { state in state.sleepers.values.map(\.end).min()?.timeIntervalSince(state.now) }
  }

  func sleep(_ seconds: TimeInterval) async throws {
    try Task.checkCancellation()
    let id = state.withLock { state in
      state.slept.append(seconds)
      state.lastID += 1
      if isAutomatic { state.now += seconds }
      return state.lastID
    }
    if isAutomatic || seconds <= 0 { return }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isCancelled = state.withLock { state in
          if state.cancelled.contains(id) { return true }
          state.sleepers[id] = Sleeper(end: state.now + seconds, continuation: continuation)
          return false
        }
        if isCancelled { continuation.resume(throwing: CancellationError()) }
      }
    } onCancel: {
      let sleeper = state.withLock { state in
        state.cancelled.insert(id)
        return state.sleepers.removeValue(forKey: id)
      }
      sleeper?.continuation.resume(throwing: CancellationError())
    }
  }

  /// The device slept: the time has passed, and no sleeper has noticed.
  func jump(by seconds: TimeInterval) { state.withLock { $0.now += seconds } }

  /// Somebody sets the clock, which was ahead: who sleeps, sleeps as long.
  func set(right lead: TimeInterval) {
    state.withLock { state in
      state.now -= lead
      for id in state.sleepers.keys { state.sleepers[id]?.end -= lead }
    }
  }

  func advance(by seconds: TimeInterval) {
    let due = state.withLock { state in
      state.now += seconds
      let due = state.sleepers.filter { $0.value.end <= state.now }
      for id in due.keys { state.sleepers[id] = nil }
      return due.values.map(\.continuation)
    }
    for continuation in due { continuation.resume() }
  }
}

/// A storage that outlives its client, as the keychain outlives the app.
final class MemoryStorage: Storage {
  private let kept = Locked<[String: Data]>([:])
  private let broken = Locked(false)

  var isBroken: Bool {
    get { broken.withLock { $0 } }
    set { broken.withLock { $0 = newValue } }
  }
  func read(_ name: String) throws -> Data? {
    if isBroken { throw CocoaError(.fileReadUnknown) }
    return kept.withLock { $0[name] }
  }
  func write(_ data: Data?, to name: String) throws {
    if isBroken { throw CocoaError(.fileWriteUnknown) }
    kept.withLock { $0[name] = data }
  }
  func name(_ prefix: String) -> String? { kept.withLock { $0.keys.first { $0.hasPrefix(prefix) } } }
  func text(_ prefix: String) -> String? {
    kept.withLock { kept in kept.first { $0.key.hasPrefix(prefix) }.map { String(decoding: $0.value, as: UTF8.self) } }
  }
}

/// The App Store of one store account, by a script.
final class ScriptedStore: Store {
  struct Sale: Sendable {
    var id: UInt64
    var jws: String
  }
  private struct State {
    var outcomes: [Result<Sale?, CountersignError>] = []
    var unfinished: [Sale] = []
    var entitlements: [Sale] = []
    var listeners: [AsyncStream<StoreTransaction>.Continuation] = []
    var tokens: [UUID?] = []
    var offers: [StoreOffer?] = []
    var syncs = 0
    var syncError: CountersignError?
    var isFrozen = false
    var products: [StoreProduct] = []
    var isProductListAway = false
  }
  private let state = Locked(State())
  let journal: Journal

  init(journal: Journal) { self.journal = journal }

  /// The next purchase: a sale, or `nil` for one that waits for approval.
  func next(_ outcome: Result<Sale?, CountersignError>) { state.withLock { $0.outcomes.append(outcome) } }
  func own(_ sale: Sale) { state.withLock { $0.entitlements.append(sale) } }
  func leaveUnfinished(_ sale: Sale) { state.withLock { $0.unfinished.append(sale) } }
  func failSync(_ error: CountersignError) { state.withLock { $0.syncError = error } }
  /// From now on the app is dead to the App Store: what it finishes does not arrive.
  var isFrozen: Bool {
    get { state.withLock { $0.isFrozen } }
    set { state.withLock { $0.isFrozen = newValue } }
  }
  /// The product as it is from now on.
  func sell(_ product: StoreProduct) {
    state.withLock { $0.products = $0.products.filter { $0.id != product.id } + [product] }
  }
  func closeProducts() { state.withLock { $0.isProductListAway = true } }
  func products(_ ids: [String]) async throws -> [StoreProduct] {
    try state.withLock { state in
      if state.isProductListAway { throw URLError(.notConnectedToInternet) }
      return state.products.filter { ids.contains($0.id) }
    }
  }
  var syncs: Int { state.withLock { $0.syncs } }
  var appAccountTokens: [UUID?] { state.withLock { $0.tokens } }
  var offers: [StoreOffer?] { state.withLock { $0.offers } }
  var openCount: Int { state.withLock { $0.unfinished.count } }
  var hasListeners: Bool { state.withLock { !$0.listeners.isEmpty } }

  /// A renewal, a refund, an approval, another device.
  func deliver(_ sale: Sale) {
    let listeners = state.withLock { state in
      state.unfinished.append(sale)
      return state.listeners
    }
    for listener in listeners { listener.yield(transaction(sale)) }
  }

  private func transaction(_ sale: Sale) -> StoreTransaction {
    StoreTransaction(id: sale.id, jwsRepresentation: sale.jws) { [self] in
      if isFrozen { return }
      journal.note("finish \(sale.jws)")
      state.withLock { $0.unfinished.removeAll { $0.id == sale.id } }
    }
  }

  func updates() -> AsyncStream<StoreTransaction> {
    let (stream, continuation) = AsyncStream.makeStream(of: StoreTransaction.self)
    state.withLock { $0.listeners.append(continuation) }
    return stream
  }
  func unfinished() async -> [StoreTransaction] { state.withLock { $0.unfinished }.map(transaction) }
  func currentEntitlements() async -> [StoreTransaction] { state.withLock { $0.entitlements }.map(transaction) }
  func sync() async throws {
    let error = state.withLock { state in
      state.syncs += 1
      return state.syncError
    }
    if let error { throw error }
  }
  func purchase(productID: String, appAccountToken: UUID?, offer: StoreOffer?) async throws -> StorePurchase {
    let outcome = state.withLock { state in
      state.tokens.append(appAccountToken)
      state.offers.append(offer)
      return state.outcomes.isEmpty ? .failure(.cancelled) : state.outcomes.removeFirst()
    }
    guard let sale = try outcome.get() else { return .pending }
    state.withLock { $0.unfinished.append(sale) }
    return .success(transaction(sale))
  }
}

/// The calls, in order.
final class Journal: Sendable {
  private let lines = Locked<[String]>([])
  func note(_ line: String) { lines.withLock { $0.append(line) } }
  var all: [String] { lines.withLock { $0 } }
  func count(_ line: String) -> Int { all.filter { $0 == line }.count }
}

/// The life of an app, in steps: each call of its storage, of the App Store, and of the network on its way out and back.
final class Life: Sendable {
  private let steps: Locked<Int>
  init(steps: Int = .max) { self.steps = Locked(steps) }

  var isOver: Bool { steps.withLock { $0 <= 0 } }
  /// Whether it still happens.
  func step() -> Bool {
    steps.withLock { steps in
      defer { steps = max(0, steps - 1) }
      return steps > 0
    }
  }
}

/// Everything that an app can touch. After its life nothing happens any more, and nothing is answered.
struct Mortal: Storage, Transport, Store {
  private struct Dead: Error {}
  let life: Life
  let storage: MemoryStorage
  let transport: FakeService
  let store: ScriptedStore

  private func step() throws { if !life.step() { throw Dead() } }
  private func mortal(_ transaction: StoreTransaction) -> StoreTransaction {
    var transaction = transaction
    transaction.finish = { [finish = transaction.finish] in if life.step() { await finish() } }
    return transaction
  }

  func read(_ name: String) throws -> Data? {
    try step()
    return try storage.read(name)
  }
  func write(_ data: Data?, to name: String) throws {
    try step()
    try storage.write(data, to: name)
  }
  func send(_ request: TransportRequest) async throws -> TransportResponse {
    try step()
    let answer = try await transport.send(request)
    try step()
    return answer
  }
  func updates() -> AsyncStream<StoreTransaction> {
    let updates = store.updates()
    return AsyncStream { continuation in
      let task = Task {
        for await transaction in updates { continuation.yield(mortal(transaction)) }
        continuation.finish()
      }
      continuation.onTermination = { _ in task.cancel() }
    }
  }
  func unfinished() async -> [StoreTransaction] { life.step() ? await store.unfinished().map(mortal) : [] }
  func currentEntitlements() async -> [StoreTransaction] {
    life.step() ? await store.currentEntitlements().map(mortal) : []
  }
  func sync() async throws {
    try step()
    try await store.sync()
  }
  func products(_ ids: [String]) async throws -> [StoreProduct] {
    try step()
    return try await store.products(ids)
  }
  func purchase(productID: String, appAccountToken: UUID?, offer: StoreOffer?) async throws -> StorePurchase {
    try step()
    let outcome = try await store.purchase(productID: productID, appAccountToken: appAccountToken, offer: offer)
    try step()
    guard case .success(let transaction) = outcome else { return outcome }
    return .success(mortal(transaction))
  }
}

/// One device with the app on it, and the service.
struct Bench: Sendable {
  static let user = "6F0C2F3E-0D3E-4F83-9A52-2A1C9D6F6A11"
  let clock: TestClock
  let journal = Journal()
  let store: ScriptedStore
  let storage = MemoryStorage()
  let service: FakeService
  let errors = Locked<[CountersignError]>([])
  let log = Locked<[LogEntry]>([])
  let bearer = Locked<[String]>(["bearer"])

  /// `isAutomatic` for a client that is not started; the background of one that is would never rest.
  init(isAutomatic: Bool = false) {
    let clock = TestClock(isAutomatic: isAutomatic)
    self.clock = clock
    store = ScriptedStore(journal: journal)
    service = FakeService(journal: journal) { clock.now }
    service.bearers = ["bearer": Self.user]
  }

  private static let url = URL(string: "https://countersign.example.com/") ?? URL(fileURLWithPath: "/")

  /// The settings of the app. From where its life ends nothing that it does has an effect.
  func options(_ life: Life = Life()) -> CountersignClient.Options {
    var options = CountersignClient.Options()
    let mortal = Mortal(life: life, storage: storage, transport: service, store: store)
    options.keys = [FakeService.key]
    options.verify = fakeVerify
    options.store = mortal
    options.storage = mortal
    options.cache = mortal
    options.log = { entry in log.withLock { $0.append(entry) } }
    options.transport = mortal
    options.now = { clock.now }
    options.sleep = { try await clock.sleep($0) }
    options.onError = { error in errors.withLock { $0.append(error) } }
    return options
  }

  /// The app without accounts is started.
  func trials(_ options: CountersignClient.Options? = nil) -> TrialClient {
    TrialClient(baseURL: Self.url, publicKey: FakeService.publicKey, options: options ?? self.options())
  }

  /// The app is started: a client on what the device has kept.
  func client(
    user: String = Bench.user, pinned: Bool = true, verify: SignatureVerifier? = fakeVerify,
    token: (@Sendable () async throws -> String)? = nil, tokenDeadline: TimeInterval = 60, life: Life = Life(),
    on storage: MemoryStorage? = nil
  ) -> CountersignClient {
    var options = options(life)
    if let storage { (options.storage, options.cache) = (storage, storage) }
    if !pinned { options.keys = nil }
    options.verify = verify
    options.tokenDeadline = tokenDeadline
    return CountersignClient(
      baseURL: Self.url, user: user,
      token: token ?? { bearer.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] } }, options: options)
  }

  func sale(_ product: String = "pro.monthly", id: UInt64 = 1) -> ScriptedStore.Sale {
    ScriptedStore.Sale(id: id, jws: "\(product).\(id).signed")
  }
}

extension Bench {
  /// A sale as Apple signs it, with the user for whom the app bought.
  func signed(_ product: String, id: UInt64 = 1, by buyer: String? = nil) -> ScriptedStore.Sale {
    let token = buyer.map { ",\"appAccountToken\":\"\($0)\"" } ?? ""
    return ScriptedStore.Sale(
      id: id, jws: "signed.\(base64URL(Data("{\"productId\":\"\(product)\"\(token)}".utf8))).\(id)")
  }
}

/// Lets others run until something holds. Only a failure is timed: nothing waits for the clock.
func eventually(isolation: isolated (any Actor)? = #isolation, _ condition: () async -> Bool) async -> Bool {
  let end = Date() + 60
  repeat {
    if await condition() { return true }
    await Task.yield()
  } while Date() < end
  return false
}

/// The error of a call that has to fail.
func failure(_ call: () async throws -> some Any) async -> CountersignError? {
  do { _ = try await call() } catch { return error as? CountersignError }
  return nil
}
