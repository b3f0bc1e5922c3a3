import Foundation
import HTTPTransport
import SeededRandom
import Synchronization
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Ledger
@testable import Resilience
@testable import Validation

/// Notifications that could not be delivered, and what Apple's history of them brings back.
@Suite struct MissedNotificationsTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800.123456789)
  private static let scenarios: [Scenario] = [
    .subscriber, .renewing, .renewalOff, .trial, .grace, .billingRetry, .eventfulYear, .downgradePending, .lifetime,
    .upgraded,
  ]

  /// The content of each event, but for its number and the moments of its record.
  private static func events(_ service: RunningService) async throws -> [String] {
    var (place, said) = ("0", [String]())
    while true {
      let answer = try await service.send(.get, "/v1/events?limit=500&after=\(place)")
      let events = try #require(answer.object["events"] as? [[String: Any]])
      guard !events.isEmpty else { return said.sorted() }
      place = try #require(answer["next"])
      said += try events.map { event in
        let data = try JSONSerialization.data(
          withJSONObject: ["type": event["type"], "user": event["user_id"], "data": event["data"]] as [String: Any?],
          options: .sortedKeys)
        return String(decoding: data, as: UTF8.self)
      }
    }
  }

  private static func buy(_ store: SimulatedStore, _ services: [RunningService]) async throws -> [String] {
    var ids: [String] = []
    for (index, scenario) in scenarios.enumerated() {
      let signed = try store.simulator.issueTransaction(scenario, subscriber: Int64(index + 1))
      ids.append(signed.originalTransactionID)
      for service in services {
        #expect(try await service.validate(signed.signedTransaction, user: "user-\(index)").status == 200)
      }
    }
    return ids
  }

  private static func isCaughtUp(_ service: RunningService) async throws -> Bool {
    let answer = try await service.send(.get, "/v1/notifications/history").text
    return !answer.contains(#""asking":true"#) && !answer.contains(#""through":null"#)
  }

  @Test func `a service that was away ends where one ends that never was, event by event`() async throws {
    let directory = try TemporaryDirectory()
    let clock = MovingClock(Self.start)
    // It is told everything as it happens, and asks nothing.
    try await RunningService.besideStore(
      at: Self.start, withServerAPI: true, withSecret: false, jobPause: .seconds(3_600), now: { clock.date }
    ) { present, store in
      let ids = try await RunningService.run(
        apple: store.apple(withSecret: false), directory: directory.url, jobPause: .seconds(3_600), now: { clock.date }
      ) { away in try await Self.buy(store, [present, away]) }

      try await WebhookReceiver.running { nobody in
        nobody.answer(503)
        try store.simulator.deliverNotifications(to: "\(nobody.url)/v1/notifications/app-store")
        var reported: [SimulatedNotification] = []
        let end = Self.start.addingTimeInterval(64 * 86_400)
        for id in ids { reported += try store.simulator.notifications(of: id, from: Self.start, to: end) }
        reported.sort { $0.at < $1.at }
        #expect(reported.count > 12)
        for notification in reported {
          clock.advance(by: max(0, notification.at.timeIntervalSince(clock.date)))
          #expect(try await present.notify(notification).status == 200)
        }
        for _ in 0..<64 {
          store.simulator.advanceClock(by: .seconds(86_400))
          _ = await store.simulator.deliveries()
        }
        clock.advance(by: end.timeIntervalSince(clock.date))
        store.simulator.resetCalls()
        try await RunningService.run(
          apple: store.apple(withSecret: false), directory: directory.url, now: { clock.date }, asksForMissed: true
        ) { away in
          try await eventually { try await Self.isCaughtUp(away) }
          for index in Self.scenarios.indices {
            let states = [try await away.state(of: "user-\(index)"), try await present.state(of: "user-\(index)")]
            #expect(states[0] == states[1], "\(Self.scenarios[index])")
          }
          let (missed, told) = (try await Self.events(away), try await Self.events(present))
          #expect(missed == told)
          #expect(told.count > 12)
          #expect(try await away.send(.get, "/readyz", key: nil).text.contains(#""notification_history":"ok""#))
        }
        // A page each for at most thirty parts, and the pages of what there is.
        let pages = store.simulator.calls.serverAPI.byEndpoint["notifications_history"] ?? 0
        #expect((2...70).contains(pages), "\(pages)")
      }
    }
  }

  private static let yearScenarios: [Scenario] = [
    .eventfulYear, .subscriber, .trial, .grace, .billingRetry, .renewalOff, .upgraded, .downgradePending, .crossgraded,
    .nonRenewing, .lifetime, .refundedThenRebought, .graceWithoutDate, .twoGroups, .lateRenewal, .familyShared,
    .renewing, .refunded, .graceEnded, .voluntaryRetrying,
  ]

  /// `make cases` has a thousand subscribers: three and a half minutes of a debug build.
  @Test func `ten days away in a year change no verdict, no event and no figure`() async throws {
    let subscribers = SeededRandom.cases(1_000) == 1_000 ? 1_000 : 20
    let directory = try TemporaryDirectory()
    let settings = Settings(server: ["address_rate_limit": "0", "user_rate_limit": "0"], events: ["keep": "500d"])
    let clock = MovingClock(Self.start)
    let news = News()
    try await SimulatedStore.run(at: Self.start) { store in
      let simulator = store.simulator
      @Sendable func day(_ number: Int) -> Date { Self.start.addingTimeInterval(Double(number) * 86_400) }
      /// Asks nothing of Apple by itself but for what it missed.
      @Sendable func run(
        _ name: String, apple: Apple? = nil, jobPause: Duration = .seconds(3_600), asksForMissed: Bool = false,
        _ body: @Sendable (RunningService) async throws -> Void
      ) async throws {
        try await RunningService.run(
          apple: apple ?? store.apple(withSecret: false), settings: settings,
          directory: directory.url.appending(path: "\(directory.url.lastPathComponent)-\(name)"), jobPause: jobPause,
          now: { clock.date }, asksForMissed: asksForMissed, body: body)
      }
      /// Tells each service what happens until then, as it happens.
      @Sendable func live(until end: Date, _ services: [RunningService]) async throws {
        while let (at, purchases) = news.next(through: end) {
          clock.advance(by: max(0, at.timeIntervalSince(clock.date)))
          let posts = services.flatMap { service in purchases.map { (service, $0) } }
          let taken = await mapConcurrently(posts, width: 8) { service, notifications in
            for one in notifications {
              guard (try? await service.notify(one).status) == 200 else { return false }
            }
            return true
          }
          #expect(taken.count == posts.count && taken.allSatisfy(\.self))
        }
        clock.advance(by: max(0, end.timeIntervalSince(clock.date)))
      }
      @Sendable func compare(_ present: RunningService, _ away: RunningService) async throws {
        for number in 0..<subscribers {
          let states = [try await present.state(of: "user-\(number)"), try await away.state(of: "user-\(number)")]
          #expect(states[0] == states[1], "\(number)")
        }
        let (told, missed) = (try await Self.events(present), try await Self.events(away))
        #expect(told == missed && told.count > 3 * subscribers)
      }

      // Customers come in the first month, and both live through half a year.
      try await run("present") { present in
        try await run("away") { away in
          for cohort in 0..<10 {
            try await live(until: day(3 * cohort), [present, away])
            simulator.setClock(clock.date)
            for number in 0..<subscribers where (number + number / 20) % 10 == cohort {
              let scenario = Self.yearScenarios[number % Self.yearScenarios.count]
              let signed = try simulator.issueTransaction(scenario, subscriber: Int64(number + 1))
              for service in [present, away] {
                #expect(try await service.validate(signed.signedTransaction, user: "user-\(number)").status == 200)
              }
              news.add(try simulator.notifications(of: signed.originalTransactionID, from: clock.date, to: day(365)))
            }
          }
          try await live(until: day(180), [present, away])
        }
        simulator.setClock(clock.date)
        let missed = try await WebhookReceiver.running { nobody in
          nobody.answer(503)
          try simulator.deliverNotifications(to: "\(nobody.url)/v1/notifications/app-store")
          for number in 181...190 {
            simulator.setClock(day(number))
            _ = await simulator.deliveries()
          }
          defer { simulator.deliverNotifications(to: PlainHTTPURL?.none) }
          return Set(await simulator.deliveries().map(\.notification.uuid)).count
        }
        #expect(missed >= subscribers / 10)
        try await live(until: day(190), [present])

        simulator.resetCalls()
        let began = ContinuousClock.now
        try await run("away", asksForMissed: true) { away in
          try await eventually(looks: 10_000) { try await Self.isCaughtUp(away) }
          // In each of two stores: the failures of before, at most thirty parts of the time since, and their further pages.
          let pages = simulator.calls.serverAPI.byEndpoint["notifications_history"] ?? 0
          #expect(pages <= 2 * 31 + missed / 20 && pages == simulator.callsInAll, "\(pages) for \(missed)")
          // `revalidation.rate` is ten a second.
          #expect(Double(pages) <= (ContinuousClock.now - began) / .seconds(1) * 10 + 2)
          try await compare(present, away)
          try await live(until: day(365), [present, away])
          try await compare(present, away)
        }
      }
      // The job of the figures counts. Without a key of the Server API the other jobs have nothing to ask.
      try await run("present", apple: store.apple, jobPause: .milliseconds(20)) { present in
        try await run("away", apple: store.apple, jobPause: .milliseconds(20)) { away in
          // Users are counted by their stored states, which the jobs bring to the present.
          for span in ["from=2024-06-15&to=2025-06-15&interval=month", "from=2024-11-15&to=2025-01-31"] {
            func figures(_ service: RunningService) async throws -> String {
              try await service.send(.get, "/v1/figures?\(span)").text
            }
            try await eventually {
              let (told, missed) = (try await figures(present), try await figures(away))
              return told == missed && told.contains(#""pending":0"#) && told.contains(#""revenue""#)
            }
          }
        }
      }
    }
  }

  @Test func `a notification that another server took is asked for by a person, and counts once`() async throws {
    let clock = MovingClock(Self.start)
    try await RunningService.besideStore(at: Self.start, withServerAPI: true, withSecret: false, now: { clock.date }) {
      service, store in
      let signed = try store.simulator.issueTransaction(.subscriber)
      _ = try await service.validate(signed.signedTransaction)
      try await WebhookReceiver.running { wrong in
        try store.simulator.deliverNotifications(to: "\(wrong.url)/v1/notifications/app-store")
        clock.advance(by: 31 * 86_400)
        store.simulator.setClock(clock.date)
        #expect(await store.simulator.deliveries().map(\.status) == [200])
      }
      func ask(_ since: String) async throws -> Answer {
        try await service.send(.post, "/v1/notifications/history", body: #"{"since":"\#(since)"}"#)
      }
      for bad in ["yesterday", "2124-06-15T00:00:00Z"] { #expect(try await ask(bad).status == 400) }
      for taken in [1, 0] {
        #expect(try await ask("2024-07-10T00:00:00Z").status == 202)
        try await eventually {
          let answer = try await service.send(.get, "/v1/notifications/history").text
          return !answer.contains(#""asking":true"#) && answer.contains(#""seen":1,"taken":\#(taken)"#)
        }
      }
      #expect(try await service.profile()["access_until"] == "2024-08-15T12:00:00Z")
    }
  }

  @Test func `a notification about a purchase that cannot be read holds up no other`() async throws {
    let clock = MovingClock(Self.start)
    try await SimulatedStore.run(at: Self.start) { store in
      try await RunningService.run(apple: store.apple(withSecret: false), now: { clock.date }) { service in
        var ids: [String] = []
        for number in 1...2 as ClosedRange<Int64> {
          let signed = try store.simulator.issueTransaction(.subscriber, subscriber: number)
          _ = try await service.validate(signed.signedTransaction, user: "user-\(number)")
          ids.append(signed.originalTransactionID)
        }
        let broken = try #require(ids.first)
        try await service.ledger.engine.submit { tables in
          try tables.execute("UPDATE purchase SET evidence = '[]' WHERE original_transaction_id = ?", broken)
        }
        try await WebhookReceiver.running { wrong in
          try store.simulator.deliverNotifications(to: "\(wrong.url)/v1/notifications/app-store")
          clock.advance(by: 31 * 86_400)
          store.simulator.setClock(clock.date)
          #expect(await store.simulator.deliveries().map(\.status) == [200, 200])
        }
        let asked = try await service.send(
          .post, "/v1/notifications/history", body: #"{"since":"2024-07-10T00:00:00Z"}"#)
        #expect(asked.status == 202)
        try await eventually {
          let answer = try await service.send(.get, "/v1/notifications/history").text
          return !answer.contains(#""asking":true"#) && answer.contains(#""seen":2,"taken":1"#)
        }
        let answer = try await service.send(.get, "/v1/notifications/history").text
        let uuid = try #require(answer.firstMatch(of: /"passed_over":\["([^"]+)"\]/)).1
        try await eventually { service.log.lines.contains { $0.contains("is passed over") && $0.contains(uuid) } }
      }
    }
  }

  private static func state(_ service: RunningService) async throws -> String {
    let text = try await service.send(.get, "/v1/status").text
    return ["ok", "behind", "gap"].first { text.contains(#""notification_history":"\#($0)""#) } ?? "none"
  }

  private static func age(_ service: RunningService) async throws -> Double? {
    let metrics = try await service.send(.get, "/metrics", key: nil).text
    let name = #"countersign_notification_history_age_seconds{environment="production"} "#
    return metrics.split(separator: "\n").first { $0.hasPrefix(name) }.flatMap { Double($0.dropFirst(name.count)) }
  }

  @Test func `a history that could never be asked is behind two days after the first start`() async throws {
    let directory = try TemporaryDirectory()
    let clock = MovingClock(Self.start)
    try await SimulatedStore.run(at: Self.start) { store in
      store.simulator.setTrouble(.serverAPIKeyRejected, service: .serverAPI)
      for (days, state) in [(0.0, "ok"), (1, "ok"), (1.1, "behind")] {
        clock.advance(by: days * 86_400)
        store.simulator.setClock(clock.date)
        try await RunningService.run(
          apple: store.apple(withSecret: false), directory: directory.url, now: { clock.date }, asksForMissed: true
        ) { service in
          try await eventually {
            try await service.send(.get, "/v1/notifications/history").text.contains("Apple refuses the key")
          }
          #expect(try await Self.state(service) == state)
          let age = try #require(try await Self.age(service))
          #expect((age > 172_800) == (state == "behind"), "\(age)")
        }
      }
    }
  }

  @Test func `a gap that Apple does not keep is told, and so is a history that cannot be asked`() async throws {
    let directory = try TemporaryDirectory()
    let clock = MovingClock(Self.start)
    try await SimulatedStore.run(at: Self.start) { store in
      func run(_ body: @Sendable (RunningService) async throws -> Void) async throws {
        try await RunningService.run(
          apple: store.apple(withSecret: false), directory: directory.url, now: { clock.date }, asksForMissed: true,
          body: body)
      }
      try await run { service in
        try await eventually { try await Self.isCaughtUp(service) }
        #expect(try await Self.state(service) == "ok")
        store.simulator.setTrouble(.serverAPIKeyRejected, service: .serverAPI)
        // The clock of the store goes with the service's, for its tokens.
        for _ in 0..<3 {
          clock.advance(by: 86_400)
          store.simulator.setClock(clock.date)
        }
        try await eventually { try await Self.state(service) == "behind" }
        try await eventually {
          try await service.send(.get, "/v1/notifications/history").text.contains("Apple refuses the key")
        }
      }
      store.simulator.setTrouble(nil)
      clock.advance(by: 200 * 86_400)
      store.simulator.setClock(clock.date)
      try await run { service in
        try await eventually { try await Self.isCaughtUp(service) }
        #expect(try await Self.state(service) == "gap")
        let metrics = try await service.send(.get, "/metrics", key: nil).text
        let line = metrics.split(separator: "\n").first {
          $0.hasPrefix(#"countersign_notification_gap_seconds{environment="production"} "#)
        }
        #expect(line.map { !$0.hasSuffix(" 0") } == true, "\(line ?? "")")
      }
    }
  }
}

/// Apple's notifications that nobody was told yet, by their moments.
private final class News: Sendable {
  /// Guards what is left, the last first.
  private let left = Mutex<[SimulatedNotification]>([])

  func add(_ notifications: [SimulatedNotification]) {
    left.withLock { left in left = (left.reversed() + notifications).sorted { $0.at < $1.at }.reversed() }
  }

  /// Takes the next moment with its notifications, those of a purchase in their order.
  func next(through end: Date) -> (at: Date, purchases: [[SimulatedNotification]])? {
    left.withLock { left in
      guard let at = left.last?.at, at <= end else { return nil }
      var now: [SimulatedNotification] = []
      while let one = left.last, one.at == at {
        now.append(one)
        left.removeLast()
      }
      return (at, Array(Dictionary(grouping: now, by: \.originalTransactionID).values))
    }
  }
}
