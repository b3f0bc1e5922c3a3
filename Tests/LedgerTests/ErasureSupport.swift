import Access
import Entitlements
import Figures
import Foundation
import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

extension Anna {
  /// As Apple signs it: a transaction inside a notification, each in base64.
  static func jws(naming account: String) -> String {
    func part(_ text: String) -> String {
      Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
    func jws(_ payload: String) -> String { part(#"{"alg":"ES256"}"#) + "." + part(payload) + ".c2ln" }
    let transaction = jws(#"{"appAccountToken":"\#(account)","bundleId":"com.example.app"}"#)
    return jws(#"{"data":{"signedTransactionInfo":"\#(transaction)"}}"#)
  }

  static func event(_ id: String, at seconds: Double) -> RevenueCatReport {
    var event = RevenueCatReport.event(.period, id: id, at: seconds, user: UserID(annasAccount), until: 100_000)
    event.id = id
    var report = RevenueCatReport.purchase(event)
    report.payload = #"{"event":{"app_user_id":"\#(annasAccount)","aliases":["\#(alias)"]}}"#
    report.users = [UserID(annasAccount), alias]
    return report
  }

  static func fill(_ ledger: Ledger) async throws {
    try await ledger.keepWebhooks(["shop": "https://shop.example/"])
    // Before she signed in.
    _ = try await ledger.meet(alias, at: clock(0))
    _ = try await ledger.record(
      entry(alias, [evidence("1", expires: 1_000)], receipt: "YWxpYXM=", rules: checkedRules))
    _ = try await ledger.run(JoinCustomer(alias, to: id, requestID: "join-\(session)", reevaluated(at: 10)))
    _ = try await ledger.keep(
      ["$email": CustomerAttribute(value: email, updatedAtMilliseconds: 1)], of: alias, at: clock(10))

    // Purchases at Apple's: one that names her, with notifications; one that is Ben's now; one that was Ben's.
    let named = evidence("2", time: 20, expires: 20_000, account: annasAccount)
    _ = try await ledger.record(
      entry(
        id, [named, evidence("3", time: 20, expires: 20_000)], receipt: receipt, request: "r-\(session)",
        rules: checkedRules))
    _ = try await ledger.run(
      notification(
        "n1", [part("2", reported: 30, expires: 30_000, account: annasAccount)], for: id,
        payload: jws(naming: annasAccount)))
    _ = try await ledger.record(entry("ben", [evidence("4", time: 20)], receipt: "YmVu", rules: rules))
    for (purchase, user) in [("3", UserID("ben")), ("4", id)] {
      _ = try await ledger.run(
        moving(
          purchase, to: user, at: 40, text: "moved for \(annasAccount)", request: user == id ? "t-\(session)" : "t"))
    }
    // Ben's purchase has a period that she had bought, with a transaction that says so.
    var bens = part("5", reported: 50, expires: 60_000, account: annasAccount)
    bens.purchases[0].ownership = .purchased
    let kept = entry("ben", [bens], receipt: jws(naming: annasAccount), rules: rules)
    _ = try await ledger.record(kept)

    // Elsewhere.
    _ = try await ledger.run(event("e1", at: 60))
    var hint = RevenueCatReport.report(
      .hint(key("9000"), RevenueCatReport.event(.period, id: "e2", at: 61, user: UserID(annasAccount))), id: "e2",
      at: 61)
    hint.payload = #"{"event":{"app_user_id":"\#(annasAccount)"}}"#
    _ = try await ledger.run(hint)
    var transfer = RevenueCatReport.report(
      .transfer(from: ["carl"], to: UserID(annasAccount)), id: "e4", at: 63, ownership: .transferIfInactive)
    transfer.payload = #"{"event":{"transferred_from":["carl"],"transferred_to":["\#(annasAccount)"]}}"#
    _ = try await ledger.run(transfer)
    // An event about Ben's purchase that names her too.
    let bensAtPlay = RevenueCatReport.Store("play_store").key(.production, "GPA.2")
    _ = try await ledger.run(
      RevenueCatReport.purchase(
        RevenueCatReport.event(.period, id: "e5", at: 64, user: "ben", until: 50_000), of: bensAtPlay))
    var stray = RevenueCatReport.purchase(
      RevenueCatReport.event(.renewalOff, id: "e6", at: 65, user: UserID(annasAccount), until: 50_000), of: bensAtPlay)
    stray.payload = #"{"event":{"app_user_id":"\#(annasAccount)"}}"#
    _ = try await ledger.run(stray)
    var temporary = RevenueCatReport.temporary(id: "e3", at: 66, user: UserID(annasAccount))
    temporary.payload = #"{"event":{"app_user_id":"\#(annasAccount)"}}"#
    _ = try await ledger.run(temporary)

    // At a limit, which the next tier moves.
    let children = Feature(name: "children", kind: .limit, values: ["pro": .limit(2)], tiers: ["free", "pro"])
    try await ledger.run(SetCount(2, of: children, of: id, with: "pro", at: clock(68)))

    // Given periods, and trials.
    _ = try await ledger.run(
      Give(
        user: id, kind: .support, tier: "premium", startsAt: at(70), endsAt: at(90_000), author: "desk",
        note: "for \(email)", requestID: "give-\(session)", idempotencyKey: "k-\(annasAccount)",
        evaluationContext: reevaluated(at: 70)))
    _ = try await ledger.run(trial(id))
    _ = try await ledger.run(
      CountSession(
        of: id, on: phone, idempotencyKey: "s-\(annasAccount)", requestID: session, reevaluated(at: 80)))
    _ = try await ledger.keep(
      Device(id: "22222222-2222-4222-8222-222222222222", model: "iPad", pushToken: pushToken), of: id, at: clock(80))

    for (number, subject) in [
      ExtensionRecord.Subject.purchase("2"), .purchase("3"), .product(ExtendedProduct(productID: pro)),
    ].enumerated() {
      _ = try await ledger.run(
        AskExtension(
          environment: .production, subject: subject,
          terms: RenewalExtension(days: 9, reason: .other, requestIdentifier: "extension-\(number)"), author: "desk",
          note: "for \(annasAccount)", requestID: subject.purchase == nil ? "x-\(annasAccount)" : "x-\(session)",
          idempotencyKey: "x-\(annasAccount)", now: clock(80),
          claimedUntil: nil))
    }

    // Usage.
    for number in 0..<3 {
      _ = try await ledger.run(
        consuming(
          meter, by: id, with: "pro", at: 80 + Double(number), zone: Zone(named: "Europe/Berlin"),
          key: "u\(number)-\(annasAccount)"))
    }

    // Refused, of which others are told.
    let exports = Feature(
      name: "exports", kind: .meter, values: ["free": .meter([]), "pro": .meter(try MeterRule.rules(["0 per day"]))],
      tiers: ["free", "pro"])
    _ = try await ledger.run(consuming(exports, by: id, with: "pro", at: 85))

    // A waiting receipt.
    _ = try await ledger.run(
      Postpone(
        PendingReceipt(user: id, base64: receipt, requestID: "wait-\(session)", receivedAt: clock(90)),
        provisional: [signed("7", time: 90)], reevaluated(at: 90)))

    // Notes that people wrote, and notifications that were not believed.
    _ = try await ledger.keepNote(
      Note(author: "desk", text: "\(email) asks", requestID: "n-\(session)", recordedAt: clock(95)), about: id)
    _ = try await ledger.keepNote(
      Note(author: "desk", text: "see also \(annasAccount).", requestID: "n", recordedAt: clock(96)), about: "ben")
    try await ledger.noteRefused(
      RefusedNotification(
        problem: "another app", payload: jws(naming: annasAccount), isSigned: true, receivedAt: clock(97)))
    _ = try await ledger.run(
      notification("n2", [part("8", reported: 98)], proof: nil, payload: "x"))

    // Events that the app reports, and a receiver that is away.
    try await ledger.record(
      [
        AppEvent(
          user: "ben", type: "invited", at: at(98), properties: #"{"whom":"\#(id)","by":"app/\#(annasAccount)"}"#,
          id: "invited-\(annasAccount)"),
        AppEvent(
          user: id, type: "opened", at: at(99), properties: #"{"email":"\#(email)"}"#, id: "opened-\(annasAccount)"),
        AppEvent(
          user: id, type: "experiment_exposed", at: at(99), properties: "{}",
          exposure: Exposure(experiment: "paywall", variant: "family", at: at(99))),
      ], at: clock(99))
    // Counted once, and to be counted again.
    _ = try await ledger.countExposures([:], limit: 10)
    try await ledger.record(
      [
        AppEvent(
          user: id, type: "experiment_exposed", at: at(99), properties: "{}",
          exposure: Exposure(experiment: "cta", variant: "start", at: at(99)))
      ], at: clock(99))
    let work = try await ledger.webhookWork(of: "shop", dueAt: clock(99), due: 10, fresh: 100)
    try await ledger.settleWebhook(
      "shop", work.fresh.map { WebhookResult(of: $0, .failed(attempts: 1, due: at(200), problem: "answered 503")) },
      through: work.fresh.last?.sequence, isGone: false, at: clock(99))
    try await ledger.keepMemo("progress", #"{"cursor":"\#(id.rawValue)"}"#)
  }
}

func isSound(_ scratch: Scratch) async throws {
  let verification = try await scratch.verify()
  #expect(verification.isSound, "\(verification.findings)")
}

extension Scratch {
  /// Every place where the ledger has a text, in its files or in PostgreSQL's tables: in plain, or in base64 at any of its
  /// three offsets.
  func traces(of names: [String]) async throws -> [String] {
    var found: [String] = []
    for (place, bytes) in try await contents() {
      for name in names {
        for (form, needle) in Self.forms(of: name) where bytes.holds(needle) {
          found.append("\(place): \(name) \(form)")
        }
      }
    }
    return found
  }

  private func contents() async throws -> [(place: String, bytes: Data)] {
    guard TestEngine.isPostgreSQL else {
      return ["", "-wal", "-shm"].compactMap { suffix in
        FileManager.default.contents(atPath: path + suffix).map { ("ledger\(suffix)", $0) }
      }
    }
    var contents: [(place: String, bytes: Data)] = []
    let tables = try await rows("SELECT relname FROM pg_stat_user_tables ORDER BY relname")
      .compactMap { $0.first ?? nil }
    for table in tables {
      // BYTEA is in hexadecimal digits.
      for row in try await rows("SELECT \"\(table)\"::text FROM \"\(table)\"") {
        let text = row.compactMap(\.self).joined()
        contents.append((table, Data(text.utf8)))
        for run in text.split(separator: "\\x").dropFirst() {
          contents.append(("\(table), bytes", Data(hexadecimal: run.prefix { $0.isHexDigit })))
        }
      }
    }
    return contents
  }

  private static func forms(of name: String) -> [(String, Data)] {
    var forms = [("in plain", Data(name.utf8)), ("in capitals", Data(name.uppercased().utf8))]
    for text in [name, name.uppercased()] {
      for offset in 0..<3 {
        let bytes = Data(repeating: 0x20, count: offset) + Data(text.utf8)
        // Only what the name alone decides: neither the first digits, nor those that what follows has a part in.
        let digits = bytes.base64EncodedString().replacing("=", with: "")
        let own = digits.dropFirst((offset * 8 + 5) / 6).prefix((bytes.count * 8) / 6 - (offset * 8 + 5) / 6)
        forms.append(("in base64 \(offset)", Data(own.utf8)))
        forms.append(
          ("in base64url \(offset)", Data(own.replacing("+", with: "-").replacing("/", with: "_").utf8)))
      }
    }
    return forms
  }
}

extension Data {
  fileprivate init(hexadecimal digits: Substring) {
    let values = digits.compactMap(\.hexDigitValue)
    let starts = stride(from: 0, to: values.count - values.count % 2, by: 2)
    self.init(starts.map { UInt8(values[$0] << 4 | values[$0 + 1]) })
  }
}
