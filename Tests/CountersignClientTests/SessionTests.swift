import CountersignAPI
import Testing

@testable import CountersignClient

/// A session that ends, or that becomes another user's: a purchase goes out under its own user's bearer token or not at all.
@Suite struct SessionTests {
  private let bench = Bench()

  private static let other = bearerToken(#"{"sub":"user-2"}"#)

  @Test(arguments: [Self.other, "opaque"])
  func `a sign-out ends what is being posted`(_ other: String) async throws {
    bench.service.bearers = ["bearer": Bench.user, other: "user-2"]
    for id in 1...3 as ClosedRange<UInt64> { bench.store.leaveUnfinished(bench.sale(id: id)) }
    bench.service.hold("validations")
    let client = bench.client()
    let start = Task { await client.start() }
    #expect(await eventually { bench.service.heldCount == 1 })
    await client.signOut()
    bench.bearer.withLock { $0 = [other] }
    bench.service.release()
    await start.value
    #expect(bench.service.requests.map { $0.headers["Authorization"] } == ["Bearer bearer"])
    #expect(bench.store.openCount == 2)
  }

  @Test func `a sign-out while the app is asked for its token sends nothing`() async throws {
    let asked = Locked<[CheckedContinuation<Void, Never>]>([])
    let client = bench.client(token: {
      await withCheckedContinuation { continuation in asked.withLock { $0.append(continuation) } }
      return "bearer"
    })
    let refresh = Task { try await client.refresh() }
    #expect(await eventually { asked.withLock { !$0.isEmpty } })
    await client.signOut()
    for continuation in asked.withLock({ $0 }) { continuation.resume() }
    #expect(await failure { try await refresh.value } == .signedOut)
    #expect(bench.service.requests.isEmpty)
  }

  @Test func `a retry under another user's session posts nothing`() async throws {
    bench.service.bearers = ["bearer": Bench.user, Self.other: "user-2"]
    bench.service.fail("validations", .unreachable)
    bench.store.next(.success(bench.sale()))
    let client = bench.client()
    #expect(await failure { try await client.purchase("pro.monthly") } == .later(retryAfter: nil))
    bench.bearer.withLock { $0 = [Self.other] }
    #expect(await failure { try await client.retry() } == .signedOut)
    #expect(bench.service.requests.count == 1)
    #expect(await client.waitingCount == 1)
    #expect(bench.store.openCount == 1)
  }

  @Test func `a fresh token that is another user's is not sent after a 401`() async throws {
    bench.service.bearers = [Self.other: "user-2"]
    bench.bearer.withLock { $0 = ["expired", Self.other] }
    bench.store.next(.success(bench.sale()))
    #expect(await failure { try await bench.client().purchase("pro.monthly") } == .signedOut)
    #expect(bench.service.purchases.isEmpty && bench.store.openCount == 1)
  }

  @Test(arguments: [
    bearerToken(#"{"sub":"\#(Bench.user.lowercased())"}"#), bearerToken(#"{"role":"any"}"#), "a.b.c", "opaque",
  ])
  func `the user's own token is sent, and so is one that names nobody`(_ bearer: String) async throws {
    bench.service.bearers = [bearer: Bench.user]
    bench.bearer.withLock { $0 = [bearer] }
    bench.store.next(.success(bench.sale()))
    #expect(try await bench.client().purchase("pro.monthly").access?.tier == "pro")
  }

  @Test func `waiting purchases are posted after the next refresh that the service answers`() async throws {
    let client = bench.client()
    await client.start()
    bench.bearer.withLock { $0 = ["expired", "expired", "bearer"] }
    bench.store.next(.success(bench.sale()))
    #expect(await failure { try await client.purchase("pro.monthly") } == .signedOut)
    try await client.refresh()
    #expect(await eventually { (bench.clock.nextWait ?? 3600) < 10 })
    bench.clock.advance(by: 10)
    #expect(await eventually { bench.store.openCount == 0 })
    #expect(await eventually { client.state.access?.tier == "pro" })
    await client.signOut()
  }

  @Test func `a token that never comes holds up only the call that asked for it`() async throws {
    let asked = Locked<[CheckedContinuation<Void, Never>]>([])
    let client = bench.client(
      token: {
        if asked.withLock({ $0.isEmpty }) {
          await withCheckedContinuation { continuation in asked.withLock { $0.append(continuation) } }
        }
        return "bearer"
      }, tokenDeadline: 0.1)
    #expect(await failure { try await client.refresh() } == .later(retryAfter: nil))
    #expect(try await client.refresh().access?.tier == "free")
    for continuation in asked.withLock({ $0 }) { continuation.resume() }
  }
}
