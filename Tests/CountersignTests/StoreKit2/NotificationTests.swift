import AppStore
import Entitlements
import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator

/// The notifications that Apple sends by itself, posted as Apple posts them.
@Suite struct NotificationTests {
  private static func days(_ count: Double) -> TimeInterval { count * 86_400 }

  @Test func `a renewal is recorded for the owner, and written to the app's row, without asking Apple`() async throws {
    try await RunningService.besideStores(deadline: "4s") { service, store, rows, clock in
      let signed = try store.simulator.issueTransaction(.subscriber)
      #expect(try await service.validate(signed.signedTransaction).status == 200)
      clock.advance(by: Self.days(31))
      store.simulator.setClock(clock.date)
      let reported = try store.simulator.notifications(of: signed.originalTransactionID, from: noon)
      let renewal = try #require(reported.last)
      #expect(renewal.type == "DID_RENEW")
      let answer = try await service.notify(renewal)
      #expect(answer.status == 200)
      #expect(answer["outcome"] == "recorded")
      #expect(answer["notification_uuid"] == renewal.uuid)
      let profile = try await service.profile()
      #expect(profile.verdict == "pro active renewing" && profile["stale"] == "false")
      #expect(profile["access_until"] == "2024-08-15T12:00:00Z")
      #expect(store.simulator.callsInAll == 0)
      #expect(rows.row("user-1")?["subscription_expires_at"] == .text("2024-08-15T12:00:00.000Z"))
      let history = try await service.send(.get, "/v1/profiles/user-1/history", key: RunningService.supportKey)
      #expect(history.text.contains(renewal.uuid))
    }
  }

  @Test func `a notification without a UUID counts once, by what it says`() async throws {
    let now = noon.addingTimeInterval(0.123456789)
    try await RunningService.besideStore(at: now) { service, store in
      let signed = try store.simulator.issueTransaction(.renewalOff)
      #expect(try await service.validate(signed.signedTransaction).verdict == "pro active renewing")
      let last = try #require(try store.simulator.notifications(of: signed.originalTransactionID).last)
      let part = try #require(last.signedPayload.split(separator: ".").dropFirst().first)
      let bytes = try #require(SignedDataSigner.decode(part))
      let payload = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
      let data = try #require(payload["data"] as? [String: Any])
      let nameless = JSON.object([
        ("notificationType", .string(last.type)), ("version", "2.0"),
        ("signedDate", .integer(try #require(payload["signedDate"] as? NSNumber).int64Value)),
        (
          "data",
          .object([
            ("bundleId", "com.example.app"), ("environment", "Production"),
            ("appAppleId", .integer(try #require(data["appAppleId"] as? NSNumber).int64Value)),
            ("signedTransactionInfo", .string(try #require(data["signedTransactionInfo"] as? String))),
            ("signedRenewalInfo", .string(try #require(data["signedRenewalInfo"] as? String))),
          ])
        ),
      ])
      let signer = try DevelopmentPKI().signedData
      func post() async throws -> Answer {
        // Signed anew each time, as Apple does.
        try await service.notify(#"{"signedPayload":"\#(try signer.sign(nameless))"}"#)
      }
      let answer = try await post()
      #expect(answer["outcome"] == "recorded" && answer["notification_uuid"] == "null", "\(answer.text)")
      #expect(try await service.profile().verdict == "pro cancelled renewal_off")
      #expect(try await post()["outcome"] == "duplicate")
      // The same with its UUID is another.
      #expect(try await service.notify(last)["outcome"] == "recorded")
    }
  }

  @Test func `an account token makes no user by itself, and a known user has the purchase at once`() async throws {
    let own = UUID()
    let user = own.uuidString.lowercased()
    try await RunningService.besideStore { service, store in
      let first = try store.simulator.issueTransaction(.renewing, subscriber: 1, appAccountToken: own)
      for notification in try store.simulator.notifications(of: first.originalTransactionID) {
        #expect(try await service.notify(notification)["outcome"] == "unclaimed")
      }
      #expect(try await service.profile(user).verdict == "free active no_purchases")
      #expect(try await service.history(of: user).entries.isEmpty)
      // The user comes, in capitals as Swift writes it, and the purchase is there with another one.
      let second = try store.simulator.issueTransaction(.lifetime, subscriber: 2)
      #expect(try await service.validate(second.signedTransaction, user: own.uuidString).status == 200)
      #expect(try await service.history(of: user).answer.text.contains(first.originalTransactionID))
      let third = try store.simulator.issueTransaction(.renewing, subscriber: 3, appAccountToken: own)
      let reported = try #require(try store.simulator.notifications(of: third.originalTransactionID).last)
      #expect(try await service.notify(reported)["outcome"] == "recorded")
    }
  }

  @Test func `a post that tells nothing newer than a notification says that Apple told it by itself`() async throws {
    let clock = MovingClock()
    try await RunningService.besideStore(now: { clock.date }) { service, store in
      let signed = try store.simulator.issueTransaction(.subscriber)
      #expect(try await service.validate(signed.signedTransaction)["source"] == "signature")
      clock.advance(by: Self.days(31))
      store.simulator.setClock(clock.date)
      let reported = try #require(try store.simulator.notifications(of: signed.originalTransactionID).last)
      #expect(try await service.notify(reported)["outcome"] == "recorded")
      #expect(try await service.validate(signed.signedTransaction)["source"] == "notification")
      #expect(try await service.profile()["source"] == "ledger")
    }
  }

  @Test func `where users are no UUIDs, whoever presents a named purchase gets it`() async throws {
    try await RunningService.besideStore { service, store in
      let signed = try store.simulator.issueTransaction(.renewing, appAccountToken: UUID())
      for notification in try store.simulator.notifications(of: signed.originalTransactionID) {
        _ = try await service.notify(notification)
      }
      #expect(try await service.validate(signed.signedTransaction, user: "user-1").verdict == "pro active renewing")
      #expect(try await service.validate(signed.signedTransaction, user: "user-2").status == 409)
    }
  }

  // MARK: - What is not taken

  @Test func `a changed, cut, swapped or foreign notification is refused`() async throws {
    try await RunningService.besideStore { service, store in
      let mine = try store.simulator.issueTransaction(.renewing)
      _ = try await service.validate(mine.signedTransaction)
      let state = try await service.state()
      let theirs = try store.simulator.issueTransaction(.refunded, subscriber: 2)
      let reported = try #require(try store.simulator.notifications(of: mine.originalTransactionID).last)
        .signedPayload
      let other = try #require(try store.simulator.notifications(of: theirs.originalTransactionID).last).signedPayload
      let parts = reported.split(separator: ".")
      let otherParts = other.split(separator: ".")
      let foreign = try store.simulator.issueTransaction(.wrongApp, subscriber: 3)
      let foreignTold = try #require(try store.simulator.notifications(of: foreign.originalTransactionID).last)
      for (payload, outcomes) in [
        ("\(parts[0]).\(otherParts[1]).\(parts[2])", ["refused"]),
        ("\(parts[0]).\(parts[1]).\(otherParts[2])", ["refused"]),
        (String(reported.dropLast(20)), ["refused", "unreadable"]), (String(reported.prefix(500)), ["unreadable"]),
        (mine.signedTransaction, ["unreadable"]), (foreignTold.signedPayload, ["refused"]), ("", ["unreadable"]),
      ] {
        let answer = try await service.notify(#"{"signedPayload":"\#(payload)"}"#)
        #expect(answer.status == 200)
        #expect(outcomes.contains(answer["outcome"] ?? "-"), "\(answer.text)")
      }
      #expect(try await service.state() == state)
    }
  }

  @Test func `an unreadable notification is kept and answered 200`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      for body in [
        "", "{", "[]", "{}", #"{"signedPayload":1}"#, #"{"signedPayload":null}"#, "<html>", "\u{0}", #"{"a":1}"#,
      ] {
        let answer = try await service.notify(body)
        #expect(answer.status == 200 && answer["outcome"] == "unreadable", "\(body)")
        #expect(answer["notification_uuid"] == "null")
      }
    }
  }

  @Test func `a flood of unsigned notifications is neither kept nor logged, and pushes nothing out`() async throws {
    try await RunningService.besideStore { service, store in
      let foreign = try store.simulator.issueTransaction(.wrongApp, subscriber: 3)
      let reported = try #require(try store.simulator.notifications(of: foreign.originalTransactionID).last)
      #expect(try await service.notify(reported)["outcome"] == "refused")
      var statuses: [Int: Int] = [:]
      for number in 0..<300 {
        let answer = try await service.notify(#"{"x":\#(number)}"#)
        statuses[answer.status, default: 0] += 1
        if answer.status == 429 { #expect(answer.header("Retry-After") == "60") }
      }
      let kept = try #require(statuses[200])
      #expect(kept >= 20 && Set(statuses.keys) == [200, 429])
      #expect(statuses[429, default: 0] >= 200)
      #expect(try await service.ledger.hasRefused(ReceiptFingerprint(of: Array(#"{"x":0}"#.utf8)).hex), "by its digest")
      #expect(try await service.ledger.hasRefused(reported.signedPayload))
      #expect(service.log.lines.count { $0.contains("a notification was refused") } == kept + 1)
      // A notification that is kept already costs nothing, and is acknowledged as before.
      #expect(try await service.notify(#"{"x":0}"#).status == 200)
      // A notification that Apple signed is taken all the while.
      let mine = try store.simulator.issueTransaction(.renewing)
      let news = try #require(try store.simulator.notifications(of: mine.originalTransactionID).last)
      #expect(try await service.notify(news)["outcome"] == "unclaimed")
      for number in 0..<100 {
        let guess = #"{"notification_type":"X","password":"\#(number)"}"#
        #expect(try await service.notify(guess).status == 401)
      }
      #expect(service.log.lines.count { $0.contains("without our shared secret") } <= 60)
    }
  }

  @Test func `an unsigned notification gets no tree larger than Apple's`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      func outcome(_ values: Int, _ each: String) async throws -> String {
        let list = Array(repeating: each, count: values).joined(separator: ",")
        let answer = try await service.notify(#"{"notification_type":"X","z":[\#(list)]}"#)
        return answer.status == 200 ? answer["outcome"] ?? "-" : "\(answer.status)"
      }
      // A body that is parsed is found to have no password.
      for (values, each, expected) in [
        (9_000, "1", "401"), (10_001, "1", "unreadable"), (1_990, "{}", "401"), (2_001, "{}", "unreadable"),
        (250_000, "1", "unreadable"), (300_000, "1", "413"),
      ] {
        let came = try await outcome(values, each)
        #expect(came == expected, "\(values) of \(each)")
      }
    }
  }

  @Test func `a notification of production's that names another app's number is refused`() async throws {
    let settings = Settings(appStore: ["app_apple_ids": "[7]"])
    try await RunningService.besideStore(settings: settings) { service, store in
      let production = try store.simulator.issueTransaction(.renewing)
      let reported = try #require(try store.simulator.notifications(of: production.originalTransactionID).last)
      #expect(try await service.notify(reported)["outcome"] == "refused")
      // The sandbox names none.
      let sandbox = try store.simulator.issueTransaction(.renewing, environment: .sandbox)
      let tested = try #require(try store.simulator.notifications(of: sandbox.originalTransactionID).last)
      #expect(try await service.notify(tested)["outcome"] == "unclaimed")
    }
  }

  @Test func `nothing of a notification gets into the log but its type, its name and what became of it`() async throws {
    try await RunningService.besideStore { service, store in
      let signed = try store.simulator.issueTransaction(.renewing)
      let reported = try #require(try store.simulator.notifications(of: signed.originalTransactionID).last)
      _ = try await service.notify(reported)
      _ = try await service.notify(#"{"signedPayload":"canary.canary.canary"}"#)
      _ = try await service.notify(#"{"notification_type":"DID_RENEW","password":"canary-password"}"#)
      #expect(service.log.text.contains(reported.uuid) && service.log.text.contains(reported.type))
      #expect(!service.log.text.contains("canary"))
      #expect(!service.log.text.contains(reported.signedPayload.prefix(60)))
      #expect(!service.log.text.contains(signed.originalTransactionID))
    }
  }

  // MARK: - Version 1

  @Test func `version 1 is a hint: with our secret Apple is asked, and what it says itself counts for nothing`()
    async throws
  {
    let clock = MovingClock()
    try await RunningService.besideStore(now: { clock.date }) { service, store in
      let receipt = try store.simulator.issueReceipt(.refunded)
      let id = try #require(receipt.originalTransactionIDs.first)
      store.simulator.setClock(noon.addingTimeInterval(-Self.days(3)))
      #expect(try await service.validate(receipt.receiptData).verdict.hasPrefix("premium"))
      store.simulator.setClock(noon)
      store.simulator.resetCalls()

      func body(_ password: String) -> String {
        #"{"notification_type":"REFUND","environment":"PROD","password":"\#(password)","bid":"com.example.app","#
          + #""unified_receipt":{"status":0,"latest_receipt_info":[{"original_transaction_id":"\#(id)","#
          + #""product_id":"com.example.app.forever","expires_date_ms":"4102444800000"}]}}"#
      }
      let wrong = try await service.notify(body("guess"))
      #expect(wrong.status == 401)
      #expect(store.simulator.callsInAll == 0)

      let hint = try await service.notify(body(SimulatedStore.sharedSecret))
      #expect(hint.status == 200)
      #expect(hint["outcome"] == "rechecking")
      try await eventually { try await service.profile().verdict == "free expired refunded" }
      #expect(store.simulator.callsInAll >= 1)
      let unknown = body(SimulatedStore.sharedSecret).replacing(id, with: "99")
      #expect(try await service.notify(unknown)["outcome"] == "noted")
      let foreign = body(SimulatedStore.sharedSecret).replacing("com.example.app\"", with: "com.example.other\"")
      #expect(try await service.notify(foreign)["outcome"] == "refused")
    }
  }

  @Test func `one that Apple signed and that cannot be read has its purchase checked`() async throws {
    let clock = MovingClock(noon)
    try await RunningService.besideStore(at: noon, now: { clock.date }) { service, store in
      let receipt = try store.simulator.issueReceipt(.refunded)
      let id = try #require(receipt.originalTransactionIDs.first)
      store.simulator.setClock(noon.addingTimeInterval(-Self.days(3)))
      #expect(try await service.validate(receipt.receiptData).verdict.hasPrefix("premium"))
      store.simulator.setClock(noon)
      let signer = store.simulator.core.serverAPI.signer
      let signedAt = noon.millisecondsSince1970
      func body(_ id: String) throws -> String {
        // A refund without its date.
        let transaction = try signer.sign(
          .object([
            ("transactionId", .string(id)), ("originalTransactionId", .string(id)), ("productId", "p"),
            ("bundleId", "com.example.app"), ("signedDate", .integer(signedAt)), ("revocationReason", 0),
          ]))
        let data: [(String, AppStoreSimulator.JSON)] = [
          ("bundleId", "com.example.app"), ("environment", "Production"),
          ("signedTransactionInfo", .string(transaction)),
        ]
        let payload = try signer.sign(
          .object([
            ("notificationType", "REFUND"), ("data", .object(data)), ("version", "2.0"),
            ("signedDate", .integer(signedAt)),
          ]))
        return #"{"signedPayload":"\#(payload)"}"#
      }
      let refund = try body(id)
      #expect(try await service.notify(refund)["outcome"] == "rechecking")
      try await eventually { try await service.profile().verdict == "free expired refunded" }
      #expect(try await service.notify(refund)["outcome"] == "unreadable")
      #expect(try await service.notify(body("99"))["outcome"] == "unreadable")
      // A notification without Apple's signature names nothing.
      let forged = try body(id).replacing(#""}"#, with: #"A"}"#)
      #expect(try await service.notify(forged)["outcome"] == "unreadable")
    }
  }

  @Test func `version 1 names its purchase whatever of it is unreadable, and leaves no secret behind`() async throws {
    let directory = try TemporaryDirectory()
    try await RunningService.besideStore(directory: directory.url) { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing)
      let id = try #require(receipt.originalTransactionIDs.first)
      _ = try await service.validate(receipt.receiptData)
      let secret = #""password":"\#(SimulatedStore.sharedSecret)","bid":"com.example.app""#
      for (number, rest) in [
        #""unified_receipt":"","original_transaction_id":"\#(id)""#,
        #""environment":{},"original_transaction_id":"\#(id)""#,
        #""unified_receipt":{"latest_receipt_info":[null,{"original_transaction_id":"\#(id)"}]}"#,
        #""latest_receipt_info":{"original_transaction_id":"\#(id)"}"#,
      ].enumerated() {
        let answer = try await service.notify(#"{"notification_type":"RENEWAL \#(number)",\#(secret),\#(rest)}"#)
        #expect(answer["outcome"] == "rechecking", "\(rest): \(answer.text)")
      }
      #expect(try await service.notify(#"{\#(secret),"original_transaction_id":"\#(id)"}"#)["outcome"] == "unreadable")
      guard !TestEngine.isPostgreSQL else { return }
      for file in try FileManager.default.contentsOfDirectory(at: directory.url, includingPropertiesForKeys: nil)
      where file.lastPathComponent.contains("sqlite") {
        #expect(try Data(contentsOf: file).range(of: Data(SimulatedStore.sharedSecret.utf8)) == nil, "\(file)")
      }
    }
  }

  @Test func `version 1 may name a purchase by any transaction of it alone`() async throws {
    let now = noon.addingTimeInterval(0.123456789)
    let clock = MovingClock(now)
    for isLater in [false, true] {
      try await RunningService.besideStore(at: now, now: { clock.date }) { service, store in
        let receipt = try store.simulator.issueReceipt(.refunded)
        let original = try #require(receipt.originalTransactionIDs.first)
        store.simulator.setClock(now.addingTimeInterval(-Self.days(3)))
        #expect(try await service.validate(receipt.receiptData).verdict.hasPrefix("premium"))
        let profile = try await service.ledger.profile(of: "user-1")
        let rows = (profile?.evidence ?? []).flatMap(\.purchases).map(\.transactionID.rawValue)
        // The first transaction of a purchase has the ID of the purchase.
        let id = isLater ? try #require(rows.first { $0 != original }) : original
        store.simulator.setClock(now)
        func body(_ id: String) -> String {
          #"{"notification_type":"REVOKE","environment":"PROD","password":"\#(SimulatedStore.sharedSecret)","#
            + #""bid":"com.example.app","auto_renew_status":"false","unified_receipt":{"status":0,"#
            + #""latest_receipt_info":[{"transaction_id":"\#(id)","product_id":"p","cancellation_reason":"0"}],"#
            + #""pending_renewal_info":[{"auto_renew_product_id":"p","auto_renew_status":"0"}]}}"#
        }
        #expect(try await service.notify(body(id))["outcome"] == "rechecking", "\(isLater)")
        try await eventually { try await service.profile().verdict == "free expired refunded" }
        #expect(try await service.notify(body("512000000782772122"))["outcome"] == "noted")
      }
    }
  }
}
