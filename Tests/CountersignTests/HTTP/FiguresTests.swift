import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// `/v1/figures`: how many pay, and how much.
@Suite struct FiguresTests {
  /// 2024-06-15T12:00:00Z
  private static let start = Date(timeIntervalSince1970: 1_718_452_800)

  private struct Figures {
    var body: [String: Any]

    init(_ answer: Answer) throws {
      #expect(answer.status == 200, "\(answer.text)")
      body = try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
    }

    var periods: [[String: Any]] { body["periods"] as? [[String: Any]] ?? [] }
    func number(_ name: String) -> Int? { periods.last?[name] as? Int }
  }

  @Test func `a purchase counts once the job has seen it`() async throws {
    let catalog = Settings(server: ["user_rate_limit": "0"])
    try await SimulatedStore.run(at: Self.start) { store in
      try await RunningService.run(apple: store.apple, settings: catalog, now: { Self.start }) { service in
        #expect(try Figures(try await service.send(.get, "/v1/figures")).number("active") == 0)
        _ = try await service.validate(try store.simulator.issueReceipt(.renewing).receiptData, user: "anna")
        _ = try await service.validate(try store.simulator.issueReceipt(.trial, subscriber: 2).receiptData, user: "ben")
        try await eventually {
          let figures = try Figures(try await service.send(.get, "/v1/figures"))
          return figures.number("active") == 1 && figures.number("trials") == 1
        }
        let figures = try Figures(try await service.send(.get, "/v1/figures"))
        #expect(figures.number("active") == 1)
        #expect(figures.number("trials") == 1)
        #expect(figures.body["pending"] as? Int == 0)
        #expect(figures.periods.count == 30)
        #expect(figures.periods.last?["to"] as? String == "2024-06-15")
        let subscribers = figures.body["subscribers"] as? [[String: Any]] ?? []
        #expect(subscribers.map { $0["users"] as? Int } == [2])
        #expect(subscribers.first?["tier"] as? String == "pro" && subscribers.first?["status"] as? String == "active")
        let cycles = figures.body["cycles"] as? [[String: Any]] ?? []
        #expect(cycles.map { $0["period"] as? String } == ["P1M"])
        let products = figures.body["products"] as? [[String: Any]] ?? []
        #expect(products.map { $0["product_id"] as? String } == ["com.example.app.pro.monthly"])
        let metrics = try Exposition(try await service.send(.get, "/metrics", key: nil).text)
        #expect(metrics["countersign_subscribers", ["tier": "pro", "status": "active"]] == 2)

        let months = try Figures(
          try await service.send(.get, "/v1/figures?from=2024-04-20&to=2024-06-15&interval=month"))
        #expect(months.periods.map { $0["from"] as? String } == ["2024-04-20", "2024-05-01", "2024-06-01"])
        #expect(months.periods.map { $0["to"] as? String } == ["2024-04-30", "2024-05-31", "2024-06-15"])
        #expect(months.number("active") == 1)
        // Apple tells of the period that began in June; nobody paid before.
        #expect(months.periods.allSatisfy { $0["churn"] is NSNull })
        #expect(figures.periods.last?["churn"] as? Double == 0)
        let other = try Figures(try await service.send(.get, "/v1/figures?product_id=other"))
        #expect(other.number("active") == 0)
      }
    }
  }

  @Test func `a span that is none is a 400 that says so`() async throws {
    try await RunningService.run(apple: .unreachable, now: { Self.start }) { service in
      for (query, sentence) in [
        ("figures?from=never", "'from' has to be a day, such as 2026-01-31."),
        ("figures?to=2024-02-30", "'to' has to be a day"), ("figures?to=2024-06-16", "'to' lies in the future."),
        ("figures?from=2024-06-02&to=2024-06-01", "'from' is later than 'to'."),
        ("figures?from=2024-01-01", "at most 92 days apart"),
        ("figures?from=2020-01-01&interval=month", "at most 1100 days apart"),
        ("figures?interval=week", "'interval' has to be day or month."),
        ("figures?from=2024-06-01&from=2024-06-02", "'from' is given twice."),
        ("figures?product_id=", "'product_id' is empty."), ("experiments?from=never", "'from' has to be a day"),
        ("experiments?from=2024-06-02&to=2024-06-01", "'from' is later than 'to'."),
      ] {
        let answer = try await service.send(.get, "/v1/\(query)")
        #expect(answer.status == 400 && answer.text.contains(sentence), "\(query): \(answer.text)")
      }
    }
  }
}
