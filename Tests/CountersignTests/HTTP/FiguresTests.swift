import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// `/v1/figures`: how many pay, and how much.
@Suite struct FiguresTests {
  /// 2024-06-15T12:00:00Z

  private struct Figures {
    var body: [String: Any]

    init(_ answer: Answer) throws {
      #expect(answer.status == 200, "\(answer.text)")
      body = try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
    }

    var periods: [[String: Any]] { body["periods"] as? [[String: Any]] ?? [] }
    func number(_ name: String) -> Int? { periods.last?[name] as? Int }
  }

  @Test func `all currencies are added up by the rates of a file, which is read again when it is replaced`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let file = try directory.write("rates.csv", "Date,USD,GBP\n2024-05-31,1.25,0.8\n")
    var settings = Settings(server: ["user_rate_limit": "0"], figures: ["rates_file": file, "currency": "GBP"])
    settings.products["com.example.app.premium.monthly"] = "{ tier: premium, period: P1M, price: { EUR: 120 } }"
    settings.products["com.example.app.pro.monthly"] = "{ tier: pro, period: P1M, price: { VND: 99000 } }"
    try await RunningService.besideStore(settings: settings) { service, store in
      func read() async throws -> Figures {
        try Figures(try await service.send(.get, "/v1/figures?from=2024-04-01"))
      }
      func converted(_ one: [String: Any]?) -> [String: String] { one?["converted"] as? [String: String] ?? [:] }
      #expect(try await read().periods.last?["converted"] is NSNull)
      // One by verifyReceipt, at the catalog's 120 euros, and another in dollars, as Apple signed it.
      _ = try await service.validate(try store.simulator.issueReceipt(.upgraded).receiptData, user: "anna")
      let signed = try store.simulator.issueTransaction(.subscriber, subscriber: 2).signedTransaction
      _ = try await service.validate(signed, user: "ben")
      _ = try await service.validate(
        try store.simulator.issueReceipt(.renewing, subscriber: 3).receiptData, user: "carl")
      try await eventually {
        let figures = try await read()
        return figures.number("payments") == 1 && figures.body["pending"] as? Int == 0
      }
      // 4.99 dollars are 3.1936 pounds.
      let figures = try await read()
      #expect(
        converted(figures.periods.last)["revenue"] == "3.19" && converted(figures.periods.last)["currency"] == "GBP")
      let rates = figures.body["rates"] as? [String: Any] ?? [:]
      #expect(rates["from"] as? String == "2024-05-31" && rates["missing"] as? [String] == ["VND"])
      let products = figures.body["products"] as? [[String: Any]] ?? []
      #expect(products.contains { converted($0)["revenue"] == "96.00" }, "\(products)")

      _ = try directory.write("rates.csv", "no rates")
      _ = try directory.write("new.csv", "Date,USD,GBP\n2024-06-14,1.00,0.5\n")
      let new = directory.path + "/new.csv"
      #expect(rename(new, file) == 0)
      try await eventually { try await converted(read().periods.last)["revenue"] == "2.50" }
      // Without the file the rates of before stay.
      #expect(unlink(file) == 0)
      #expect(try await converted(read().periods.last)["revenue"] == "2.50")
    }
  }

  @Test func `a purchase counts once the job has seen it`() async throws {
    let catalog = Settings(server: ["user_rate_limit": "0"])
    try await RunningService.besideStore(settings: catalog) { service, store in
      #expect(try Figures(try await service.send(.get, "/v1/figures")).number("active") == 0)
      _ = try await service.validate(try store.simulator.issueReceipt(.renewing).receiptData, user: "anna")
      _ = try await service.validate(try store.simulator.issueReceipt(.trial, subscriber: 2).receiptData, user: "ben")
      try await eventually {
        let figures = try Figures(try await service.send(.get, "/v1/figures"))
        // A recount at the start may count them before their marks are worked off.
        return figures.number("active") == 1 && figures.number("trials") == 1 && figures.body["pending"] as? Int == 0
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

  @Test func `a span that is none is a 400 that says so`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      for (query, sentence) in [
        ("figures?from=never", "'from' has to be a day, such as 2026-01-31."),
        ("figures?to=2024-02-30", "'to' has to be a day"), ("figures?to=2024-06-16", "'to' lies in the future."),
        ("figures?from=2024-06-02&to=2024-06-01", "'from' is later than 'to'."),
        ("figures?from=2024-03-15", "By day, at most 92 days are answered, 'to' included."),
        ("figures?from=2020-01-01&interval=month", "By month, at most 1100 days are answered"),
        ("figures?interval=week", "'interval' has to be day or month."),
        ("figures?from=2024-06-01&from=2024-06-02", "'from' is given twice."),
        ("figures?product_id=", "'product_id' is empty."), ("experiments?from=never", "'from' has to be a day"),
        ("experiments?from=2024-06-02&to=2024-06-01", "'from' is later than 'to'."),
      ] {
        let answer = try await service.send(.get, "/v1/\(query)")
        #expect(answer.status == 400 && answer.text.contains(sentence), "\(query): \(answer.text)")
      }
      #expect(try await service.send(.get, "/v1/figures?from=2024-03-16").status == 200)
    }
  }
}
