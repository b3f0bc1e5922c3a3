import Foundation
import Testing

@testable import AppStoreSimulator

@Suite("The control API", .enabled(if: Tool.curl != nil, "curl is not installed"))
struct ControlTests {
  private func withSimulator(
    _ test: (RunningSimulator, _ control: String) async throws -> Void
  ) async throws {
    let simulator = try await simulatorAtNoon { $0.controlPort = 0 }
    do {
      try await test(simulator, try #require(simulator.controlURL))
    } catch {
      await simulator.stop()
      throw error
    }
    await simulator.stop()
  }

  @Test("moves the clock and tells it")
  func clock() async throws {
    try await withSimulator { simulator, control in
      func post(_ body: String) async throws -> String? {
        try await Exchange.send("POST", control + "/clock", body: body).json?.text("now")
      }
      let told = try await Exchange.send("GET", control + "/clock")
      #expect(told.json?.text("now") == "2026-01-15T12:00:00Z")
      let advanced = try await post(#"{"advance":"30d"}"#)
      #expect(advanced == "2026-02-14T12:00:00Z")
      let set = try await post(#"{"now":"2027-03-01T00:00:00Z"}"#)
      #expect(set == "2027-03-01T00:00:00Z")
      #expect(simulator.now == Timestamp(text: "2027-03-01T00:00:00Z")?.date)
      let before = Timestamp(Date())
      let real = try await Exchange.send("POST", control + "/clock", body: #"{"real":true}"#)
      #expect(real.status == 200)
      #expect(Timestamp(simulator.now) >= before)
    }
  }

  @Test("issues receipts that the store answers for")
  func receipts() async throws {
    try await withSimulator { simulator, control in
      let order = #"{"scenario":"upgraded","environment":"sandbox","subscriber":12,"bundle_id":"org.example.x"}"#
      let issued = try await Exchange.send("POST", control + "/receipts", body: order)
      #expect(issued.json?["original_transaction_ids"] as? [String] == ["2000000000120000"])
      let receipt = try #require(issued.json?.text("receipt_data"))
      let exchange = try await Exchange.send(
        "POST", simulator.sandboxURL, root: simulator.rootPEMPath, body: requestBody(receipt))
      #expect(Verdict(exchange.json ?? [:]).receipt.text("bundle_id") == "org.example.x")
    }
  }

  @Test("begins stories that it signs transactions and notifications of")
  func transactions() async throws {
    try await withSimulator { simulator, control in
      let inbox = try await Inbox.open()
      let target = try await Exchange.send("POST", control + "/notifications", body: #"{"url":"\#(inbox.url)"}"#)
      #expect(target.json?.text("url") == inbox.url)
      let order =
        #"{"scenario":"subscriber","subscriber":12,"app_account_token":"7e3fb204-2d0a-4d0b-9e1b-0d8d5f6f4c3a"}"#
      let issued = try await Exchange.send("POST", control + "/transactions", body: order)
      #expect(issued.json?.text("original_transaction_id") == "480000000120000")
      let first = try await CheckedJWS(try #require(issued.json?.text("signed_transaction")))
      #expect(first.payload.text("appAccountToken") == "7e3fb204-2d0a-4d0b-9e1b-0d8d5f6f4c3a")

      _ = try await Exchange.send("POST", control + "/clock", body: #"{"advance":"32d"}"#)
      #expect(try inbox.types() == ["SUBSCRIBED INITIAL_BUY", "DID_RENEW"])
      let newest = try await Exchange.send("GET", control + "/transactions/480000000120000")
      #expect(newest.json?.text("transaction_id") == "480000000120001")
      let told = try await Exchange.send("GET", control + "/notifications")
      let attempts = try #require(told.json?.objects("notifications"))
      #expect(attempts.map { $0.text("type") } == ["SUBSCRIBED", "DID_RENEW"])
      #expect(attempts.map { $0["status"] as? Int } == [200, 200])
      let signed = try await Exchange.send("GET", control + "/notifications/480000000120001")
      #expect(
        signed.json?.objects("notifications").map { $0.text("uuid") } == attempts.map { $0.text("uuid") })

      _ = try await Exchange.send("DELETE", control + "/notifications")
      _ = try await Exchange.send("POST", control + "/clock", body: #"{"advance":"60d"}"#)
      #expect(try inbox.types().count == 2)
      let unknown = try await Exchange.send("GET", control + "/transactions/480000000990000")
      #expect(unknown.status == 400)
      #expect(try #require(unknown.json?.text("error")).contains("480000000990000"))
      await inbox.close()
    }
  }

  @Test("issues old receipts, and shows renewals late")
  func lateAndOld() async throws {
    try await withSimulator { _, control in
      let late = try await Exchange.send(
        "POST", control + "/receipts", body: #"{"scenario":"late_renewal","late":"90s"}"#)
      #expect(late.status == 200)
      let old = try await Exchange.send(
        "POST", control + "/transactions", body: #"{"scenario":"lifetime_refunded","age":"50d"}"#)
      let payload = try CheckedJWS.payload(old.json?.text("signed_transaction"))
      #expect(payload.dayNumber("signedDate") == -50)
      for body in [#"{"late":"soon"}"#, #"{"late":"8d"}"#, #"{"age":"-1s"}"#] {
        #expect(try await Exchange.send("POST", control + "/receipts", body: body).status == 400, "\(body)")
      }
    }
  }

  @Test("issues every format", arguments: ReceiptFormat.allCases)
  func formats(format: ReceiptFormat) async throws {
    try await withSimulator { simulator, control in
      let issued = try await Exchange.send(
        "POST", control + "/receipts", body: #"{"format":"\#(format.rawValue)"}"#)
      let receipt = try #require(issued.json?.text("receipt_data"))
      let exchange = try await Exchange.send(
        "POST", simulator.productionURL, root: simulator.rootPEMPath, body: requestBody(receipt))
      let status =
        switch format {
        case .der, .ber, .ios6: 0
        case .xcode: 21002
        case .forged, .padded: 21003
        }
      #expect(exchange.json?["status"] as? Int == status)
    }
  }

  @Test("makes device tokens by its clock, and shows the bits of a device")
  func devices() async throws {
    try await withSimulator { simulator, control in
      let issued = try await Exchange.send(
        "POST", control + "/device-tokens", body: #"{"device":"phone-1","environment":"sandbox"}"#)
      let token = try #require(issued.json?.text("device_token"))
      let header = ["-H", "Authorization: Bearer " + (try TeamToken().signed())]
      let update = try await Exchange.send(
        "POST", simulator.deviceCheckDevelopmentURL + "/v1/update_two_bits", root: simulator.rootPEMPath,
        body: #"{"device_token":"\#(token)","transaction_id":"1","timestamp":1,"bit0":true,"bit1":false}"#,
        extra: header)
      #expect(update.status == 200)
      let bits = try await Exchange.send("GET", control + "/devices/phone-1")
      #expect(bits.json?.object("sandbox")["bit0"] as? Bool == true)
      #expect(bits.json?.object("sandbox")["bit1"] as? Bool == false)
      #expect(bits.json?["production"] is NSNull)
      #expect(simulator.deviceBits(of: "phone-1", environment: .sandbox)?.bit0 == true)
      #expect(simulator.deviceBits(of: "phone-1") == nil)
      let calls = try await Exchange.send("GET", control + "/calls")
      #expect(calls.json?.object("device_check")["total"] as? Int == 1)
      let order = #"{"trouble":"http_503","service":"device_check"}"#
      _ = try await Exchange.send("POST", control + "/trouble", body: order)
      let receipt = requestBody(try simulator.issueReceipt().receiptData)
      let verdict = try await Exchange.send(
        "POST", simulator.productionURL, root: simulator.rootPEMPath, body: receipt)
      #expect(verdict.status == 200)
      let away = try await Exchange.send(
        "POST", simulator.deviceCheckURL + "/v1/query_two_bits", root: simulator.rootPEMPath, extra: header)
      #expect(away.status == 503)
    }
  }

  @Test("switches troubles on for so many calls, and off")
  func troubles() async throws {
    try await withSimulator { simulator, control in
      let body = requestBody(try simulator.issueReceipt().receiptData)
      func status() async throws -> Int? {
        try await Exchange.send("POST", simulator.productionURL, root: simulator.rootPEMPath, body: body)
          .json?["status"] as? Int
      }
      _ = try await Exchange.send("POST", control + "/trouble", body: #"{"trouble":"status_21005","count":1}"#)
      #expect(try await status() == 21005)
      #expect(try await status() == 0)
      _ = try await Exchange.send(
        "POST", control + "/trouble", body: #"{"trouble":"status_21009","environment":"sandbox"}"#)
      #expect(try await status() == 0)
      _ = try await Exchange.send("POST", control + "/trouble", body: #"{"trouble":"status_21009","count":null}"#)
      #expect(try await status() == 21009)
      #expect(try await Exchange.send("DELETE", control + "/trouble").status == 200)
      #expect(try await status() == 0)
    }
  }

  @Test("counts calls without a password in sight")
  func calls() async throws {
    try await withSimulator { simulator, control in
      let receipt = try simulator.issueReceipt(subscriber: 3)
      _ = try await Exchange.send(
        "POST", simulator.productionURL, root: simulator.rootPEMPath,
        body: requestBody(receipt.receiptData, password: "canary-4711"))
      let calls = try await Exchange.send("GET", control + "/calls")
      #expect(calls.json?["total"] as? Int == 1)
      #expect(calls.json?["in_flight"] as? Int == 0)
      #expect(calls.json?["peak_in_flight"] as? Int == 1)
      #expect(calls.json?["by_original_transaction_id"] as? [String: Int] == ["480000000030000": 1])
      let passwords = try #require(calls.json?["passwords"] as? [String: Any])
      #expect(passwords["wrong"] as? Int == 1)
      #expect(passwords["last_was_right"] as? Bool == false)
      #expect(!calls.text.contains("canary"))
      #expect(!calls.text.contains(receipt.receiptData.prefix(60)))
      #expect(try await Exchange.send("DELETE", control + "/calls").json?["total"] as? Int == 0)
    }
  }

  @Test("the control API sets the delay")
  func delay() async throws {
    try await withSimulator { _, control in
      let answer = try await Exchange.send("POST", control + "/delay", body: #"{"delay":"300ms"}"#)
      #expect(answer.json?["delay_ms"] as? Int == 300)
    }
  }

  @Test("lists every scenario and trouble with a line on each")
  func scenarios() async throws {
    try await withSimulator { _, control in
      let json = try #require(try await Exchange.send("GET", control + "/scenarios").json)
      let scenarios = try #require(json["scenarios"] as? [[String: String]])
      let troubles = try #require(json["troubles"] as? [[String: String]])
      #expect(scenarios.compactMap { $0["name"] } == Scenario.allCases.map(\.rawValue))
      #expect(troubles.compactMap { $0["name"] } == Trouble.allCases.map(\.rawValue))
      #expect((scenarios + troubles).allSatisfy { !($0["summary"] ?? "").isEmpty })
    }
  }

  @Test(
    "a mistake is HTTP 400 with a sentence that names it",
    arguments: [
      ("/clock", "{", "the body is not a JSON object"),
      ("/clock", "{}", "one of"),
      ("/clock", #"{"now":"soon"}"#, "RFC 3339"),
      ("/clock", #"{"advance":"1 month"}"#, "'advance' is a duration"),
      ("/receipts", #"{"scenario":"gold"}"#, "there is no scenario 'gold'"),
      ("/receipts", #"{"environment":"moon"}"#, "'environment'"),
      ("/receipts", #"{"subscriber":-1}"#, "between 0 and"),
      ("/receipts", #"{"scenario":"empty","format":"ios6"}"#, "has no transaction"),
      ("/transactions", #"{"scenario":"empty"}"#, "has no transaction"),
      ("/transactions", #"{"app_account_token":"me"}"#, "is a UUID"),
      ("/notifications", #"{"url":"https://127.0.0.1/"}"#, "is no address to post to"),
      ("/trouble", #"{"trouble":"rain"}"#, "there is no trouble 'rain'"),
      ("/trouble", #"{"trouble":"html","count":0}"#, "'count'"),
      ("/trouble", "{}", "'trouble' is missing"),
      ("/trouble", #"{"trouble":"html","service":"music"}"#, "'service'"),
      ("/trouble", #"{"trouble":"status_21005","service":"device_check"}"#, "is none of the service"),
      ("/device-tokens", "{}", "'device' is missing"),
      ("/device-tokens", #"{"device":"a/b"}"#, "'device' is a name"),
      ("/device-tokens", #"{"device":""}"#, "'device' is a name"),
      ("/delay", #"{"delay":"long"}"#, "'delay' is a duration"),
    ])
  func mistakes(path: String, body: String, says: String) async throws {
    try await withSimulator { _, control in
      let answer = try await Exchange.send("POST", control + path, body: body)
      #expect(answer.status == 400)
      #expect(try #require(answer.json?.text("error")).contains(says))
    }
  }

  @Test("an unknown route is 404")
  func unknownRoute() async throws {
    try await withSimulator { _, control in
      let answer = try await Exchange.send("GET", control + "/nothing")
      #expect(answer.status == 404)
    }
  }
}
