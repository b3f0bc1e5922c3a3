import Foundation
import TestSupport
import Testing

@testable import AppStoreSimulator

/// The effect of a trouble that curl has to see.
struct ExpectedTrouble: Sendable, CustomTestStringConvertible {
  var trouble: Trouble
  /// curl's exit codes, any of them.
  var codes: Set<Int32> = [0]
  var status = 200
  var seconds = 60.0
  /// More of curl's options.
  var options: [String] = []
  var check: @Sendable (Exchange) -> Bool

  var testDescription: String { trouble.rawValue }

  static func status(_ trouble: Trouble, _ status: Int, isRetryable: Bool? = nil) -> ExpectedTrouble {
    ExpectedTrouble(trouble: trouble) { exchange in
      exchange.json?["status"] as? Int == status && exchange.json?["is-retryable"] as? Bool == isRetryable
        && exchange.json?["receipt"] == nil
    }
  }
}

@Suite("Troubles over real TLS", .enabled(if: Tool.curl != nil, "curl is not installed"))
struct TroubleTests {
  /// The troubles that every service shows alike.
  static let troublesOfAll: [ExpectedTrouble] = [
    ExpectedTrouble(trouble: .http503, status: 503) { $0.json == nil },
    ExpectedTrouble(trouble: .http429, status: 429) { $0.headers.lowercased().contains("retry-after: 2\r\n") },
    ExpectedTrouble(trouble: .html) { $0.text.hasPrefix("<!DOCTYPE html>") },
    ExpectedTrouble(trouble: .emptyBody) { $0.body.isEmpty },
    ExpectedTrouble(trouble: .notJSON) { $0.json == nil && !$0.body.isEmpty },
    ExpectedTrouble(trouble: .truncated, codes: [18]) { !$0.body.isEmpty && $0.json == nil },
    ExpectedTrouble(trouble: .stall, codes: [28], status: 0, seconds: 4) { $0.headers.isEmpty },
    ExpectedTrouble(trouble: .slowDrip, codes: [28], seconds: 5) { (1...11).contains($0.body.count) },
    ExpectedTrouble(trouble: .reset, codes: [35, 56], status: 0) { $0.headers.isEmpty },
    // At full speed it keeps both sides busy.
    ExpectedTrouble(trouble: .endless, codes: [28], seconds: 4, options: ["--limit-rate", "64k"]) {
      $0.body.count > 1 << 14
    },
    ExpectedTrouble(trouble: .redirect, status: 302) { $0.headers.lowercased().contains("location: /elsewhere") },
  ]

  /// The others, as a caller of verifyReceipt sees them.
  static let troubles: [ExpectedTrouble] = [
    .status(.status21000, 21000), .status(.status21001, 21001), .status(.status21002, 21002),
    .status(.status21003, 21003), .status(.status21004, 21004), .status(.status21005, 21005),
    .status(.status21009, 21009), .status(.status21100Retryable, 21100, isRetryable: true),
    .status(.status21100NotRetryable, 21100, isRetryable: false), .status(.status21199, 21199),
    .status(.statusUnheardOf, 29999), .status(.pingPong, 21007),
    ExpectedTrouble(trouble: .http500, status: 500) { $0.json?["status"] as? Int == 21003 },
    ExpectedTrouble(trouble: .missingReceipt) {
      $0.json?["status"] as? Int == 0 && $0.json?["receipt"] == nil
    },
    ExpectedTrouble(trouble: .duplicateKeys) {
      $0.text.contains(#""status":0,"status":21010}"#) && $0.text.contains(#""receipt":"#)
    },
    ExpectedTrouble(trouble: .trailingJunk) { $0.text.hasSuffix(#""status":0}"# + "\n<!-- edge-07 -->") },
    ExpectedTrouble(trouble: .giant) { $0.body.count > 8 << 20 && $0.json?["status"] as? Int == 0 },
    ExpectedTrouble(trouble: .badDate) { exchange in
      Verdict(exchange.json ?? [:]).latest.first?.text("cancellation_date_ms") == "not-a-date"
    },
  ]

  /// The others, as a caller of the Server API sees them.
  static let serverAPITroubles: [ExpectedTrouble] = [
    ExpectedTrouble(trouble: .serverAPIRetryable, status: 500) { $0.json?["errorCode"] as? Int == 5_000_001 },
    ExpectedTrouble(trouble: .serverAPINotFoundRetryable, status: 404) { $0.json?["errorCode"] as? Int == 4_040_002 },
    ExpectedTrouble(trouble: .serverAPIKeyRejected, status: 401) { $0.body.isEmpty },
    ExpectedTrouble(trouble: .serverAPIRateLimited, status: 429) { exchange in
      exchange.json?["errorCode"] as? Int == 4_290_000
        && exchange.headers.lowercased().contains("retry-after: \(noon.milliseconds + 60_000)\r\n")
    },
    ExpectedTrouble(trouble: .http500, status: 500) { $0.json?["errorCode"] as? Int == 4_040_010 },
    ExpectedTrouble(trouble: .duplicateKeys) { $0.text.hasSuffix(#","environment":"Xcode"}"#) },
    ExpectedTrouble(trouble: .trailingJunk) { $0.text.hasSuffix("<!-- edge-07 -->") },
    ExpectedTrouble(trouble: .giant) { $0.body.count > 8 << 20 && $0.json?["data"] != nil },
    ExpectedTrouble(trouble: .pingPong, status: 404) { $0.json?["errorCode"] as? Int == 4_040_010 },
  ]

  @Test(
    "a trouble of the Server API is seen by its caller, by its customer and by the switch",
    arguments: serverAPITroubles + troublesOfAll)
  func serverAPITrouble(expected: ExpectedTrouble) async throws {
    let simulator = try await simulatorAtNoon()
    let header = ["-H", "Authorization: Bearer " + (try DeveloperToken().signed())]
    let own = try simulator.issueTransaction(trouble: expected.trouble, subscriber: 1)
    let healthy = try simulator.issueTransaction(subscriber: 2)
    let base = simulator.serverAPIURL + "/inApps/v1/subscriptions/"
    for (transaction, isSwitched) in [(own, false), (healthy, true)] {
      if isSwitched { simulator.setTrouble(expected.trouble, count: 1) }
      // A call that the trouble does not befall does not use it up.
      let exchange = try await Exchange.send(
        "GET", base + transaction.transactionID, root: simulator.rootPEMPath, seconds: expected.seconds,
        extra: header + expected.options)
      #expect(expected.codes.contains(exchange.code), "curl ended with \(exchange.code)")
      #expect(exchange.status == expected.status)
      #expect(expected.check(exchange))
    }
    let after = try await Exchange.send(
      "GET", base + healthy.transactionID, root: simulator.rootPEMPath, extra: header)
    #expect(after.json?["data"] != nil)
    await simulator.stop()
  }

  /// The others, as a caller of DeviceCheck sees them who asks about a device whose bits are set.
  static let deviceCheckTroubles: [ExpectedTrouble] = [
    ExpectedTrouble(trouble: .deviceCheckKeyRefused, status: 401) { $0.json == nil },
    ExpectedTrouble(trouble: .deviceCheckTokenRefused, status: 400) { $0.text.hasPrefix("Missing") },
    ExpectedTrouble(trouble: .http500, status: 500) { $0.json?["bit0"] as? Bool == true },
    ExpectedTrouble(trouble: .duplicateKeys) { $0.text.hasSuffix(#","bit0":true}"#) },
    ExpectedTrouble(trouble: .trailingJunk) { $0.text.hasSuffix("<!-- edge-07 -->") },
    ExpectedTrouble(trouble: .giant) { $0.body.count > 8 << 20 && $0.json?["bit1"] as? Bool == false },
  ]

  @Test(
    "a trouble of DeviceCheck is seen by its caller, on either server", arguments: deviceCheckTroubles + troublesOfAll)
  func deviceCheckTrouble(expected: ExpectedTrouble) async throws {
    let simulator = try await simulatorAtNoon()
    let header = ["-H", "Authorization: Bearer " + (try TeamToken().signed())]
    for (environment, base) in [
      (StoreEnvironment.production, simulator.deviceCheckURL), (.sandbox, simulator.deviceCheckDevelopmentURL),
    ] {
      let body = JSON.object([
        ("device_token", .string(simulator.deviceToken(of: "phone-1", environment: environment))),
        ("transaction_id", "1"), ("timestamp", .integer(noon.milliseconds)), ("bit0", true), ("bit1", false),
      ]).text
      let update = try await Exchange.send(
        "POST", base + "/v1/update_two_bits", root: simulator.rootPEMPath, body: body, extra: header)
      #expect(update.status == 200)
      simulator.setTrouble(expected.trouble, count: 1, environment: environment)
      let exchange = try await Exchange.send(
        "POST", base + "/v1/query_two_bits", root: simulator.rootPEMPath, body: body, seconds: expected.seconds,
        extra: header + expected.options)
      #expect(expected.codes.contains(exchange.code), "curl ended with \(exchange.code)")
      #expect(exchange.status == expected.status)
      #expect(expected.check(exchange))
      let after = try await Exchange.send(
        "POST", base + "/v1/query_two_bits", root: simulator.rootPEMPath, body: body, extra: header)
      #expect(after.json?["bit0"] as? Bool == true)
      #expect(after.json?["bit1"] as? Bool == false)
    }
    await simulator.stop()
  }

  @Test("a trouble of one service is no trouble of the other, and is not used up by it")
  func otherService() throws {
    let store = try Store()
    let order = ReceiptOrder()
    let body = requestBody(try store.receipt(order))
    let path = "/inApps/v1/subscriptions/480000000010000"
    store.troubles.set(.serverAPIKeyRejected, count: 1, environment: nil)
    #expect(try store.ask(body).status == 0)
    #expect(try store.get(path).status == 401)
    store.troubles.set(.status21005, count: 1, environment: nil)
    #expect(try store.get(path).status == 200)
    #expect(try store.ask(body).status == 21005)
  }

  @Test("a trouble is seen by the client, by its receipt and by the switch", arguments: troubles + troublesOfAll)
  func trouble(expected: ExpectedTrouble) async throws {
    let simulator = try await simulatorAtNoon()
    let own = try simulator.issueReceipt(trouble: expected.trouble)
    let healthy = try simulator.issueReceipt()
    for (receipt, isSwitched) in [(own, false), (healthy, true)] {
      if isSwitched { simulator.setTrouble(expected.trouble, count: 1) }
      let exchange = try await Exchange.send(
        "POST", simulator.productionURL, root: simulator.rootPEMPath, body: requestBody(receipt.receiptData),
        seconds: expected.seconds, extra: expected.options)
      #expect(expected.codes.contains(exchange.code), "curl ended with \(exchange.code)")
      #expect(exchange.status == expected.status)
      #expect(expected.check(exchange))
    }
    // It was one call's trouble: the next is answered.
    let after = try await Exchange.send(
      "POST", simulator.productionURL, root: simulator.rootPEMPath, body: requestBody(healthy.receiptData))
    #expect(after.json?["status"] as? Int == 0)
    await simulator.stop()
  }

  @Test("every trouble is in the table of each service that it befalls")
  func tableIsComplete() {
    func expect(_ table: [ExpectedTrouble], for service: Trouble.Service) {
      let listed = (table + Self.troublesOfAll).map(\.trouble)
      #expect(Set(listed) == Set(Trouble.allCases.filter { $0.befalls(service) }), "\(service)")
    }
    expect(Self.troubles, for: .verifyReceipt)
    expect(Self.serverAPITroubles, for: .serverAPI)
    expect(Self.deviceCheckTroubles, for: .deviceCheck)
    #expect(Trouble.allCases.allSatisfy { trouble in Trouble.Service.allCases.contains { trouble.befalls($0) } })
  }

  @Test("a followed redirect is noticed")
  func followedRedirect() async throws {
    let simulator = try await Simulator.start()
    let receipt = try simulator.issueReceipt(trouble: .redirect)
    let exchange = try await Exchange.send(
      "POST", simulator.productionURL, root: simulator.rootPEMPath, body: requestBody(receipt.receiptData),
      extra: ["-L"])
    #expect(exchange.status == 200)
    #expect(simulator.calls.redirectsFollowed == 1)
    await simulator.stop()
  }

  @Test("a client that gives up on a stalled answer is no longer in flight")
  func stallEnds() async throws {
    let simulator = try await Simulator.start()
    simulator.setTrouble(.stall)
    let body = requestBody(try simulator.issueReceipt().receiptData)
    let exchange = try await Exchange.send(
      "POST", simulator.productionURL, root: simulator.rootPEMPath, body: body, seconds: 4)
    #expect(exchange.code == 28)
    let deadline = ContinuousClock.now + .seconds(60)
    while simulator.calls.inFlight > 0, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(10)) }
    #expect(simulator.calls.inFlight == 0)
    #expect(simulator.calls.peakInFlight == 1)
    await simulator.stop()
  }
}

@Suite("A running simulator", .enabled(if: Tool.curl != nil, "curl is not installed"))
struct RunningSimulatorTests {
  @Test("answers on both paths under its own root, by its clock")
  func answers() async throws {
    let simulator = try await simulatorAtNoon { $0.sharedSecret = "s3cret" }
    for (environment, url) in [
      (StoreEnvironment.production, simulator.productionURL), (.sandbox, simulator.sandboxURL),
    ] {
      let receipt = try simulator.issueReceipt(environment: environment, subscriber: 4)
      let exchange = try await Exchange.send(
        "POST", url, root: simulator.rootPEMPath, body: requestBody(receipt.receiptData, password: "s3cret"))
      let verdict = Verdict(exchange.json ?? [:])
      #expect(verdict.status == 0)
      #expect(verdict.latest.first?.text("original_transaction_id") == receipt.originalTransactionIDs.first)
      #expect(verdict.receipt.days("request_date") == 0)
    }
    simulator.advanceClock(by: .seconds(86_400))
    #expect(simulator.now == noon.adding(days: 1).date)
    await simulator.stop()
  }

  @Test("a client that does not know the root refuses the simulator's certificate")
  func unknownRoot() async throws {
    let simulator = try await Simulator.start()
    let exchange = try await Exchange.send("POST", simulator.productionURL, body: "{}")
    #expect(exchange.code == 60)
    await simulator.stop()
  }

  @Test("the simulator's certificate is good for the name localhost")
  func localhost() async throws {
    let simulator = try await Simulator.start()
    let url = simulator.productionURL.replacing("127.0.0.1", with: "localhost")
    let exchange = try await Exchange.send("POST", url, root: simulator.rootPEMPath, body: "{}", extra: ["-4"])
    #expect(exchange.json?["status"] as? Int == 21002)
    await simulator.stop()
  }

  @Test("an unknown path is 404, a GET is status 21000")
  func otherRequests() async throws {
    let simulator = try await Simulator.start()
    let unknown = try await Exchange.send("POST", simulator.productionURL + "/x", root: simulator.rootPEMPath)
    #expect(unknown.status == 404)
    let get = try await Exchange.send("GET", simulator.productionURL, root: simulator.rootPEMPath)
    #expect(get.status == 200)
    #expect(get.json?["status"] as? Int == 21000)
    await simulator.stop()
  }

  @Test("a delay holds answers back, and calls at once are counted")
  func delay() async throws {
    let simulator = try await Simulator.start()
    // Time enough for four of curl's processes on a busy machine.
    simulator.setDelay(.seconds(3))
    let body = requestBody(try simulator.issueReceipt().receiptData)
    let (url, root) = (simulator.productionURL, simulator.rootPEMPath)
    let start = ContinuousClock.now
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          let exchange = try await Exchange.send("POST", url, root: root, body: body)
          #expect(exchange.json?["status"] as? Int == 0)
        }
      }
      try await group.waitForAll()
    }
    #expect(ContinuousClock.now - start >= .seconds(3))
    #expect(simulator.calls.total == 4)
    #expect(simulator.calls.peakInFlight >= 2)
    simulator.resetCalls()
    #expect(simulator.calls == CallBook.Summary())
    await simulator.stop()
  }

  @Test("stopping frees the port, ends what stalls, and removes the temporary root")
  func stops() async throws {
    let port = try ReservedPort()
    defer { withExtendedLifetime(port) {} }
    var configuration = Simulator.Configuration()
    configuration.port = port.number
    let simulator = try await Simulator.start(configuration)
    simulator.setTrouble(.stall)
    let (url, root) = (simulator.productionURL, simulator.rootPEMPath)
    let body = requestBody(try simulator.issueReceipt().receiptData)
    #expect(FileManager.default.fileExists(atPath: root))
    async let stalled = Exchange.send("POST", url, root: root, body: body, seconds: 600)
    let deadline = ContinuousClock.now + .seconds(60)
    while simulator.calls.inFlight == 0, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(10)) }
    // A stalled answer would go on for ten minutes.
    await simulator.stop()
    let exchange = try await stalled
    #expect(exchange.code != 0 && exchange.code != 28)
    #expect(!FileManager.default.fileExists(atPath: root))
    let refused = try await Exchange.send("POST", url, body: body)
    #expect(refused.code == 7)
  }

  @Test("a port that is taken is an error that names it")
  func takenPort() async throws {
    let simulator = try await Simulator.start()
    var configuration = Simulator.Configuration()
    configuration.port = try #require(URL(string: simulator.productionURL)?.port)
    let port = configuration.port
    await #expect { _ = try await Simulator.start(configuration) } throws: { error in
      "\(error)" == "cannot listen on 127.0.0.1, port \(port): Address already in use"
    }
    await simulator.stop()
  }
}
