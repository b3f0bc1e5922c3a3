import Entitlements
import Foundation
import HTTPTransport
import HTTPTypes
import Testing
import TestSupport

@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// `openapi.yaml` and the service say the same. Every other test's answers are held against it as well.
@Suite struct OpenAPITests {
  private static let errors: [Problem.Code] = [.notFound, .methodNotAllowed]

  @Test func `openapi.yaml is served as it is written`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      let answer = try await service.send(.get, "/openapi.yaml", key: nil)
      #expect(answer.status == 200)
      #expect(answer.header("Content-Type") == "application/yaml")
      let file = packageFolder.appending(path: "Sources/CountersignServer/Routes/openapi.yaml")
      #expect(answer.body == Array(try Data(contentsOf: file)))
      #expect(answer.text.hasPrefix("openapi: 3.1.0"))
    }
  }

  @Test func `the documented paths and methods are those of the service`() async throws {
    let contract = try Contract.shared.get()
    var settings = Settings(jwt: ["secret": TokenMint.secret])
    settings.revenueCat = ["authorization_file": ["a value"]]
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      // The one path of a dialect that answers while it is switched off.
      let always = ["/v1/receipts"]
      #expect(Set(contract.operations.map(\.path) + always) == Set(service.routes.map(\.path)))
      for path in Set(service.routes.map(\.path)).subtracting(always) {
        let target = path.replacing(/{[a-z_]+}/, with: "7")
        let request = """
          OPTIONS \(target) HTTP/1.1\r
          Host: localhost\r
          Authorization: Bearer \(RunningService.supportKey)\r
          Connection: close\r
          \r

          """
        let answer = try await service.exchange(request)
        let allow = answer.split(separator: "\r\n").first { $0.lowercased().hasPrefix("allow: ") }
        let methods = Set((allow ?? "").dropFirst("allow: ".count).split(separator: ", ").map(String.init))
        let documented = Set(contract.operations.filter { $0.path == path }.map(\.method))
        #expect(methods == documented.union(documented.contains("GET") ? ["HEAD"] : []), "\(path)")
      }
    }
  }

  @Test func `the documented words are those of the service`() throws {
    let contract = try Contract.shared.get()
    func words(_ schema: String, _ property: String) throws -> [String] {
      let properties = try #require(contract.schema(schema)["properties"] as? [String: [String: Any]])
      return try #require(properties[property].flatMap { contract.values(of: $0) })
    }
    #expect(try words("Problem", "code") == Problem.Code.allCases.map(\.rawValue))
    #expect(Set(try words("Entitlement", "reason")) == Set(EntitlementReason.allCases.map(\.rawValue)))
    #expect(Set(try words("Entitlement", "status")) == Set(SubscriptionStatus.allCases.map(\.rawValue)))
    #expect(Set(try words("Entitlement", "environment")) == Set(StoreEnvironment.allCases.map(\.rawValue)))
    #expect(Set(try words("Entitlement", "profile_write")) == Set(ProfileWrite.allCases.map(\.rawValue)))
    #expect(Set(try words("Entitlement", "source")) == Set(EvidenceSource.allCases.map(\.rawValue) + ["ledger"]))
    #expect(try words("PassedOver", "cause") == Explanation.PassedOver.Cause.allCases.map(\.rawValue))
    #expect(try words("LookUp", "app_store") == SupportLookUp.AppStore.allCases.map(\.rawValue))
    #expect(
      try words("UnownedPurchase", "told_by") == SupportLookUp.UnownedPurchase.Source.allCases.map(\.rawValue))
    let foundAs = (contract.schema("LookUp")["properties"] as? [String: [String: Any]])?["found_as"]
    let kinds = (foundAs?["items"] as? [String: Any]).flatMap { contract.values(of: $0) }
    #expect(kinds == SupportLookUp.Kind.allCases.map(\.rawValue))
    #expect(try words("Reception", "outcome") == NotificationReceiver.Outcome.allCases.map(\.rawValue))
    let acknowledged = RevenueCatReceiver.Outcome.allCases.filter { $0 != .refused && $0 != .unreadable }
    #expect(try words("EventReception", "outcome") == acknowledged.map(\.rawValue))
    let source = (contract.schema("Entitlement")["properties"] as? [String: [String: Any]])?["source"]
    let explained = try #require(source?["description"] as? String)
    for word in try words("Entitlement", "source") { #expect(explained.contains("`\(word)`")) }
    let rejections: [AppStoreHealth.State] = [.sharedSecretRejected, .serverAPIKeyRejected]
    let seen = [AppStoreHealth.State.unknown, .answering, .unavailable] + rejections
    #expect(try words("Readiness", "app_store") == seen.map(\.rawValue))
  }

  @Test func `every outcome of a notification has an example`() throws {
    let examples = try Contract.shared.get().examples()
    let shown = examples.filter { $0.place.hasPrefix("POST /v1/notifications/app-store 200 ") }
    let outcomes = shown.compactMap { ($0.value as? [String: Any])?["outcome"] as? String }
    #expect(Set(outcomes) == Set(NotificationReceiver.Outcome.allCases.map(\.rawValue)))
  }

  @Test func `every problem is told at the statuses it comes with`() throws {
    let contract = try Contract.shared.get()
    for code in Problem.Code.allCases where !Self.errors.contains(code) {
      let reported = try contract.operations.filter { operation in
        try contract.responseDescription(of: operation, status: code.status.code)?.contains("`\(code.rawValue)`")
          == true
      }
      #expect(!reported.isEmpty, "\(code.rawValue) at \(code.status.code)")
    }
  }

  @Test func `the examples are what the schemas describe`() throws {
    let contract = try Contract.shared.get()
    let examples = try contract.examples()
    #expect(examples.count >= 12)
    for example in examples {
      #expect(try contract.violations(of: example.schema, by: example.value, at: example.place) == [])
    }
  }

  @Test func `every documented request body has a name, and a submission is one of two`() throws {
    let contract = try Contract.shared.get()
    // Of a notification anything is taken.
    let bodies = contract.operations.compactMap { contract.requestSchema(of: $0) }.filter { $0["description"] == nil }
    #expect(bodies.count == 21)
    for body in bodies { #expect(body["$ref"] is String, "\(body)") }
    let submission = contract.schema("Submission")
    for (value, count) in [
      (["receipt_data": "a"], 0), (["original_transaction_id": "1", "user_id": "u"], 0), (["user_id": "u"], 1),
      (["receipt_data": "a", "original_transaction_id": "1"], 1),
    ] { #expect(try contract.violations(of: submission, by: value, at: "body").count == count, "\(value)") }
  }

  @Test func `an answer that differs from the document is noticed`() throws {
    let contract = try Contract.shared.get()
    let schema = contract.schema("DowngradeBrake")
    let good: [String: Any] = [
      "engaged": true, "since": NSNull(), "looked_at": 1, "lowered": 0, "withheld": NSNull(),
      "withheld_by_rules": 0,
    ]
    #expect(try contract.violations(of: schema, by: good, at: "brake") == [])
    for (name, value) in [("engaged", 1), ("since", "yesterday"), ("lowered", 0.5), ("more", 1)] as [(String, Any)] {
      var bad = good
      bad[name] = value
      #expect(try contract.violations(of: schema, by: bad, at: "brake").count == 1, "\(name)")
    }
    #expect(try contract.violations(of: schema, by: ["engaged": true], at: "brake").count == 5)
  }
}
