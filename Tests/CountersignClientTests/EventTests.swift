import CountersignAPI
import Foundation
import Testing

@testable import CountersignClient

/// The app's own events.
@Suite struct EventTests {
  private let bench = Bench()

  @Test func `an event is delivered within seconds, with its time and properties, once`() async {
    let client = bench.client()
    await client.start()
    let at = bench.clock.now
    await client.track(.paywallViewed, ["source": "settings", "seconds": 3, "first": true, "share": 0.5])
    #expect(bench.service.requests("POST /v1/events").isEmpty)
    #expect(await eventually { bench.clock.isSleeping(until: at + 10) })
    bench.clock.advance(by: 10)
    #expect(await eventually { bench.service.events.count == 1 })
    let event = bench.service.events.first
    #expect(event?.type == .paywallViewed && event?.at == at)
    #expect(event?.properties == ["source": "settings", "seconds": 3, "first": true, "share": 0.5])
    #expect(await client.diagnose().waitingEvents == 0)
    await client.signOut()
  }

  @Test func `the fourteen names of a paywall are the service's words`() {
    let names: [EventName] = [
      .paywallViewed, .paywallDismissed, .planSelected, .purchaseInitiated, .purchaseCompleted, .purchaseFailed,
      .purchaseCancelled, .trialStarted, .restoreInitiated, .restoreCompleted, .upgradePromptShown,
      .upgradePromptAccepted, .upgradePromptDismissed, .limitReached,
    ]
    #expect(
      names.map(\.rawValue) == [
        "paywall_viewed", "paywall_dismissed", "plan_selected", "purchase_initiated", "purchase_completed",
        "purchase_failed", "purchase_cancelled", "trial_started", "restore_initiated", "restore_completed",
        "upgrade_prompt_shown", "upgrade_prompt_accepted", "upgrade_prompt_dismissed", "limit_reached",
      ])
    #expect(names.allSatisfy { $0.isValid })
  }

  @Test func `killed after an event: the next start delivers it`() async throws {
    await bench.client().track("opened")
    let next = bench.client()
    #expect(await next.diagnose().waitingEvents == 1)
    await next.start()
    #expect(bench.service.events.map(\.type) == ["opened"])
    await next.signOut()
  }

  @Test func `killed between delivery and answer: it counts once`() async throws {
    let client = bench.client()
    await client.track("opened")
    bench.service.fail("events", .answerLost)
    #expect(await failure { try await client.flush() } == .later(retryAfter: nil))
    try await bench.client().flush()
    #expect(bench.service.requests("POST /v1/events").count == 2 && bench.service.events.count == 1)
  }

  @Test func `events go in batches of fifty, in their order`() async throws {
    let client = bench.client()
    for number in 0..<120 { await client.track("tapped", ["number": .integer(number)]) }
    try await client.flush()
    #expect(bench.service.requests("POST /v1/events").count == 3)
    #expect(bench.service.events.map { $0.properties["number"] } == (0..<120).map { .integer($0) })
    #expect(bench.storage.name("events") == nil)
  }

  @Test func `the oldest of more than a thousand are dropped, and counted also after a restart`() async {
    var queue = EventQueue()
    let at = Date(timeIntervalSince1970: 1_768_478_400.123_456_789)
    for number in 0..<1003 {
      queue.add(AppEvent(type: "tapped", id: "\(number)", at: at, properties: [:]), size: 2)
    }
    #expect(queue.events.count == 1000 && queue.events.first?.id == "3" && queue.dropped == 3)
    for number in 0..<100 { queue.add(AppEvent(type: "large", id: "l\(number)", at: at, properties: [:]), size: 8192) }
    #expect(queue.events.count == 62 && queue.dropped == 1041)
    let bench = Bench()
    let client = bench.client()
    await client.track("no.dots", [:])
    await client.track("large", ["text": .text(String(repeating: "x", count: 9000))])
    #expect(await client.diagnose().droppedEvents == 2)
    #expect(bench.errors.withLock { $0.count } == 2)
    #expect(await bench.client().diagnose().droppedEvents == 2)
  }

  @Test func `an event that the service refuses holds up no other`() async throws {
    let client = bench.client()
    for name in ["one", "refused_event", "two"] as [EventName] { await client.track(name) }
    try await client.flush()
    #expect(bench.service.events.map(\.type) == ["one", "two"])
    #expect(await client.diagnose().droppedEvents == 1)
    // A refusal that is not about them keeps them.
    await client.track("three")
    bench.service.fail("events", .problem(403, "forbidden", retryable: false))
    _ = await failure { try await client.flush() }
    #expect(await client.diagnose().waitingEvents == 1)
  }

  @Test func `while the service is away events wait, longer each time, and are another user's never`() async {
    bench.service.fail("events", .unreachable, times: 2)
    let client = bench.client()
    await client.track("opened")
    await client.start()
    #expect(await eventually { bench.clock.slept.contains { (15...25).contains($0) } })
    bench.clock.advance(by: 26)
    #expect(await eventually { bench.clock.slept.contains { (30...50).contains($0) } })
    await client.signOut()
    let other = bench.client(user: "other")
    #expect(await other.diagnose().waitingEvents == 0)
    let again = bench.client()
    #expect(await again.diagnose().waitingEvents == 1)
  }

  @Test func `the time of an event is the service's, where the device's clock is wrong, and very old ones are dropped`()
    async throws
  {
    bench.service.set(lead: 7200)
    let client = bench.client()
    await client.track("opened")
    let at = bench.clock.now
    try await client.refresh()
    try await client.flush()
    #expect(bench.service.events.first?.at == at - 7200)
    await client.track("opened")
    bench.clock.jump(by: 90 * 86_400)
    try await client.flush()
    #expect(bench.service.events.count == 1)
    #expect(await client.diagnose().droppedEvents == 1)
  }

  @Test func `a storage that cannot be read yet loses no event`() async throws {
    await bench.client().track("first")
    bench.storage.isBroken = true
    let client = bench.client()
    await client.track("second")
    bench.storage.isBroken = false
    try await client.flush()
    #expect(bench.service.events.map(\.type) == ["first", "second"])
  }
}

/// The means to find a fault, and those that a designer works with.
@Suite struct DiagnosisTests {
  @Test func `a diagnosis has versions, answers, queues, clock and keys, and no secret`() async throws {
    let bench = Bench()
    bench.service.set(lead: -90)
    bench.bearer.withLock { $0 = ["secret-bearer"] }
    bench.service.bearers = ["secret-bearer": Bench.user]
    let client = bench.client()
    try await client.refresh()
    _ = try await client.profile()
    bench.store.next(.success(bench.sale("outage")))
    _ = await failure { try await client.purchase("outage") }
    await client.track("opened")
    let diagnosis = await client.diagnose()
    #expect(diagnosis.client == "swift/\(CountersignClient.version)" && diagnosis.state == "known")
    #expect(diagnosis.waitingPurchases == 1 && diagnosis.waitingEvents == 1 && diagnosis.clockDifference == 90)
    #expect(diagnosis.keyIDs == ["key-1"] && diagnosis.arePinned && diagnosis.user == Bench.user)
    #expect(
      diagnosis.answers.map { "\($0.request) \($0.status ?? 0) \($0.code ?? "-") \($0.requestID ?? "-")" } == [
        "GET /v1/profiles/me/token 200 - -", "GET /v1/profiles/me 200 - request-7", "GET /v1/plans 200 - request-7",
        "POST /v1/validations 503 app_store_unavailable request",
      ])
    let said = "\(diagnosis) \(bench.log.withLock { $0 })"
    for secret in ["secret-bearer", "outage.1.signed", "eyJ"] { #expect(!said.contains(secret)) }
    let log = bench.log.withLock { $0 }
    #expect(log.contains { $0.message == "request answered" && $0.metadata["status"] == "503" })
  }

  @Test func `only the last ten answers are told`() async throws {
    let bench = Bench()
    let client = bench.client()
    for _ in 0..<12 { try await client.refresh() }
    #expect(await client.diagnose().answers.count == 10)
  }

  @Test(arguments: CountersignClient.Preview.allCases)
  func `a preview has its state at once, and sells, without a service`(_ preview: CountersignClient.Preview)
    async throws
  {
    let client = CountersignClient.preview(preview, features: ["filters": .init(isAllowed: true)])
    #expect((client.state.access == nil) == (preview == .unknown))
    guard preview != .unknown else { return }
    let profile = try await client.profile()
    let isPaid = ![.free, .expired].contains(preview)
    #expect(client.state.access?.tier == (isPaid ? "pro" : "free") && profile.tier == client.state.access?.tier)
    #expect(client.isAllowed("filters"))
    switch preview {
    case .pro, .trial: #expect(profile.nextBillingAt != nil && profile.notice == nil && profile.tierName == "Pro")
    case .appTrial: #expect(profile.suggestion == .subscribe && profile.endsAt != nil)
    case .grace: #expect(profile.suggestion == .updatePayment)
    case .ending: #expect(profile.notice != nil && profile.suggestion == .resubscribe)
    case .expired: #expect(profile.suggestion == .resubscribe)
    case .free: #expect(profile.suggestion == .subscribe)
    case .unknown: break
    }
    let package = try #require(try await client.offerings().current?.packages.first)
    #expect(package.product?.displayPrice == "$4.99")
    #expect(try await client.purchase(package.productID).access?.tier == "pro")
    #expect(try await client.consume("questions").isAllowed)
    await client.start()
    await client.signOut()
  }

  @Test func `a preview's trial begins, counts its sessions and ends`() async throws {
    let client = CountersignClient.preview(.free)
    #expect(try await client.trial() == nil)
    #expect(try await client.startTrial().sessionsRemaining == 5)
    #expect(client.state.access?.tier == "pro")
    for left in (0..<5).reversed() { #expect(try await client.useTrialSession().sessionsRemaining == left) }
    #expect(client.state.access?.tier == "free")
    #expect(try await client.trial()?.state == .usedUp)
    await #expect(throws: CountersignError.refused(code: "trial_over", detail: "A preview has none of this.")) {
      try await client.useTrialSession()
    }
  }
}
