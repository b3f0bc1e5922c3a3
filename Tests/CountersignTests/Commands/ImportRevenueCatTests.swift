import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import Countersign

/// `countersign import --from-revenuecat`.
@Suite struct ImportRevenueCatTests {
  private static let clock = Date(timeIntervalSince1970: 1_718_452_800.123_456_7)
  /// A month after the clock, in milliseconds.
  private static let later = "1721044800000"
  private static let earlier = "1715774400000"

  private static let customers: [RevenueCatDouble.Customer] = [
    .init(
      id: "u 1/ä",
      subscriptions: [
        RevenueCatDouble.subscription("71", starts: 1, ends: earlier, access: false, gives: "pro"),
        RevenueCatDouble.subscription("72", starts: 2, ends: later, access: true, gives: "pro"),
        RevenueCatDouble.subscription("9", of: "prod9", ends: earlier, access: true, gives: "gold"),
      ], purchases: [RevenueCatDouble.purchase("8", gives: "life")]),
    .init(
      id: "gift",
      subscriptions: [
        RevenueCatDouble.subscription("rc", of: nil, at: "promotional", ends: later, access: true, gives: "pro")
      ]),
    .init(id: "nobody"),
    .init(
      id: "$RCAnonymousID:0123456789abcdef0123456789abcdef",
      subscriptions: [
        RevenueCatDouble.subscription("GPA.1", at: "play_store", ends: later, access: true, gives: "pro")
      ],
      aliases: [
        ("$RCAnonymousID:1123456789abcdef0123456789abcdef", 9), ("old", 1), ("u4", 3), ("elder", 2),
      ]),
    .init(id: "over", purchases: [RevenueCatDouble.purchase("5", status: "refunded", gives: "pro")]),
  ]

  /// Gathers in a file, by a clock that goes on only when somebody sleeps.
  private func gather(
    _ origin: String, in directory: TemporaryDirectory, key: String = RevenueCatDouble.key, rate: Int = 6_000,
    project: String = RevenueCatDouble.project, clock: SleepingClock = SleepingClock()
  ) async throws -> Result<RevenueCatCustomers.Count, ServiceClient.Failure> {
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = [.http]
    let transport = try CurlTransport(configuration: configuration)
    defer { transport.shutdown() }
    let api = RevenueCatAPI(
      transport: transport, url: origin, key: key, rate: rate, clock: { clock.now },
      sleep: { try await clock.sleep(until: clock.now + $0) })
    let customers = RevenueCatCustomers(
      api: api, project: project, path: directory.path + "/customers.jsonl", now: { Self.clock })
    do throws(ServiceClient.Failure) { return .success(try await customers.gather()) } catch { return .failure(error) }
  }

  private func text(_ directory: TemporaryDirectory, _ suffix: String = "") -> String? {
    try? String(contentsOfFile: directory.path + "/customers.jsonl" + suffix, encoding: .utf8)
  }

  // MARK: Customers

  @Test func `every customer with a purchase or with access is a line, with what is active there`() async throws {
    let directory = try TemporaryDirectory()
    let double = RevenueCatDouble(Self.customers)
    let result = try await double.running { try await gather($0, in: directory) }
    #expect(result == .success(RevenueCatCustomers.Count(customers: 5, lines: 4)))
    let lines = try (text(directory) ?? "").split(separator: "\n").map {
      try ImportedLine(Data($0.utf8), at: Self.clock + 86_400)
    }
    #expect(lines.map(\.user) == ["u 1/ä", "gift", "u4", "over"])
    // In a grace period the end has passed, and there is access.
    #expect(lines.map(\.tiers) == [["pro", "gold", "life"], ["pro"], ["pro"], []])
    #expect(lines.map(\.purchasesElsewhere) == [0, 0, 1, 0])
    // Of a product bought again, the newest transaction: Apple tells of all.
    #expect(lines.first?.proofs == [.transactionID("72"), .transactionID("8"), .transactionID("9")])
    #expect(lines.dropFirst().map(\.proofs) == [[], [], [.transactionID("5")]])
    let end = Date(timeIntervalSince1970: 1_721_044_800)
    #expect(lines.map(\.promotions) == [[], [.init(tier: "pro", end: end)], [], []])

    let path = directory.path + "/customers.jsonl"
    #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
    #expect(text(directory, ".cursor") == nil)
    #expect(double.requests.allSatisfy { $0.method == "GET" && !$0.target.contains(RevenueCatDouble.key) })
    // Aliases are asked of a customer alone whose ID the SDK made up.
    #expect(double.paths.filter { $0.hasSuffix("/aliases") }.count == 2)
  }

  // MARK: Going on

  @Test func `a run that was stopped goes on with its page, and the file is as without the stop`() async throws {
    let (whole, stopped) = (try TemporaryDirectory(), try TemporaryDirectory())
    _ = try await RevenueCatDouble(Self.customers).running { try await gather($0, in: whole) }

    let double = RevenueCatDouble(Self.customers)
    try await double.running { origin in
      double.plan(.answer(.json("{}", status: 401)), at: "/nobody/subscriptions")
      _ = try stopped.write("customers.jsonl.progress", "7\n")
      guard case .failure(.refusedCredential) = try await gather(origin, in: stopped) else {
        Issue.record("the run was not stopped")
        return
      }
      // Settled lines of another file do not count.
      #expect(text(stopped, ".progress") == nil)
      let first = try #require(text(stopped))
      #expect(!first.isEmpty && text(whole)?.hasPrefix(first) == true)
      // A page that was written in part.
      _ = try stopped.write("customers.jsonl", first + #"{"subscriber":{"original"#)
      _ = try stopped.write("customers.jsonl.progress", "1\n")
      let before = double.requests.count
      #expect(
        try await gather(origin, in: stopped) == .success(RevenueCatCustomers.Count(customers: 5, lines: 4)))
      #expect(text(stopped) == text(whole) && text(stopped, ".cursor") == nil && text(stopped, ".progress") == "1\n")
      #expect(!double.paths.dropFirst(before).contains { $0.contains("/gift/") })
    }
  }

  @Test func `a file of another project is left alone`() async throws {
    let directory = try TemporaryDirectory()
    let double = RevenueCatDouble(Self.customers)
    try await double.running { origin in
      double.plan(.answer(.json("{}", status: 403)), at: "/gift/subscriptions")
      _ = try await gather(origin, in: directory)
      guard case .failure(.refused(let sentence)) = try await gather(origin, in: directory, project: "other") else {
        Issue.record("the other project was taken")
        return
      }
      #expect(sentence.contains("the project \"proj1ab2c3d4\"") && sentence.contains("Name another file"))
    }
  }

  // MARK: Pace

  @Test func `requests keep the pace`() async throws {
    let directory = try TemporaryDirectory()
    let clock = SleepingClock()
    let double = RevenueCatDouble(Self.customers)
    _ = try await double.running { try await gather($0, in: directory, rate: 60, clock: clock) }
    #expect(clock.elapsed >= .seconds(double.requests.count - 1))
  }

  @Test(arguments: [
    (429, #"{"type":"rate_limit_error","backoff_ms":2500}"#, nil, 2.5), (429, "{}", "7", 7.0),
    // The two are of the same length by the reference; older pages give Retry-After in milliseconds.
    (429, #"{"backoff_ms":1500}"#, "1500", 1.5), (423, #"{"backoff_ms":4000}"#, nil, 4.0),
    (503, "", nil, 1.0), (429, #"{"backoff_ms":-5}"#, nil, 1.0), (429, #"{"backoff_ms":1e18}"#, nil, 300.0),
  ])
  func `an answer that asks for a pause gets it`(status: Int, body: String, header: String?, pause: Double) async throws
  {
    let directory = try TemporaryDirectory()
    let clock = SleepingClock()
    let double = RevenueCatDouble([Self.customers[1]])
    let result = try await double.running { origin in
      double.plan(
        .answer(TestAnswer(status: status, headers: header.map { [("Retry-After", $0)] } ?? [], text: body)),
        at: "/customers")
      return try await gather(origin, in: directory, clock: clock)
    }
    #expect(result == .success(RevenueCatCustomers.Count(customers: 1, lines: 1)))
    #expect(clock.elapsed >= .seconds(pause) && clock.elapsed < .seconds(pause + 1))
  }

  // MARK: Trouble

  @Test func `a connection that ends in the middle of an answer is tried again`() async throws {
    let directory = try TemporaryDirectory()
    let double = RevenueCatDouble(Self.customers)
    let result = try await double.running { origin in
      for path in ["/customers", "/gift/subscriptions", "/over/purchases"] { double.plan(.cut, at: path) }
      return try await gather(origin, in: directory)
    }
    #expect(result == .success(RevenueCatCustomers.Count(customers: 5, lines: 4)))
    #expect(double.paths.filter { $0.hasSuffix("/gift/subscriptions") }.count == 2)
  }

  @Test func `a customer who was deleted meanwhile is left out`() async throws {
    let directory = try TemporaryDirectory()
    let double = RevenueCatDouble(Self.customers)
    let result = try await double.running { origin in
      double.plan(.answer(.json("{}", status: 404)), at: "/gift/purchases")
      return try await gather(origin, in: directory)
    }
    #expect(result == .success(RevenueCatCustomers.Count(customers: 5, lines: 3)))
  }

  @Test(arguments: [
    (401, "{}", ServiceClient.Failure.refusedCredential(""), "secret key of version 2"),
    (403, "{}", .refusedCredential(""), "permissions"), (404, "{}", .refused(""), "no project \"proj1ab2c3d4\""),
    (400, #"{"message":"id is \u001b[31mtoo long"}"#, .refused(""), "answers 400: id is [31mtoo long."),
    (302, "", .unreachable(""), "the answer is 302"), (200, "<html>", .unreachable(""), "is no list"),
    (200, #"{"items":[{"name":"x"}]}"#, .unreachable(""), "is no list"),
    (200, #"{"items":[],"next_page":"https://elsewhere.example/v2/projects/p"}"#, .unreachable(""), "cannot be"),
    (200, #"{"items":[],"next_page":"/v2/projects/proj1ab2c3d4/customers?limit=100"}"#, .unreachable(""), "cannot be"),
    (200, String(repeating: " ", count: RevenueCatAPI.answerLimit + 1), .unreachable(""), "too large"),
  ])
  func `an answer that cannot be used ends the command with a sentence`(
    status: Int, body: String, kind: ServiceClient.Failure, sentence: String
  ) async throws {
    let directory = try TemporaryDirectory()
    let double = RevenueCatDouble(Self.customers)
    let result = try await double.running { origin in
      double.plan(.answer(.json(body, status: status)), at: "/customers")
      return try await gather(origin, in: directory)
    }
    guard case .failure(let failure) = result else {
      Issue.record("there was no failure")
      return
    }
    #expect(failure.exitCode == kind.exitCode)
    #expect(
      failure.sentence.contains(sentence) && !failure.sentence.contains(RevenueCatDouble.key), "\(failure.sentence)")
  }

  // MARK: The command

  @Test func `the command fetches, compares, gives what was given there, and asks once`() async throws {
    let double = RevenueCatDouble([Self.customers[1], .init(id: "nobody")])
    let directory = try TemporaryDirectory()
    let file = directory.path + "/customers.jsonl"
    let keyFile = try directory.write("revenuecat.key", RevenueCatDouble.key + "\n")
    try await RunningService.run(apple: .unreachable, now: { Self.clock }) { service in
      try await double.running { origin in
        func command(_ arguments: String...) async throws -> ChildProcess.Ending {
          try await ChildProcess.countersign(
            ["import", file, "--url", service.origin, "--from-revenuecat", RevenueCatDouble.project] + arguments + [
              "--revenuecat-url", origin,
            ]
          ).ending()
        }
        let keyless = try await command("--dry-run")
        #expect(
          keyless.code == 64 && keyless.error.contains("set REVENUECAT_KEY, or name a file with --revenuecat-key-file"))
        let compared = try await command("--dry-run", "--revenuecat-key-file", keyFile)
        #expect(
          compared.code == 1 && compared.output.contains("1 gift: pro there, free here (no_purchases)"), "\(compared)")
        #expect(
          compared.error.contains("2 customers") && compared.error.contains("the 1 with a purchase"),
          "\(compared.error)")
        #expect(text(directory, ".differences")?.contains("gift") == true)
        let requests = double.requests.count
        let imported = try await command("--grant-promotions", "--revenuecat-key-file", keyFile)
        #expect(imported.code == 0 && imported.error.contains("RevenueCat is not asked"), "\(imported)")
        #expect(double.requests.count == requests)
        #expect(try await service.profile("gift").verdict == "pro active granted")
        let wrong = try await ChildProcess.countersign([
          "import", file + "2", "--url", service.origin, "--from-revenuecat", RevenueCatDouble.project,
          "--revenuecat-key-file", try directory.write("wrong.key", "sk_wrong"), "--revenuecat-url", origin,
        ]).ending()
        #expect(wrong.code == 77 && wrong.error.contains("version 2") && !wrong.error.contains("sk_wrong"), "\(wrong)")
      }
    }
  }
}
