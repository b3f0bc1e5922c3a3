import CountersignAPI
import CountersignClient
import Crypto
import Foundation
import Ledger
import Synchronization
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// The libraries for apps against the running service: what each shows is what the service says.
@Suite struct ClientTests {
  private static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

  /// A service by the real clock, which the libraries go by, too.
  private func run(
    _ body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    var settings = Settings(server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret])
    settings.trials = ["week": "{ tier: pro, length: 7d, sessions: 30 }"]
    settings.products["com.example.app.pro.monthly"] = "{ tier: pro, offers: { first: never, again: expired } }"
    let start = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down))
    try await RunningService.besideStore(
      at: start, withServerAPI: true, settings: settings, now: { Date() }, body: body)
  }

  /// StoreKit's part, as the simulated App Store signs it.
  private final class ScriptedStore: Store {
    private let owned: Mutex<[StoreTransaction]>
    private let finished = Mutex<[UInt64]>([])
    /// The sale with an offer.
    private let sell: (@Sendable (StoreOffer) throws -> StoreTransaction)?

    init(_ jws: [String], sell: (@Sendable (StoreOffer) throws -> StoreTransaction)? = nil) {
      self.sell = sell
      owned = Mutex([])
      let transactions = jws.enumerated().map { index, jws in
        StoreTransaction(id: Self.transactionID(in: jws) ?? UInt64(index), jwsRepresentation: jws) { [weak self] in
          self?.finished.withLock { $0.append(UInt64(index)) }
        }
      }
      owned.withLock { $0 = transactions }
    }

    private static func transactionID(in jws: String) -> UInt64? {
      struct Payload: Decodable { var transactionId: String }
      let parts = jws.split(separator: ".")
      guard parts.count == 3 else { return nil }
      return SignedDataSigner.decode(parts[1]).flatMap { try? JSONDecoder().decode(Payload.self, from: Data($0)) }
        .flatMap { UInt64($0.transactionId) }
    }

    var finishedCount: Int { finished.withLock { $0.count } }

    func updates() -> AsyncStream<StoreTransaction> { AsyncStream { $0.finish() } }
    func unfinished() async -> [StoreTransaction] { [] }
    func currentEntitlements() async -> [StoreTransaction] { owned.withLock { $0 } }
    func sync() async throws {}
    func purchase(productID: String, appAccountToken: UUID?, offer: StoreOffer?) async throws -> StorePurchase {
      if let sell, let offer { return .success(try sell(offer)) }
      return owned.withLock { $0.first }.map(StorePurchase.success) ?? .cancelled
    }
  }

  /// A network that can be cut off.
  private final class Network: Transport {
    private let session = URLSessionTransport()
    private let cut = Mutex(false)
    func cut(_ isCut: Bool) { cut.withLock { $0 = isCut } }
    func send(_ request: TransportRequest) async throws -> TransportResponse {
      if cut.withLock({ $0 }) { throw URLError(.notConnectedToInternet) }
      return try await session.send(request)
    }
  }

  private func options(_ network: Network, in directory: URL) -> CountersignClient.Options {
    var options = CountersignClient.Options()
    options.storage = FileStorage(directory: directory)
    options.cache = FileStorage(directory: directory)
    options.transport = network
    options.verify = { signature, message, key in
      guard let point = key.rawRepresentation,
        let key = try? P256.Signing.PublicKey(rawRepresentation: point),
        let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
      else { return false }
      return key.isValidSignature(signature, for: message)
    }
    return options
  }

  private func client(_ service: RunningService, _ store: ScriptedStore, in directory: URL) throws -> CountersignClient
  {
    var options = options(Network(), in: directory)
    options.store = store
    return CountersignClient(
      baseURL: try #require(URL(string: service.origin)), user: Self.user,
      token: { try TokenMint.user(Self.user, at: Date()) }, options: options)
  }

  @Test func `the Swift library buys with an offer that the service has signed, and the store takes`() async throws {
    let directory = try TemporaryDirectory()
    try await run { service, simulated in
      let store = ScriptedStore([]) { offer in
        guard case .promotional("first", let jws) = offer else { throw CountersignError.cancelled }
        let sold = try simulated.simulator.issueTransaction(
          .subscriber, appAccountToken: UUID(uuidString: Self.user), offer: SignedOffer(jws: jws))
        return StoreTransaction(id: UInt64(sold.transactionID) ?? 0, jwsRepresentation: sold.signedTransaction) {}
      }
      let client = try client(service, store, in: directory.url)
      let offers = try await client.offers()
      #expect(offers.promotional.map(\.offerID) == ["first"])
      let product = try #require(offers.promotional.first?.productID)
      await #expect(throws: CountersignError.self) { try await client.purchase(product, offer: .promotional("again")) }
      #expect(try await client.purchase(product, offer: .promotional("first")).access?.tier == "pro")
      #expect(try await client.offers().promotional.isEmpty)
    }
  }

  @Test func `the Swift library buys, shows the state, and knows it after a restart without a connection`() async throws
  {
    let directory = try TemporaryDirectory()
    try await run { service, simulated in
      let store = ScriptedStore([
        try simulated.simulator.issueTransaction(.renewing, appAccountToken: UUID(uuidString: Self.user))
          .signedTransaction
      ])
      let client = try client(service, store, in: directory.url)
      #expect(client.state.access == nil)
      let state = try await client.purchase("com.example.app.pro.monthly")
      #expect(state.access?.tier == "pro" && store.finishedCount == 1)
      #expect(client.isAllowed("filters") && client.isAllowed("children") && !client.isAllowed("unheard-of"))
      let restored = try await client.restore()
      #expect(restored.purchases == 1 && restored.refused == 0 && store.finishedCount == 2)
      let profile = try await client.profile()
      #expect(profile.tier == "pro" && profile.nextBillingAt != nil && profile.notice == nil && !profile.isOld)
      let plans = try await client.plans()
      #expect(plans.plans.contains { $0.tier == "pro" && $0.name == profile.tierName })
      #expect(try await client.offerings().all.count == plans.offerings.count)
      await client.track(.paywallViewed, ["source": "test"])
      try await client.flush()
      let diagnosis = await client.diagnose()
      #expect(diagnosis.waitingEvents == 0 && diagnosis.droppedEvents == 0)
      #expect(diagnosis.answers.allSatisfy { $0.requestID != nil && (200..<400).contains($0.status ?? 0) })
      let consumed = try await client.consume("questions", amount: 1)
      #expect(consumed.isAllowed)

      // The app starts again, and the service is away.
      await service.ledger.close()
      let again = try self.client(service, store, in: directory.url)
      await again.start()
      #expect(again.state.access?.tier == "pro" && again.isAllowed("filters"))
      #expect(try await again.offerings().all.count == plans.offerings.count)
      #expect(try await again.profile().tier == "pro")
    }
  }

  @Test func `the Swift library says why a purchase is refused, and keeps what could not be judged`() async throws {
    let directory = try TemporaryDirectory()
    try await run { service, simulated in
      let store = ScriptedStore([try simulated.simulator.issueTransaction(.wrongApp).signedTransaction])
      let client = try client(service, store, in: directory.url)
      await #expect(throws: CountersignError.self) { try await client.purchase("x") }
      #expect(await client.waitingCount == 0)
    }
    let other = try TemporaryDirectory()
    try await run { service, simulated in
      let store = ScriptedStore([try simulated.simulator.issueTransaction(.renewing).signedTransaction])
      let client = try client(service, store, in: URL(filePath: other.path))
      await service.ledger.close()
      await #expect(throws: CountersignError.self) { try await client.purchase("x") }
      #expect(await client.waitingCount == 1 && store.finishedCount == 0)
    }
  }

  @Test func `004 one trial for an app without accounts, through reinstalls, a sign-in, a second device and outages`()
    async throws
  {
    let (phone, tablet) = (try TemporaryDirectory(), try TemporaryDirectory())
    try await run { service, _ in
      let url = try #require(URL(string: service.origin))
      let network = Network()
      func app(now: TimeInterval = 0) -> TrialClient {
        var options = options(network, in: URL(filePath: phone.path))
        options.now = { Date() + now }
        return TrialClient(baseURL: url, publicKey: RunningService.publicKey, options: options)
      }
      func signedIn(_ directory: TemporaryDirectory) -> CountersignClient {
        CountersignClient(
          baseURL: url, user: Self.user, token: { try TokenMint.user(Self.user, at: Date()) },
          options: options(network, in: directory.url))
      }

      let begun = try await app().start()
      for _ in 0..<5 { try await app().useSession() }
      // Deleted and installed: the keychain has the device's ID.
      let device = try FileStorage(directory: URL(filePath: phone.path)).read("device")
      try FileManager.default.removeItem(atPath: phone.path)
      try FileStorage(directory: URL(filePath: phone.path)).write(device, to: "device")
      #expect(try await app().start().startedAt == begun.startedAt)
      #expect(try await app().trial()?.sessionsUsed == 5)

      network.cut(true)
      #expect(try await app().useSession().sessionsUsed == 6)
      #expect(try await app().useSession().sessionsUsed == 7)
      await #expect(throws: CountersignError.later(retryAfter: nil)) { try await app(now: -86_400).useSession() }
      network.cut(false)
      #expect(try await app().trial()?.sessionsUsed == 7)

      let client = signedIn(phone)
      #expect(try await client.startTrial().startedAt == begun.startedAt)
      #expect(client.state.access?.tier == "pro")
      #expect(try await client.useTrialSession().sessionsUsed == 8)
      let second = signedIn(tablet)
      #expect(try await second.startTrial().sessionsUsed == 8)
      #expect(try await second.useTrialSession().sessionsUsed == 9)
      // The phone, the tablet and the phone without its user mean the same trial.
      for trial in [try await client.trial(), try await second.trial(), try await app().trial()] {
        #expect(trial?.startedAt == begun.startedAt && trial?.sessionsUsed == 9)
      }
    }
  }

  private static let node = ["/usr/bin/node", "/usr/local/bin/node"].first(where: FileManager.default.isExecutableFile)

  @Test(.enabled(if: node != nil, "The library for JavaScript is tried with Node, where that is installed."))
  func `the library for JavaScript passes its tests against the service`() async throws {
    let node = try #require(Self.node)
    try await run { service, simulated in
      let directory = packageFolder.appending(path: "clients/javascript")
      let ending = try await ChildProcess.run(
        node, ["--test", "--test-name-pattern", "against a running service", "countersign.test.mjs"],
        environment: [
          "COUNTERSIGN_URL": service.origin, "COUNTERSIGN_USER": Self.user,
          "COUNTERSIGN_PUBLIC_KEY": RunningService.publicKey,
          "COUNTERSIGN_TOKEN": try TokenMint.user(Self.user, at: Date()),
          "COUNTERSIGN_JWS": try simulated.simulator.issueTransaction(.renewing).signedTransaction,
        ], directory: directory.path(percentEncoded: false))
      #expect(ending.code == 0 && ending.output.contains("# pass 1"), "\(ending)")
      #expect(try await service.profile(Self.user).verdict == "pro active renewing")
    }
  }
}
