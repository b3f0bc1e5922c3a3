import CountersignAPI
import Foundation
import Testing

@testable import CountersignClient

/// The requirements of apps with subscriptions of their own, as tests.
@Suite struct RequirementTests {
  private let bench = Bench()

  // MARK: A subscription app (paywall, status, management, persistence)

  @Test func `R7 a purchase is validated and unlocks at once`() async throws {
    let client = bench.client()
    bench.store.next(.success(bench.sale()))
    let state = try await client.purchase("pro.monthly")
    #expect(state.access?.tier == "pro")
    #expect(client.isAllowed("filters"))
    #expect(bench.store.appAccountTokens == [UUID(uuidString: Bench.user)])
    #expect(bench.journal.all == ["post pro.monthly.1.signed", "finish pro.monthly.1.signed"])
  }

  @Test func `R7 purchase errors have sentences for people`() async throws {
    let client = bench.client()
    bench.store.next(.failure(.cancelled))
    bench.store.next(.success(nil))
    bench.store.next(.success(bench.sale("stranger")))
    for expected in [CountersignError.cancelled, .pending] {
      #expect(await failure { try await client.purchase("pro.monthly") } == expected)
    }
    let refused = await failure { try await client.purchase("pro.monthly") }
    #expect(refused == .refused(code: "owned_by_another_user", detail: "For developers."))
    #expect(refused?.localizedDescription.contains("another account") == true)
    #expect(bench.service.requests.filter { $0.line != "POST /v1/validations" }.isEmpty)
  }

  @Test func `a tap on Buy without a network does not speak of a purchase that is kept`() async throws {
    bench.store.next(.failure(.refused(code: "store_unreachable", detail: "Offline.")))
    let error = await failure { try await bench.client().purchase("pro.monthly") }
    #expect(error?.localizedDescription == "The App Store cannot be reached. Please try again later.")
  }

  @Test func `R8 a queued row is polled every 2 seconds with its entity tag until it is written`() async throws {
    let bench = Bench(isAutomatic: true)
    bench.service.script(writes: [.queued, .queued, .queued, .committed])
    bench.store.next(.success(bench.sale()))
    let state = try await bench.client().purchase("pro.monthly")
    #expect(state.access?.tier == "pro")
    #expect(bench.clock.slept == [2, 2, 2])
    let polls = bench.service.requests("GET /v1/profiles/me")
    #expect(polls.map { $0.headers["If-None-Match"] != nil } == [false, true, true])
    #expect(bench.service.requests.last?.line == "GET /v1/profiles/me/token")
  }

  @Test func `R8 polling ends after 10 seconds`() async throws {
    let bench = Bench(isAutomatic: true)
    bench.service.script(writes: [.queued])
    bench.store.next(.success(bench.sale()))
    #expect(try await bench.client().purchase("pro.monthly").access?.tier == "pro")
    #expect(bench.clock.slept == [2, 2, 2, 2, 2])
  }

  @Test func `R9 tier, status and dates are there, with a grace period to warn of`() async throws {
    let client = bench.client()
    bench.store.next(.success(bench.sale("grace.monthly")))
    let access = try await client.purchase("grace.monthly").access
    #expect(access?.status == .gracePeriod)
    #expect(access?.accessUntil == bench.clock.now + FakeService.monthly)
    #expect(try await client.profile().willRenew == true)
    bench.service.set(tier: "free", status: "expired", for: nil)
    #expect(try await client.refresh().access?.status == .expired)
  }

  @Test func `R10 a reinstalled app restores on sign-in`() async throws {
    bench.store.own(bench.sale())
    let client = bench.client()
    #expect(client.state == .unknown)
    let restored = try await client.restore(syncs: false)
    #expect(restored == .init(state: client.state, purchases: 1, refused: 0))
    #expect(bench.store.syncs == 0)
    #expect(client.state.access?.tier == "pro")
  }

  @Test func `R10 the state is synchronised at each launch`() async throws {
    await bench.client().start()
    bench.service.set(tier: "pro")
    let next = bench.client()
    #expect(next.state.access?.tier == "free")
    await next.start()
    #expect(next.state.access?.tier == "pro")
  }

  // MARK: The flows of an app built on a hosted service

  @Test func `launch shows the cached state without a request, then refreshes once`() async throws {
    bench.service.set(tier: "pro")
    try await bench.client().refresh()
    let count = bench.service.requests.count
    let next = bench.client()
    #expect(next.isAllowed("filters"))
    #expect(bench.service.requests.count == count)
    await next.start()
    #expect(bench.service.requests.dropFirst(count).map(\.line) == ["GET /v1/profiles/me/token"])
  }

  @Test func `an entitlement check makes no request and takes next to no time`() async throws {
    bench.service.set(tier: "pro")
    let client = bench.client()
    try await client.refresh()
    let count = bench.service.requests.count
    for _ in 0..<10_000 { #expect(client.isAllowed("filters")) }
    #expect(!client.isAllowed("no such feature"))
    #expect(bench.service.requests.count == count)
  }

  @Test func `restore syncs, posts each entitlement and tells its progress`() async throws {
    for id in 1...3 as ClosedRange<UInt64> { bench.store.own(bench.sale(id: id)) }
    let progress = Locked<[[Int]]>([])
    let restored = try await bench.client().restore { done, total in progress.withLock { $0.append([done, total]) } }
    #expect(restored.purchases == 3)
    #expect(bench.store.syncs == 1)
    #expect(progress.withLock { $0 } == [[0, 3], [1, 3], [2, 3], [3, 3]])
    #expect(bench.service.requests("GET /v1/profiles/me/token").count == 1)
  }

  @MainActor @Test func `progress can be shown on the main actor`() async throws {
    bench.store.own(bench.sale())
    let bar = Bar()
    try await bench.client().restore { done, total in
      Task { @MainActor in bar.progress = Double(done) / Double(total) }
    }
    #expect(await eventually { bar.progress == 1 })
  }

  @MainActor private final class Bar { var progress = 0.0 }

  @Test func `a restore that breaks off keeps what is left`() async throws {
    for id in 1...3 as ClosedRange<UInt64> { bench.store.own(bench.sale(id: id)) }
    bench.service.fail("validations", .unreachable)
    let client = bench.client()
    #expect(await failure { try await client.restore() } == .later(retryAfter: nil))
    #expect(await client.waitingCount == 3)
    #expect(try await bench.client().retry().access?.tier == "pro")
    #expect(bench.service.purchases.count == 3)
  }

  @Test func `a restore waits for a queued row, too`() async throws {
    let bench = Bench(isAutomatic: true)
    bench.store.own(bench.sale())
    bench.service.script(writes: [.queued, .committed])
    try await bench.client().restore()
    #expect(bench.clock.slept == [2])
  }

  @Test func `a change on another device is seen at the next refresh and published`() async throws {
    let client = bench.client()
    var states = client.access.makeAsyncIterator()
    #expect(await states.next() == .unknown)
    try await client.refresh()
    #expect(await states.next()?.access?.tier == "free")
    bench.service.set(tier: "pro")
    try await client.refresh()
    #expect(await states.next()?.access?.tier == "pro")
  }

  @Test func `access lasts seven days offline and then is unknown, not free`() async throws {
    bench.service.set(tier: "pro")
    try await bench.client().refresh()
    bench.service.fail("token", .unreachable, times: 5)
    bench.clock.advance(by: 3599)
    guard case .known = bench.client().state else { return #expect(Bool(false), "It is known for an hour.") }
    bench.clock.advance(by: 6 * 86_400)
    let offline = bench.client()
    guard case .old(let access) = offline.state else { return #expect(Bool(false), "It is old for seven days.") }
    #expect(access.tier == "pro" && offline.isAllowed("filters"))
    #expect(await failure { try await offline.refresh() } == .later(retryAfter: nil))
    bench.clock.advance(by: 86_401)
    #expect(offline.state == .unknown)
    #expect(!offline.isAllowed("filters") && offline.isAllowed("filters", ifUnknown: true))
  }

  // MARK: An app with usage limits

  @Test func `R4 nothing to restore is told`() async throws {
    let restored = try await bench.client().restore()
    #expect(restored.purchases == 0 && restored.state.access?.tier == "free")
  }

  @Test func `R4 a restore of another account's purchases is an error, and of some is not`() async throws {
    let client = bench.client()
    bench.store.own(bench.sale("stranger"))
    let refused = CountersignError.refused(code: "owned_by_another_user", detail: "For developers.")
    #expect(await failure { try await client.restore() } == refused)
    bench.store.own(bench.sale(id: 2))
    let restored = try await client.restore()
    #expect(restored.purchases == 1 && restored.refused == 1)
    bench.store.failSync(.cancelled)
    #expect(await failure { try await client.restore() } == .cancelled)
  }

  @Test func `R5 a cancelled subscription keeps its access to the end of the period`() async throws {
    bench.service.set(tier: "pro", status: "cancelled", for: 2 * 86_400)
    let client = bench.client()
    let access = try await client.refresh().access
    #expect(access?.status == .cancelled && access?.accessUntil == bench.clock.now + 2 * 86_400)
    #expect(client.isAllowed("filters"))
    // Never past the end, not even offline.
    bench.clock.advance(by: 2 * 86_400)
    #expect(client.state == .unknown)
  }

  @Test func `R7 a poor network keeps the last known state`() async throws {
    bench.service.set(tier: "pro")
    let client = bench.client()
    try await client.refresh()
    for trouble in [FakeService.Trouble.unreachable, .page(200), .page(403), .page(302), .page(502)] {
      bench.service.fail("token", trouble)
      #expect(await failure { try await client.refresh() } == .later(retryAfter: nil))
      #expect(client.state.access?.tier == "pro")
    }
  }
}
