import HTTPTransport
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// So many validations at once; the others wait in line.
@Suite(.timeLimit(.minutes(10))) struct AdmissionQueueTests {
  /// Requests that are at work until they are let go, one by one or all.
  private final class Work: Sendable {
    private struct State {
      var begun: [Int] = []
      var held: [Int: CheckedContinuation<Void, Never>] = [:]
    }
    private let state = Mutex(State())
    var begun: [Int] { state.withLock { $0.begun } }

    @Sendable func run(_ number: Int) async {
      await withCheckedContinuation { continuation in
        state.withLock { state in
          state.begun.append(number)
          state.held[number] = continuation
        }
      }
    }

    func end(_ number: Int) { state.withLock { $0.held.removeValue(forKey: number) }?.resume() }
  }

  private let clock = SleepingClock()
  private let work = Work()

  private func line(slots: Int, patience: Duration = .seconds(3)) -> AdmissionQueue {
    AdmissionQueue(slots: slots, patience: patience, requestDeadline: .seconds(15), now: { [clock] in clock.now })
  }

  /// Posts a request and waits until it is begun or in line.
  private func post(
    _ number: Int, _ line: AdmissionQueue, since head: ContinuousClock.Instant? = nil, waiting: Int
  ) async -> Task<Bool, any Error> {
    let before = work.begun.count
    let task = Task { [work, head = head ?? clock.now] in
      do {
        try await line.run(since: head) { _ in await work.run(number) }
        return true
      } catch is AdmissionQueue.Refusal {
        return false
      }
    }
    while line.waiting < max(1, waiting), work.begun.count == before, !Task.isCancelled { await Task.yield() }
    return task
  }

  @Test func `as many requests as slots are worked on at once, the others in order of arrival`() async throws {
    let line = line(slots: 2)
    var tasks: [Task<Bool, any Error>] = []
    for number in 0..<5 { tasks.append(await post(number, line, waiting: max(0, number - 1))) }
    #expect(work.begun == [0, 1])
    #expect(line.waiting == 3)
    for number in [1, 0, 2, 3, 4] {
      let begun = work.begun.count
      work.end(number)
      while work.begun.count < min(5, begun + 1) { await Task.yield() }
    }
    #expect(work.begun == [0, 1, 2, 3, 4])
    for task in tasks { #expect(try await task.value) }
    #expect(line.waiting == 0)
  }

  @Test func `a request whose turn comes too late is refused, and the next one has the turn`() async throws {
    let line = line(slots: 1, patience: .seconds(3))
    let held = await post(0, line, waiting: 0)
    let late = await post(1, line, waiting: 1)
    clock.pass(.seconds(2))
    let patient = await post(2, line, waiting: 2)
    clock.pass(.milliseconds(1001))
    work.end(0)
    #expect(try await !late.value)
    while work.begun.count < 2 { await Task.yield() }
    #expect(work.begun == [0, 2])
    work.end(2)
    #expect(try await held.value)
    #expect(try await patient.value)
    // The slot is free again.
    let next = await post(3, line, waiting: 1)
    work.end(3)
    #expect(try await next.value)
  }

  @Test func `a request that would have to wait too long is refused at once`() async throws {
    let line = line(slots: 1, patience: .seconds(3))
    // One that took two seconds: from now on the line takes that as usual.
    let first = await post(0, line, waiting: 0)
    clock.pass(.seconds(2))
    work.end(0)
    #expect(try await first.value)
    let held = await post(1, line, waiting: 0)
    let second = await post(2, line, waiting: 1)
    await #expect(throws: AdmissionQueue.Refusal.self) {
      try await line.run(since: clock.now) { _ in await work.run(3) }
    }
    #expect(line.waiting == 1)
    work.end(1)
    while work.begun.count < 3 { await Task.yield() }
    work.end(2)
    #expect(try await held.value)
    #expect(try await second.value)
    #expect(work.begun == [0, 1, 2])
  }

  /// Its connection is closed by then: to begin would be in vain, and keep others waiting.
  @Test func `a request that took long to arrive waits no longer than a request may take`() async throws {
    let line = line(slots: 1, patience: .seconds(3))
    let held = await post(0, line, waiting: 0)
    let slow = await post(1, line, since: clock.now - .seconds(13), waiting: 1)
    let quick = await post(2, line, waiting: 2)
    clock.pass(.milliseconds(2001))
    work.end(0)
    #expect(try await !slow.value)
    while work.begun.count < 2 { await Task.yield() }
    work.end(2)
    #expect(try await held.value)
    #expect(try await quick.value)
    #expect(work.begun == [0, 2])
    // Where nobody waits, there is time for whoever is still there.
    let late = await post(3, line, since: clock.now - .seconds(14), waiting: 1)
    work.end(3)
    #expect(try await late.value)
    #expect(work.begun == [0, 2, 3])
  }

  @Test func `a cancelled request leaves the line`() async throws {
    let line = line(slots: 1)
    let held = await post(0, line, waiting: 0)
    let gone = await post(1, line, waiting: 1)
    let next = await post(2, line, waiting: 2)
    gone.cancel()
    #expect(try await !gone.value)
    #expect(line.waiting == 1)
    work.end(0)
    while work.begun.count < 2 { await Task.yield() }
    work.end(2)
    #expect(try await held.value)
    #expect(try await next.value)
    #expect(work.begun == [0, 2])
  }

  @Test func `a place that was left early is another's, and is not given twice`() async throws {
    let line = line(slots: 1)
    try await line.run(since: clock.now) { (place) async throws -> Void in
      place.leave()
      place.leave()
      let second = await post(0, line, waiting: 0)
      #expect(work.begun == [0])
      let third = await post(1, line, waiting: 1)
      #expect(work.begun == [0])
      work.end(0)
      while work.begun.count < 2 { await Task.yield() }
      work.end(1)
      #expect(try await second.value)
      #expect(try await third.value)
    }
    let free = try await line.run(since: clock.now) { _ in true }
    #expect(free)
  }

  @Test func `work that fails gives its place back`() async throws {
    struct Broken: Error {}
    let line = line(slots: 1)
    for _ in 0..<3 {
      await #expect(throws: Broken.self) { try await line.run(since: clock.now) { _ in throw Broken() } }
    }
    let free = try await line.run(since: clock.now) { _ in true }
    #expect(free)
  }

  @Test func `a thousand at once: never more than there are slots, and each is answered`() async throws {
    let line = line(slots: 8, patience: .seconds(3))
    let calls = ConcurrencyCounter()
    try await withThrowingDiscardingTaskGroup { group in
      for _ in 0..<1000 {
        group.addTask {
          try await line.run(since: clock.now) { _ in
            calls.begin()
            await Task.yield()
            calls.end()
          }
        }
      }
    }
    #expect(calls.peak <= 8)
    #expect(calls.total == 1000)
    #expect(line.waiting == 0)
  }

  @Test func `the queue's places and patience follow the configuration`() throws {
    let configuration = try SampleConfiguration()
      .setting("app_store.concurrency", "3").setting("app_store.deadline", "4s")
      .setting("server.request_deadline", "9s").load()
    let line = AdmissionQueue(configuration)
    #expect(line.slots == 67)
    #expect(line.patience == .seconds(5) - (configuration.profileStore?.deadline ?? .zero))
    #expect(line.requestDeadline == .seconds(9))
  }

  /// As users see it: Apple holds its answers back, every place is taken, more have arrived.
  @Test func `reads do not stand in the line of validations`() async throws {
    let authority = try TestCertificateAuthority()
    let apple = Event()
    let clock = noon
    let receipt = try ReceiptIssuer(pki: try DevelopmentPKI()).issue(
      ReceiptOrder(scenario: .renewing), at: Timestamp(clock)
    ).receiptData
    let answer = TestAnswer(
      text: ReplayedAppleTests.answer(
        inApp: [], latest: [ReplayedAppleTests.row("pro.monthly", id: "77", expires: 86_400)]))
    try await RawTLSServer.answering(
      identity: try authority.serverIdentity(),
      answer: { _ in
        await apple.wait()
        return answer
      }
    ) { server in
      try await RunningService.run(
        apple: Apple(
          productionURL: server.origin + "/verifyReceipt", sandboxURL: server.origin + "/sandbox",
          caFile: authority.caFile),
        settings: Settings(appStore: ["concurrency": "1", "deadline": "50s"]),
        jobPause: .seconds(3600), now: { clock }
      ) { service in
        try await withThrowingTaskGroup(of: Int.self) { group in
          for _ in 0..<70 {
            group.addTask {
              try await service.post(["user_id": "anna", "receipt_data": receipt]).status
            }
          }
          while try await service.waitingValidations() < 5 { await Task.yield() }
          #expect(try await service.profile("anna").status == 200)
          #expect(try await service.waitingValidations() == 5)
          apple.fire()
          for try await status in group { #expect(status == 200) }
        }
        #expect(try await service.waitingValidations() == 0)
      }
    }
    withExtendedLifetime(authority) {}
  }

  /// Whoever announces a body and holds it back would otherwise keep all others out, without any work done for them.
  @Test func `bodies that are held back keep no place`() async throws {
    let settings = Settings(appStore: ["concurrency": "1"])
    try await RunningService.run(apple: .unreachable, settings: settings, bodyPatience: .minutes(10)) { service in
      let head = [
        "POST /v1/validations HTTP/1.1", "Host: a", "Authorization: Bearer \(RunningService.serviceKey)",
        "Content-Type: application/json", "Content-Length: 10000",
      ].joined(separator: "\r\n")
      let ended = Event()
      try await withThrowingDiscardingTaskGroup { group in
        // More than have a place.
        for _ in 0..<70 {
          let holder = try await RawClient.connect(port: service.port)
          group.addTask {
            try await holder.executeThenClose { inbound, outbound in
              try await outbound.write(ByteBuffer(string: head + "\r\n\r\n"))
              await ended.wait()
              _ = inbound
            }
          }
        }
        defer { ended.fire() }
        while try await service.gauge("countersign_http_requests_in_flight") < 70 { await Task.yield() }
        let answer = try await service.post(["user_id": "u", "receipt_data": "a"])
        #expect(answer.status == 400)
        #expect(answer["code"] == "undecodable_receipt")
      }
    }
  }
}

extension RunningService {
  /// As operators see it.
  fileprivate func waitingValidations() async throws -> Int { try await gauge("countersign_waiting_validations") }
}
