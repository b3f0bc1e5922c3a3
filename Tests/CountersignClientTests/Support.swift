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
    var syncs = 0
    var syncError: CountersignError?
    var isFrozen = false
    var products: [StoreProduct] = []
    var productsAsked = 0
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
  func sell(_ product: StoreProduct) { state.withLock { $0.products.append(product) } }
  var productsAsked: Int { state.withLock { $0.productsAsked } }
  func products(_ ids: [String]) async throws -> [StoreProduct] {
    state.withLock { state in
      state.productsAsked += 1
      return state.products.filter { ids.contains($0.id) }
    }
  }
  var syncs: Int { state.withLock { $0.syncs } }
  var appAccountTokens: [UUID?] { state.withLock { $0.tokens } }
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
  func purchase(productID: String, appAccountToken: UUID?) async throws -> StorePurchase {
    let outcome = state.withLock { state in
      state.tokens.append(appAccountToken)
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
  let bearersAsked = Locked(0)

  /// `isAutomatic` for a client that is not started; the background of one that is would never rest.
  init(isAutomatic: Bool = false) {
    let clock = TestClock(isAutomatic: isAutomatic)
    self.clock = clock
    store = ScriptedStore(journal: journal)
    service = FakeService(journal: journal) { clock.now }
    service.bearers = ["bearer": Self.user]
  }

  /// The app is started: a client on what the device has kept.
  func client(
    user: String = Bench.user, pinned: Bool = true, verify: SignatureVerifier? = fakeVerify,
    token: (@Sendable () async throws -> String)? = nil, tokenDeadline: TimeInterval = 60
  ) -> CountersignClient {
    var options = CountersignClient.Options()
    options.keys = pinned ? [FakeService.key] : nil
    options.verify = verify
    options.store = store
    options.storage = storage
    options.cache = storage
    options.log = { entry in log.withLock { $0.append(entry) } }
    options.transport = service
    options.tokenDeadline = tokenDeadline
    options.now = { clock.now }
    options.sleep = { try await clock.sleep($0) }
    options.onError = { error in errors.withLock { $0.append(error) } }
    return CountersignClient(
      baseURL: URL(string: "https://countersign.example.com/") ?? URL(fileURLWithPath: "/"), user: user,
      token: token ?? {
        bearersAsked.withLock { $0 += 1 }
        return bearer.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
      }, options: options)
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
  let end = Date() + 20
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
