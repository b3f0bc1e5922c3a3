import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

extension FaultTests {
  /// Webhooks through a year in which service and receiver are killed again and again.
  @Suite(
    .serialized, .played(with: "python3", if: ReceiverProcess.python != nil),
    .played(with: "a C compiler", if: JumpingClock.compiler != nil))
  struct WebhookFaultTests {
    @Test func `kill -9 of service and receiver: every event of a year comes once, in order and authentic`()
      async throws
    {
      let random = FaultRandom()
      let kills = FaultSize.choose(short: 3, full: 50)
      let year = try await Self.play(kills: kills, random: random)
      #expect(year.listed.count > 60 && Set(year.listed.map(\.type)).count > 8, "little happened")
      for (name, wants) in Self.receivers {
        let received = year.deliveries.filter { $0.path == "/\(name)" }
        let audit = WebhookAudit(year.listed, received, secret: WebhookTests.secret, wants: wants)
        FaultReport.say(
          "webhooks to \(name)", seed: random.seed, "\(kills) kills of each", "\(year.answered) posts", audit.figures)
        #expect(audit.isClean, "\(audit)")
      }
      try Self.plantDefects(in: year.deliveries.filter { $0.path == "/all" }, of: year.listed)
    }

    /// The receivers by their names, and the events that each asks for.
    private static let receivers: [(name: String, wants: @Sendable (WebhookAudit.Listed) -> Bool)] = [
      ("all", { _ in true }),
      ("starts", { $0.type == "subscription.started" || $0.type.hasPrefix("trial.") }),
    ]

    /// Each has to be noticed.
    private static func plantDefects(
      in received: [ReceiverProcess.Delivery], of listed: [WebhookAudit.Listed]
    ) throws {
      func audit(_ received: [ReceiverProcess.Delivery]) -> WebhookAudit {
        WebhookAudit(listed, received, secret: WebhookTests.secret) { _ in true }
      }
      func delivery(of event: WebhookAudit.Listed) throws -> ReceiverProcess.Delivery {
        try #require(received.first { $0.headers["webhook-id"] == event.id })
      }
      let user = try #require(listed.first?.user)
      let events = listed.filter { $0.user == user }.prefix(2)
      let (first, second) = (try delivery(of: #require(events.first)), try delivery(of: #require(events.last)))
      var changed = first
      changed.body[changed.body.count / 2] ^= 1
      var stranger = first
      stranger.headers["webhook-id"] = "evt_1_1"
      let withoutFirst = received.filter { $0.headers["webhook-id"] != events.first?.id }
      for (defect, isCaught) in [
        ("an event that never came", audit(withoutFirst).missing == events.prefix(1).map(\.id)),
        (
          "another body", !audit(received + [changed]).differing.isEmpty && !audit(received + [changed]).refused.isEmpty
        ),
        ("an event that is not listed", audit(received + [stranger]).uncalledFor == ["evt_1_1"]),
        ("a wrong order", audit([second] + received).disordered == [user]),
      ] {
        FaultReport.planted("webhooks: \(defect)", isCaught ? "noticed" : "not noticed", isCaught: isCaught)
        #expect(isCaught, "\(defect)")
      }
    }

    struct Year {
      var listed: [WebhookAudit.Listed]
      var deliveries: [ReceiverProcess.Delivery]
      var answered: Int
    }

    private static let length = 400 * 86_400.0

    /// Customers of every scenario live through a year, a part of it before each kill. The service's clock goes with the
    /// store's.
    private static func play(kills: Int, random: FaultRandom) async throws -> Year {
      let port = try ReservedPort()
      var settings = Settings()
      settings.webhookSecrets = [WebhookTests.secret]
      // The year, and the hours after it until everything is delivered.
      settings.events = ["keep": "500d"]
      settings.webhooks = [
        #"name: all, url: "http://127.0.0.1:\#(port.number)/all", private: true, events: ["*"]"#,
        #"name: starts, url: "http://127.0.0.1:\#(port.number)/starts", private: true, events: [subscription.started, trial.*]"#,
      ]
      let begin = Date(timeIntervalSince1970: (Date().timeIntervalSince1970 - length).rounded(.down))
      return try await FaultWorld.run(
        customers: 0, at: begin, certifiedSince: begin - 86_400, settings: settings, withProfiles: false
      ) { world in
        var random = random
        let clock = try JumpingClock(in: world.directory)
        func move(to moment: Date) throws {
          world.simulator.setClock(moment)
          try clock.jump(seconds: Int64(moment.timeIntervalSinceNow.rounded()))
        }
        let receiver = try ReceiverProcess(
          port: port.number, secret: WebhookTests.secret, in: world.directory, environment: clock.environment)
        var customers = try YearCustomers(world.simulator)
        let feed = customers.feed
        for round in 0..<kills {
          // Nothing runs while the time is set.
          try move(to: begin + length / Double(kills) * Double(round))
          try customers.catchUp(world.simulator)
          try await receiver.start()
          let service = try await world.start(environment: clock.environment)
          feed.beginLife()
          async let posting: Void = feed.run(service)
          let moments = (0..<2).map { _ in Int.random(in: 1...max(1, feed.waiting), using: &random) }
          let isReceiverFirst = Bool.random(using: &random)
          for (index, posts) in moments.sorted().enumerated() {
            _ = try await eventually(within: .seconds(60), every: .milliseconds(1)) { feed.answeredInThisLife >= posts }
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...20, using: &random)))
            if (index == 0) == isReceiverFirst {
              await receiver.kill()
              if isReceiverFirst { try await receiver.start() }
            } else {
              service.signal(SIGKILL)
            }
          }
          await posting
          #expect(await service.ending().wasKilled)
          await receiver.kill()
          // After every second kill the service is back at once, so that a year of early kills has its events, too; after the
          // others it is back when the store's time has gone on.
          guard round.isMultiple(of: 2) else { continue }
          try await receiver.start()
          let next = try await world.start(environment: clock.environment)
          try await answerAll(feed, next)
          await next.stop()
          await receiver.kill()
        }
        try move(to: begin + length)
        try customers.catchUp(world.simulator)
        try await receiver.start()
        var service = try await world.start(environment: clock.environment)
        try await answerAll(feed, service)
        // An event that waits for its next attempt waits for hours at most.
        for hours in 0..<48 {
          if try await eventually(within: .seconds(hours == 0 ? 10 : 2), { try await hasTold(service) }) { break }
          await service.stop()
          await receiver.kill()
          try move(to: begin + length + Double(hours + 1) * 3_600)
          try await receiver.start()
          service = try await world.start(environment: clock.environment)
        }
        let status = try await service.send(.get, "/v1/webhooks").text
        #expect(try await hasTold(service) && !status.contains(#""enabled":false"#), "\(status)")
        let listed = try await list(service)
        #expect(await service.stop().code == 0)
        await receiver.kill()
        return Year(listed: listed, deliveries: try receiver.deliveries(), answered: feed.answered)
      }
    }

    /// Posts until everything is answered.
    private static func answerAll(_ feed: FaultFeed<YearCustomers.Post>, _ service: ServiceProcess) async throws {
      let isAnswered = try await eventually(within: .seconds(120), every: .milliseconds(50)) {
        await feed.run(service)
        return feed.waiting == 0
      }
      #expect(isAnswered, "\(feed.waiting) posts were not answered")
    }

    /// Whether nothing waits, and nothing was given up.
    private static func hasTold(_ service: ServiceProcess) async throws -> Bool {
      let rows = try await service.send(.get, "/v1/webhooks").array("webhooks")
      return rows.count == receivers.count
        && rows.allSatisfy { $0["oldest_at"] is NSNull && $0["waiting"] as? Int == 0 && $0["dead"] as? Int == 0 }
    }

    /// All events, each as its own answer has it.
    private static func list(_ service: ServiceProcess) async throws -> [WebhookAudit.Listed] {
      var listed: [WebhookAudit.Listed] = []
      var place = "0"
      while true {
        let page = try await service.send(.get, "/v1/events?limit=1&after=\(place)")
        guard let event = page.array("events").first, let next = page["next"],
          let id = event["id"] as? String, let type = event["type"] as? String, let user = event["user_id"] as? String
        else { return listed }
        let text = page.text.dropFirst(#"{"events":["#.count).dropLast(#"],"next":"\#(next)"}\#n"#.utf8.count)
        listed.append(.init(id: id, type: type, user: user, text: String(text)))
        place = next
      }
    }
  }
}

/// A customer of each scenario, and what their apps, a server and Apple post in the course of a year.
private struct YearCustomers {
  enum Post {
    case receipt(String, user: String)
    case notification(String)
    case viewed(user: String)
  }

  /// A purchase is what the store is asked for notifications by; nil for one who bought nothing.
  private let customers: [(receipt: String, purchase: String?, user: String)]
  let feed: FaultFeed<Post>
  /// Up to when the store's events are among the posts.
  private var through = Date.distantPast

  /// At the store's present time.
  init(_ simulator: RunningSimulator) throws {
    customers = try Scenario.allCases.enumerated().map { number, scenario in
      let receipt = try simulator.issueReceipt(scenario, subscriber: Int64(number + 1))
      return (
        receipt: receipt.receiptData, purchase: receipt.originalTransactionIDs.first, user: "user-\(number)"
      )
    }
    feed = FaultFeed(customers.map { [Post.viewed(user: $0.user)] }) { post, service in
      let answer = try await Self.send(post, to: service)
      return answer.status < 500 && answer.status != 429
    }
  }

  /// Adds what the store has to tell since the last time; and each app posts its receipt.
  mutating func catchUp(_ simulator: RunningSimulator) throws {
    let now = simulator.now
    for (index, customer) in customers.enumerated() {
      feed.add([.receipt(customer.receipt, user: customer.user)], of: index)
      guard let purchase = customer.purchase else { continue }
      let notifications = try simulator.notifications(of: purchase, from: through, to: now)
      feed.add(notifications.map { .notification($0.body) }, of: index)
    }
    through = now
  }

  private static func send(_ post: Post, to service: ServiceProcess) async throws -> Answer {
    switch post {
    case .receipt(let receipt, let user): try await service.validate(receipt, user: user)
    case .notification(let body): try await service.send(.post, "/v1/notifications/app-store", body: body)
    case .viewed(let user):
      try await service.send(
        .post, "/v1/events", body: #"{"events":[{"type":"paywall_viewed","user_id":"\#(user)"}]}"#)
    }
  }
}
