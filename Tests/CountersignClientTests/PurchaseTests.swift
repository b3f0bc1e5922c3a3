import Foundation
import CountersignAPI
import Testing

@testable import CountersignClient

/// Every way in which a purchase can go wrong between the App Store, the app and the service.
@Suite struct PurchaseTests {
  private let bench = Bench()

  private let jws = "pro.monthly.1.signed"

  // MARK: Offers

  @Test func `a purchase with an offer goes to the store with what the service signed for it`() async throws {
    let client = bench.client()
    for _ in 0..<4 { bench.store.next(.success(bench.sale())) }
    try await client.purchase("pro.monthly")
    try await client.purchase("pro.monthly", offer: .promotional("winter"))
    try await client.purchase("pro.monthly", offer: .introductory(transactionID: "7"))
    try await client.purchase("pro.monthly", offer: .winBack("back"))
    #expect(
      bench.store.offers == [
        nil, .promotional(id: "winter", jws: "signed.for.pro.monthly"), .introductory(jws: "intro.for.7"),
        .winBack(id: "back"),
      ])
    #expect(try await client.offers().winBack.map(\.offerID) == ["back"])
  }

  @Test func `an offer that the service does not sign shows no sheet`() async throws {
    let error = await failure { try await bench.client().purchase("pro.monthly", offer: .promotional("summer")) }
    #expect(error?.errorDescription == "This offer is not available to you.")
    for (path, offer) in [("promotional", .promotional("winter")), ("introductory", .introductory())]
      as [(String, PurchaseOffer)]
    {
      bench.service.fail(path, .unreachable)
      let away = await failure { try await bench.client().purchase("pro.monthly", offer: offer) }
      guard case .refused(code: "offer_not_signed", detail: _) = away else {
        return #expect(Bool(false), "It is refused.")
      }
      #expect(away?.localizedDescription.contains("Nothing was bought") == true)
    }
    #expect(bench.store.offers.isEmpty)
  }

  // MARK: A kill of the app

  @Test func `killed between purchase and post: the next start posts it once and finishes it`() async throws {
    bench.store.leaveUnfinished(bench.sale())
    let client = bench.client()
    await client.start()
    #expect(bench.journal.all == ["post \(jws)", "finish \(jws)"])
    #expect(client.state.access?.tier == "pro")
    await client.signOut()
  }

  @Test func `killed between post and answer: it counts once, and is finished after the answer`() async throws {
    bench.store.next(.success(bench.sale()))
    bench.service.fail("validations", .answerLost)
    #expect(await failure { try await bench.client().purchase("pro.monthly") } == .later(retryAfter: nil))
    #expect(bench.journal.all == ["post \(jws)"])
    #expect(bench.storage.text("posts")?.contains(jws) == true)
    let next = bench.client()
    await next.start()
    #expect(bench.journal.all == ["post \(jws)", "post \(jws)", "finish \(jws)"])
    #expect(bench.service.purchases == [jws])
    #expect(bench.storage.text("posts") == nil)
    #expect(next.state.access?.tier == "pro")
    await next.signOut()
  }

  @Test func `killed between answer and finish: the next start posts again and finishes`() async throws {
    bench.store.next(.success(bench.sale()))
    bench.store.isFrozen = true
    try await bench.client().purchase("pro.monthly")
    #expect(bench.store.openCount == 1)
    bench.store.isFrozen = false
    let next = bench.client()
    await next.start()
    #expect(bench.service.purchases == [jws])
    #expect(bench.store.openCount == 0 && bench.journal.count("finish \(jws)") == 1)
    await next.signOut()
  }

  @Test func `a post that waits survives even where the App Store has forgotten the transaction`() async throws {
    bench.store.own(bench.sale())
    bench.service.fail("validations", .unreachable)
    #expect(await failure { try await bench.client().restore() } == .later(retryAfter: nil))
    let next = bench.client()
    #expect(await next.waitingCount == 1)
    #expect(try await next.retry().access?.tier == "pro")
    #expect(await next.waitingCount == 0)
  }

  // MARK: What the App Store says

  @Test func `an approved purchase arrives by itself`() async throws {
    let client = bench.client()
    await client.start()
    #expect(await eventually { bench.store.hasListeners })
    bench.store.next(.success(nil))
    #expect(await failure { try await client.purchase("pro.monthly") } == .pending)
    bench.store.deliver(bench.sale())
    #expect(await eventually { client.state.access?.tier == "pro" })
    #expect(bench.journal.all == ["post \(jws)", "finish \(jws)"])
    await client.signOut()
  }

  @Test func `a refund takes the access away as soon as it is told`() async throws {
    let client = bench.client()
    bench.store.next(.success(bench.sale()))
    try await client.purchase("pro.monthly")
    await client.start()
    #expect(await eventually { bench.store.hasListeners })
    bench.store.deliver(bench.sale("refund.monthly"))
    #expect(await eventually { client.state.access?.tier == "free" })
    #expect(!client.isAllowed("filters"))
    await client.signOut()
  }

  @Test func `a purchase of the family counts`() async throws {
    let client = bench.client()
    bench.store.own(bench.sale("family.monthly"))
    #expect(try await client.restore().state.access?.tier == "pro")
    #expect(try await client.profile().ownership == .familyShared)
  }

  @Test func `a transaction that comes in two ways at once is posted once`() async throws {
    bench.store.leaveUnfinished(bench.sale())
    bench.service.hold("validations")
    let client = bench.client()
    let start = Task { await client.start() }
    #expect(await eventually { bench.service.heldCount == 1 && bench.store.hasListeners })
    bench.store.deliver(bench.sale())
    for _ in 0..<1000 { await Task.yield() }
    bench.service.release()
    await start.value
    #expect(await eventually { bench.store.openCount == 0 })
    #expect(bench.journal.count("post \(jws)") == 1)
    await client.signOut()
  }

  // MARK: What the service says

  @Test func `a purchase that waits for Apple is finished after 202, and not polled for`() async throws {
    bench.service.script(writes: [.queued])
    bench.service.fail("validations", .provisional)
    bench.store.next(.success(bench.sale()))
    #expect(try await bench.client().purchase("pro.monthly").access?.tier == "pro")
    #expect(bench.store.openCount == 0 && bench.clock.slept.isEmpty)
  }

  @Test func `a refused purchase is neither finished nor posted again in this run`() async throws {
    let client = bench.client()
    bench.store.next(.success(bench.sale("garbage")))
    let refused = CountersignError.refused(code: "not_authentic", detail: "For developers.")
    #expect(await failure { try await client.purchase("garbage") } == refused)
    try await client.retry()
    #expect(bench.journal.all == ["post garbage.1.signed"])
    #expect(bench.store.openCount == 1)
    #expect(await client.waitingCount == 0)
  }

  @Test(arguments: [
    FakeService.Trouble.problem(408, "request_timeout", retryable: true),
    .problem(429, "rate_limited", retryable: true, retryAfter: "7"),
    .problem(500, "internal_error", retryable: true), .problem(503, "ledger_unavailable", retryable: true),
    .unreachable, .page(200), .page(302), .page(403), .page(404), .page(502),
  ])
  func `a refusal that is not the service's own keeps the purchase`(_ trouble: FakeService.Trouble) async throws {
    let client = bench.client()
    bench.store.next(.success(bench.sale()))
    bench.service.fail("validations", trouble)
    guard case .later(let retryAfter) = await failure({ try await client.purchase("pro.monthly") }) else {
      return #expect(Bool(false), "It is kept.")
    }
    if case .problem(429, _, _, _) = trouble { #expect(retryAfter == 7) }
    #expect(await client.waitingCount == 1)
    #expect(bench.store.openCount == 1)
    #expect(try await client.retry().access?.tier == "pro")
    #expect(bench.store.openCount == 0)
  }

  @Test func `a purchase that is not in the answer is not finished, and posted again`() async throws {
    let client = bench.client()
    bench.store.next(.success(bench.sale("absent")))
    #expect(await failure { try await client.purchase("absent") } == .later(retryAfter: nil))
    #expect(bench.store.openCount == 1 && bench.service.purchases.isEmpty)
    #expect(await client.waitingCount == 1)
    bench.store.leaveUnfinished(bench.sale("absent", id: 2))
    bench.store.leaveUnfinished(bench.sale(id: 3))
    // The second one is not found yet, and holds up no other.
    #expect(await failure { try await client.retry() } == .later(retryAfter: nil))
    #expect(bench.service.purchases.sorted() == ["absent.1.signed", "pro.monthly.3.signed"])
    #expect(bench.store.openCount == 1)
    #expect(try await client.retry().access?.tier == "pro")
    #expect(bench.store.openCount == 0)
    #expect(await client.waitingCount == 0)
  }

  @Test func `a post that is always answered with a 5xx holds up no other`() async throws {
    bench.store.leaveUnfinished(bench.sale("outage"))
    bench.store.leaveUnfinished(bench.sale(id: 2))
    let client = bench.client()
    await client.start()
    #expect(bench.service.purchases == ["pro.monthly.2.signed"])
    #expect(bench.store.openCount == 1)
    #expect(await client.waitingCount == 1)
    await client.signOut()
  }

  @Test func `a post that is always answered with a 5xx holds up no other in a restore`() async throws {
    let client = bench.client()
    bench.store.own(bench.sale("outage"))
    #expect(await failure { try await client.restore() } == .later(retryAfter: nil))
    bench.store.own(bench.sale(id: 2))
    let restored = try await client.restore()
    #expect(restored == .init(state: client.state, purchases: 1, refused: 0))
    #expect(restored.state.access?.tier == "pro")
    #expect(await client.waitingCount == 1)
  }

  @Test func `a no to the token is not one to a purchase that is recorded`() async throws {
    let client = bench.client()
    let refused = CountersignError.refused(code: "not_found", detail: "For developers.")
    bench.service.fail("token", .problem(404, "not_found", retryable: false), times: 2)
    bench.store.next(.success(bench.sale()))
    #expect(await failure { try await client.purchase("pro.monthly") } == .later(retryAfter: nil))
    #expect(bench.store.openCount == 0)
    #expect(bench.errors.withLock { $0 } == [refused])
    bench.store.own(bench.sale())
    #expect(await failure { try await client.restore() } == .later(retryAfter: nil))
  }

  @Test func `a token that ran out is asked for once more`() async throws {
    bench.bearer.withLock { $0 = ["expired", "bearer"] }
    bench.store.next(.success(bench.sale()))
    #expect(try await bench.client().purchase("pro.monthly").access?.tier == "pro")
    #expect(bench.service.purchases.count == 1)
  }

  @Test func `a 401 of somebody else's on the way signs nobody out`() async throws {
    bench.service.fail("validations", .page(401), times: 2)
    bench.store.next(.success(bench.sale()))
    let client = bench.client()
    #expect(await failure { try await client.purchase("pro.monthly") } == .later(retryAfter: nil))
    #expect(try await client.retry().access?.tier == "pro")
  }

  @Test func `a refused purchase that the user restores is posted until the service has it`() async throws {
    let client = bench.client()
    let sale = bench.signed("pro.monthly", by: "4E8A6E1C-6D3B-4B8C-9E0B-6E1F0C7B2A01")
    bench.store.own(sale)
    #expect(await failure { try await client.restore() }?.word == "refused owned_by_another_user")
    bench.service.move(sale.jws)
    bench.service.fail("validations", .unreachable)
    #expect(await failure { try await client.restore() } == .later(retryAfter: nil))
    #expect(await client.waitingCount == 1)
    #expect(try await client.retry().access?.tier == "pro")
    #expect(await client.waitingCount == 0)
  }

  @Test func `refused twice the user is signed out, and the purchase waits for them`() async throws {
    bench.bearer.withLock { $0 = ["expired"] }
    bench.store.next(.success(bench.sale()))
    #expect(await failure { try await bench.client().purchase("pro.monthly") } == .signedOut)
    #expect(bench.service.requests.count == 2)
    bench.bearer.withLock { $0 = ["bearer"] }
    #expect(try await bench.client().retry().access?.tier == "pro")
  }

  @Test func `the newest 200 posts are kept`() async throws {
    for id in 1...230 as ClosedRange<UInt64> { bench.store.own(bench.sale(id: id)) }
    bench.service.fail("validations", .unreachable)
    let client = bench.client()
    _ = await failure { try await client.restore() }
    #expect(await client.waitingCount == 200)
    #expect(bench.storage.text("posts")?.contains("pro.monthly.230.signed") == true)
    #expect(bench.storage.text("posts")?.contains("pro.monthly.30.signed") == false)
  }

  @Test func `another user's waiting posts are not posted`() async throws {
    bench.service.bearers = ["bearer": Bench.user, "other": "user-2"]
    bench.store.own(bench.sale())
    bench.service.fail("validations", .unreachable)
    _ = await failure { try await bench.client().restore() }
    bench.bearer.withLock { $0 = ["other"] }
    let other = bench.client(user: "user-2")
    try await other.retry()
    #expect(bench.service.purchases.isEmpty)
    #expect(bench.store.appAccountTokens.isEmpty)
  }

  @Test func `a storage that fails stops no purchase`() async throws {
    bench.storage.isBroken = true
    bench.store.next(.success(bench.sale()))
    #expect(try await bench.client().purchase("pro.monthly").access?.tier == "pro")
    #expect(bench.errors.withLock { $0 }.contains(.storage))
  }

  @Test func `a storage that could not be read once is not written over`() async throws {
    bench.store.own(bench.sale())
    bench.service.fail("validations", .unreachable, times: 2)
    _ = await failure { try await bench.client().restore() }
    // The app was launched in the background, before the first unlock of the device.
    bench.storage.isBroken = true
    let client = bench.client()
    bench.storage.isBroken = false
    bench.store.next(.success(bench.sale(id: 2)))
    #expect(await failure { try await client.purchase("pro.monthly") } == .later(retryAfter: nil))
    #expect(bench.storage.text("posts")?.contains("pro.monthly.1.signed") == true)
    #expect(bench.storage.text("posts")?.contains("pro.monthly.2.signed") == true)
    #expect(await client.waitingCount == 2)
    try await client.retry()
    #expect(bench.service.purchases.sorted() == ["pro.monthly.1.signed", "pro.monthly.2.signed"])
    #expect(bench.storage.text("posts") == nil)
  }

  @Test func `a purchase that was answered while the storage could not be read waits no longer`() async throws {
    bench.store.own(bench.sale())
    bench.service.fail("validations", .unreachable)
    _ = await failure { try await bench.client().restore() }
    bench.storage.isBroken = true
    let client = bench.client()
    try await client.restore()
    bench.storage.isBroken = false
    #expect(await client.waitingCount == 0)
    #expect(bench.storage.text("posts") == nil)
  }

  @Test func `a user without a UUID has no appAccountToken`() async throws {
    bench.service.bearers = ["bearer": "user-2"]
    bench.store.next(.success(bench.sale()))
    try await bench.client(user: "user-2").purchase("pro.monthly")
    #expect(bench.store.appAccountTokens == [nil])
  }

  @Test func `a state that was asked for before the purchase does not stand for the one after it`() async throws {
    let client = bench.client()
    bench.service.hold("token")
    let early = Task { try await client.refresh() }
    #expect(await eventually { bench.service.heldCount == 1 })
    bench.store.next(.success(bench.sale()))
    let purchase = Task { try await client.purchase("pro.monthly") }
    #expect(await eventually { bench.store.openCount == 0 && bench.journal.all.count == 2 })
    for _ in 0..<1000 { await Task.yield() }
    bench.service.release()
    #expect(try await early.value.access?.tier == "free")
    #expect(try await purchase.value.access?.tier == "pro")
  }
}
