import CountersignAPI
import Foundation
import HTTPTransport
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import Countersign

/// Variants that users see, and `/v1/experiments`.
@Suite struct ExperimentsTests {
  /// 2024-06-15T12:00:00Z
  private static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  private static let halves = "{ headline: { variants: { control: 1, family: 1 } } }"

  private static func settings(_ experiments: String) -> Settings {
    Settings(
      server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret], catalog: ["experiments": experiments])
  }

  private func variant(_ service: RunningService, _ user: String) async throws
    -> (variant: String?, tag: String)
  {
    let answer = try await service.send(.get, "/v1/profiles/\(user)/access")
    let access = try JSONDecoder.countersign.decode(AccessResponse.self, from: Data(answer.body))
    return (access.experiments["headline"], answer.header("ETag") ?? "")
  }

  private func report(
    _ service: RunningService, _ user: String, _ variant: String, at: String? = nil, key: String? = nil
  ) async throws -> Answer {
    let moment = at.map { #","at":"\#($0)""# } ?? ""
    return try await service.send(
      .post, "/v1/events", key: key ?? RunningService.serviceKey,
      body: """
        {"events":[{"type":"experiment_exposed","user_id":"\(user)"\(moment),
          "properties":{"experiment":"headline","variant":"\(variant)","screen":"settings"}}]}
        """)
  }

  private func experiments(_ service: RunningService, _ query: String = "") async throws -> ExperimentsResponse {
    let answer = try await service.send(.get, "/v1/experiments\(query)", key: RunningService.supportKey)
    #expect(answer.status == 200, "\(answer.text)")
    return try JSONDecoder.countersign.decode(ExperimentsResponse.self, from: Data(answer.body))
  }

  @Test func `without the experiment the figures stay`() async throws {
    let directory = try TemporaryDirectory()
    func run(_ experiments: String, body: @Sendable (RunningService) async throws -> Void) async throws {
      try await RunningService.run(
        apple: .unreachable, settings: Self.settings(experiments), directory: directory.url, body: body
      )
    }
    try await run(Self.halves) { service async throws in
      for user in ["anna", "ben"] {
        let variant = try #require(try await variant(service, user).variant)
        #expect(try await report(service, user, variant).text == #"{"recorded":1,"unknown_variants":0}"# + "\n")
      }
    }
    try await run("{ other: { variants: { a: 1 } } }") { service async throws in
      try await eventually { try await experiments(service).pending == 0 }
      let known = try await experiments(service).experiments
      #expect(known.map(\.name) == ["other", "headline"] && known.map(\.isRunning) == [true, false])
      #expect(known.last?.variants.reduce(0) { $0 + $1.exposed } == 2)
      #expect(known.last?.variants.allSatisfy { $0.weight == nil } == true)
      #expect(known.first?.variants.first?.conversion == nil)
    }
    // The variant that somebody saw is theirs again when it is back, whatever its weight.
    try await run("{ headline: { variants: { control: 1, family: 1, savings: 98 }, salt: other } }") {
      service async throws in
      for user in ["anna", "ben"] { #expect(try await variant(service, user).variant != "savings") }
    }
  }

  @Test func `an exposure is shown from then on, and a cached answer notices`() async throws {
    try await RunningService.run(
      apple: .unreachable, settings: Self.settings("{ headline: { variants: { control: 1, family: 0 } } }"),
      now: { noon }
    ) { service async throws in
      let token = try TokenMint.user(Self.user, at: noon)
      // The ledger knows the user, so that answers are kept.
      _ = try await service.send(
        .post, "/v1/profiles/\(Self.user)/grants", key: RunningService.supportKey,
        body: #"{"tier":"pro","for":"30d","note":"why"}"#)
      let before = try await variant(service, Self.user)
      #expect(before.variant == "control")
      #expect(try await variant(service, Self.user).tag == before.tag)
      // Another device, of before the weights changed.
      #expect(try await report(service, Self.user, "family", key: token).status == 200)
      let after = try await variant(service, Self.user)
      #expect(after.variant == "family" && after.tag != before.tag)
      #expect(try await report(service, Self.user, "control", key: token).status == 200)
      #expect(try await variant(service, Self.user) == after)
      let export = try await service.send(.get, "/v1/profiles/\(Self.user)/export", key: RunningService.supportKey)
      let kept = #"[{"experiment":"headline","exposed_at":"2024-06-15T12:00:00Z","variant":"family"}]"#
      #expect(export.text.contains("\"experiments\":\(kept)"), "\(export.text)")
      _ = try await service.send(.delete, "/v1/profiles/\(Self.user)", key: RunningService.supportKey)
      #expect(try await variant(service, Self.user).variant == "control")
    }
  }

  @Test func `a variant that the catalog lacks is kept as an event, and changes nothing`() async throws {
    try await RunningService.run(
      apple: .unreachable, settings: Self.settings(Self.halves)
    ) { service async throws in
      let before = try await variant(service, "anna").variant
      let answer = try await service.send(
        .post, "/v1/events",
        body: """
          {"events":[
            {"type":"experiment_exposed","user_id":"anna","properties":{"experiment":"headline","variant":"old"}},
            {"type":"experiment_exposed","user_id":"anna","properties":{"experiment":"former","variant":"control"}},
            {"type":"paywall_viewed","user_id":"anna"}]}
          """)
      #expect(answer.text == #"{"recorded":3,"unknown_variants":2}"# + "\n")
      #expect(try await variant(service, "anna").variant == before)
      #expect(try await service.send(.get, "/v1/events").text.contains("evt_1718452800000_3"))
      for properties in ["{}", #"{"experiment":"headline"}"#, #"{"experiment":"headline","variant":1}"#] {
        let refused = try await service.send(
          .post, "/v1/events",
          body: #"{"events":[{"type":"experiment_exposed","user_id":"anna","properties":\#(properties)}]}"#)
        #expect(refused.status == 400)
        #expect(refused.text.contains("needs the texts 'experiment' and 'variant'"), "\(refused.text)")
      }
    }
  }

  @Test func `figures tell apart who had paid before, who began a trial, and who paid`() async throws {
    try await SimulatedStore.run { store async throws in
      try await RunningService.run(
        apple: store.apple, settings: Self.settings(Self.halves)
      ) { service async throws in
        // Before the purchase, and after it.
        for (number, (user, scenario, exposedAt)) in [
          ("anna", Scenario.subscriber, "2024-04-01T00:00:00Z"), ("ben", .renewing, "2024-06-15T11:00:00Z"),
          ("cleo", .trial, "2024-04-01T00:00:00Z"),
        ].enumerated() {
          #expect(try await report(service, user, "control", at: exposedAt).status == 200)
          let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 1)).receiptData
          _ = try await service.validate(receipt, user: user)
        }
        #expect(try await report(service, "dora", "family").status == 200)
        try await eventually { try await experiments(service).pending == 0 }
        let found = try await experiments(service).experiments
        #expect(found.map(\.name) == ["headline"] && found.first?.hasStrangeShares == nil)
        let control = try #require(found.first?.variants.first { $0.name == "control" })
        #expect(control.weight == 1 && control.exposed == 3 && control.paidBefore == 1)
        #expect(control.trials == 1 && control.paid == 1 && control.conversion == 0.5)
        #expect(try #require(control.conversionLow) < 0.5 && #require(control.conversionHigh) > 0.5)
        let family = try #require(found.first?.variants.last)
        #expect(family.name == "family" && family.exposed == 1 && family.paid == 0 && family.conversion == 0)

        let may = try #require(try await experiments(service, "?from=2024-05-01").experiments.first)
        #expect(may.variants.map(\.exposed) == [1, 1])
        let april = try #require(try await experiments(service, "?to=2024-04-30").experiments.first)
        #expect(april.variants.map(\.exposed) == [2, 0])
      }
    }
  }
  @Test func `a variant that is surely better is named, and nothing is said before`() async throws {
    try await SimulatedStore.run { store async throws in
      try await RunningService.run(
        apple: store.apple, settings: Self.settings(Self.halves)
      ) { service async throws in
        for (variant, number) in [("control", 0), ("control", 1), ("family", 0), ("family", 1)] {
          let events = (0..<50).map { user in
            """
            {"type":"experiment_exposed","user_id":"\(variant)-\(number * 50 + user)","at":"2024-04-01T00:00:00Z",
              "properties":{"experiment":"headline","variant":"\(variant)"}}
            """
          }
          let body = "{\"events\":[\(events.joined(separator: ","))]}"
          #expect(try await service.send(.post, "/v1/events", body: body).status == 200)
        }
        for user in 0..<45 {
          let receipt = try store.simulator.issueReceipt(.subscriber, subscriber: Int64(user + 1)).receiptData
          _ = try await service.validate(receipt, user: "family-\(user)")
          guard user == 8 else { continue }
          try await eventually { try await experiments(service).experiments.first?.variants.last?.paid == 9 }
          #expect(try await experiments(service).experiments.first?.ahead == nil, "nine payers are few")
        }
        try await eventually { try await experiments(service).experiments.first?.variants.last?.paid == 45 }
        let found = try #require(try await experiments(service).experiments.first)
        #expect(found.ahead == "family" && found.hasStrangeShares == false)
        #expect(found.variants.map(\.paid) == [0, 45])
      }
    }
  }
}
