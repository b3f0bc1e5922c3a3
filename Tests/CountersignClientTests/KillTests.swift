import CountersignAPI
import Testing

@testable import CountersignClient

/// The app is killed at each await in turn, and started again on the same device. What was done counts once, and nothing is lost.
@Suite struct KillTests {
  /// Lives the app's life once for each step at which it may end, and once whole.
  private func atEachStep(
    _ prepare: (Bench) async throws -> Void, _ live: (Bench, Life) async throws -> Void,
    then check: (Bench, _ lived: Bool, _ step: Int) async throws -> Void
  ) async throws {
    var kills = 0
    for step in 0..<200 {
      let bench = Bench()
      try await prepare(bench)
      let life = Life(steps: step)
      do { try await live(bench, life) } catch {}
      let lived = !life.isOver
      bench.service.recover()
      try await check(bench, lived, step)
      if lived { return #expect(kills > 3) }
      kills += 1
    }
    Issue.record("The app never comes to the end of what it does.")
  }

  @Test func `a purchase counts once`() async throws {
    try await atEachStep {
      $0.store.next(.success($0.sale()))
    } _: { bench, life in
      try await bench.client(life: life).purchase("pro.monthly")
    } then: { bench, lived, step in
      let isSold = !bench.store.appAccountTokens.isEmpty
      #expect(isSold || step < 8)
      let client = bench.client()
      await client.start()
      #expect(bench.service.purchases == (isSold ? [bench.sale().jws] : []), "step \(step)")
      #expect(await client.waitingCount == 0 && bench.store.openCount == 0, "step \(step)")
      #expect(client.isAllowed("filters") == isSold)
    }
  }

  @Test func `a purchase that meets a service in trouble counts once`() async throws {
    try await atEachStep {
      $0.store.next(.success($0.sale()))
      $0.service.fail("validations", .answerLost)
    } _: { bench, life in
      let client = bench.client(life: life)
      _ = try? await client.purchase("pro.monthly")
      try await client.retry()
    } then: { bench, _, step in
      let isSold = !bench.store.appAccountTokens.isEmpty
      let client = bench.client()
      await client.start()
      #expect(bench.service.purchases.count == (isSold ? 1 : 0), "step \(step)")
      #expect(await client.waitingCount == 0 && bench.store.openCount == 0, "step \(step)")
    }
  }

  @Test func `each purchase of a restore counts once`() async throws {
    try await atEachStep { bench in
      for id in 1...3 as ClosedRange<UInt64> { bench.store.own(bench.sale(id: id)) }
    } _: { bench, life in
      try await bench.client(life: life).restore()
    } then: { bench, _, step in
      let client = bench.client()
      await client.start()
      #expect(bench.service.purchases.count == 3, "step \(step)")
      #expect(await client.waitingCount == 0 && client.isAllowed("filters"), "step \(step)")
    }
  }

  @Test func `an event is delivered once`() async throws {
    try await atEachStep { _ in
    } _: { bench, life in
      let client = bench.client(life: life)
      await client.track("first")
      if !life.isOver { bench.journal.note("tracked") }
      try await client.flush()
      await client.track("second")
      try await client.flush()
    } then: { bench, lived, step in
      try await bench.client().flush()
      let names = bench.service.events.map(\.type.rawValue)
      #expect(names == Array(["first", "second"].prefix(names.count)), "step \(step)")
      if bench.journal.count("tracked") == 1 { #expect(!names.isEmpty, "step \(step)") }
      if lived { #expect(names.count == 2) }
    }
  }

  @Test(arguments: [false, true]) func `a session of a trial counts once`(isOffline: Bool) async throws {
    try await atEachStep { bench in
      try await bench.trials().start()
      if isOffline { bench.service.fail("sessions", .answerLost) }
    } _: { bench, life in
      let trials = bench.trials(bench.options(life))
      for name in ["first", "second"] {
        try await trials.useSession()
        if !life.isOver { bench.journal.note(name) }
      }
    } then: { bench, _, step in
      let granted = bench.journal.all.count
      let trials = bench.trials()
      try await trials.sync()
      let used = try await trials.trial()?.sessionsUsed ?? 0
      // One that was not granted yet may count, and no other.
      #expect(used == granted || used == granted + 1, "step \(step)")
      #expect(used <= 2 && bench.service.trials.count == 1, "step \(step)")
      #expect(await trials.waitingCount == 0)
    }
  }

  @Test func `a trial begins once`() async throws {
    try await atEachStep { _ in
    } _: { bench, life in
      try await bench.trials(bench.options(life)).start()
    } then: { bench, _, step in
      try await bench.trials().start()
      #expect(bench.service.trials.count == 1, "step \(step)")
    }
  }
}
