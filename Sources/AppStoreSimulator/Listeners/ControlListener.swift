import FoundationEssentials
import HTTPTypes
import Hummingbird
import NIOCore

/// The control API: plain HTTP, JSON in and out.
///
///     GET    /clock                                        {"now":"2026-01-15T12:00:00Z"}
///     POST   /clock      {"now":"…"} {"advance":"30d"} {"real":true}
///     POST   /receipts   {"scenario":"grace","environment":"sandbox","subscriber":7,"bundle_id":"…","format":"ber"}
///                        {"late":"90s"} shows renewals so late, {"age":"50d"} signs it as of so long before
///     POST   /transactions  the same but for the format, and {"app_account_token":"…"}: a signed transaction
///                        {"promotional_offer":{"jws":"…"}} buys it with an offer, {"introductory_offer":{"jws":"…"}}
///                        with the introductory one if that allows it; each is checked as at the store
///     POST   /device-tokens {"device":"phone-1","environment":"production"}: a token of DeviceCheck for 30 seconds
///     GET    /devices/phone-1                              the two bits on each of DeviceCheck's servers
///     GET    /transactions/480000000010000                 the newest of that original transaction ID
///     GET    /notifications/480000000010000                all of that customer's events, signed
///     POST   /refund-requests {"transaction_id":"480000000010000","reason":"UNINTENDED_PURCHASE"}
///                        posts CONSUMPTION_REQUEST; GET /calls has the answers
///     POST   /notifications {"url":"http://…"}             posts notifications there from now on
///     GET    /notifications                                the posts so far, with the status of the responses
///     DELETE /notifications                                stops posting
///     POST   /trouble    {"trouble":"html","count":3,"service":"server_api","environment":"sandbox","subscriber":7}
///     DELETE /trouble
///     POST   /delay      {"delay":"300ms"}
///     GET    /calls      DELETE /calls                     counters, and their reset
///     GET    /scenarios
struct ControlListener: Sendable {
  let core: SimulatorCore
  let connections: ConnectionRegistry

  /// A request that cannot be fulfilled; the text is sent back with HTTP 400.
  private struct Refusal: Error {
    var reason: String
  }

  func respond(to request: Request, context: SimulatorContext) async throws -> Response {
    connections.add(context.channel)
    let body: [UInt8]
    do {
      body = Array(buffer: try await request.body.collect(upTo: 1 << 20))
    } catch {
      return reply(.contentTooLarge, error: "the body is larger than 1 MiB")
    }
    do {
      switch (request.method, request.uri.path) {
      case (.get, "/clock"): return reply(clock())
      case (.post, "/clock"):
        try setClock(body)
        // After the clock was moved, all notifications up to the new time have been posted when this returns.
        _ = await core.delivery.attempts()
        return reply(clock())
      case (.post, "/receipts"): return reply(try issue(body))
      case (.post, "/transactions"):
        let wanted = try decode(ReceiptRequest.self, body)
        return reply(
          transaction(
            try core.issueTransaction(
              try order(wanted), with: wanted.promotionalOffer, eligibility: wanted.introductoryOffer?.jws)))
      case (.get, let path) where path.hasPrefix("/transactions/"):
        let id = String(path.dropFirst("/transactions/".count))
        return reply(transaction(try core.issuer.newestTransaction(ofOriginal: id, at: core.clock.now)))
      case (.post, "/app-transactions"):
        let transaction = try core.issuer.issueAppTransaction(
          try order(decode(ReceiptRequest.self, body)), at: core.clock.now)
        return reply(.object([("app_transaction", .string(transaction))]))
      case (.post, "/device-tokens"): return reply(try deviceToken(body))
      case (.get, let path) where path.hasPrefix("/devices/"):
        return reply(deviceBits(of: String(path.dropFirst("/devices/".count))))
      case (.get, "/notifications"): return reply(await deliveries())
      case (.get, let path) where path.hasPrefix("/notifications/"):
        return reply(try notifications(of: String(path.dropFirst("/notifications/".count))))
      case (.post, "/refund-requests"):
        let order = try decode(RefundOrder.self, body)
        let notification = try core.requestRefund(
          of: order.transactionID, reason: order.reason ?? "UNINTENDED_PURCHASE")
        _ = await core.delivery.attempts()
        return reply(.object(Self.summary(notification)))
      case (.post, "/notifications"): return reply(try setNotifications(body))
      case (.delete, "/notifications"):
        core.delivery.deliver(to: nil)
        return reply(.object([("url", .null)]))
      case (.post, "/trouble"): return reply(try setTrouble(body))
      case (.delete, "/trouble"):
        core.troubles.set(nil, count: nil, environment: nil)
        return reply(.object([("trouble", .null)]))
      case (.post, "/delay"): return reply(try setDelay(body))
      case (.get, "/calls"): return reply(calls())
      case (.delete, "/calls"):
        core.calls.reset()
        return reply(calls())
      case (.get, "/scenarios"): return reply(scenarios())
      default: return reply(.notFound, error: "no such route: \(request.method) \(request.uri.path)")
      }
    } catch let refusal as Refusal {
      return reply(.badRequest, error: refusal.reason)
    } catch let error as NotAnAddress {
      return reply(.badRequest, error: error.description)
    } catch let error as IssueError {
      return reply(.badRequest, error: error.description)
    }
  }

  // MARK: - Clock and delay

  private struct ClockOrder: Decodable {
    var now: String?
    var advance: String?
    var real: Bool?
  }

  private func clock() -> JSON {
    let now = core.clock.now
    return .object([("now", .string(now.text)), ("now_ms", .integer(now.milliseconds))])
  }

  private func setClock(_ body: [UInt8]) throws {
    let order = try decode(ClockOrder.self, body)
    switch (order.now, order.advance, order.real) {
    case (let text?, nil, nil):
      guard let date = Timestamp(text: text) else {
        throw Refusal(reason: "'now' is an RFC 3339 time such as 2026-01-15T12:00:00Z")
      }
      core.moveClock { $0.set(date) }
    case (nil, let text?, nil):
      let milliseconds = try duration(text, key: "advance")
      core.moveClock { $0.advance(milliseconds: milliseconds) }
    case (nil, nil, true?): core.moveClock { $0.followRealTime() }
    default: throw Refusal(reason: #"one of {"now":"…"}, {"advance":"30d"} or {"real":true} is wanted"#)
    }
  }

  private struct DelayOrder: Decodable {
    var delay: String
  }

  private func setDelay(_ body: [UInt8]) throws -> JSON {
    let milliseconds = try duration(try decode(DelayOrder.self, body).delay, key: "delay")
    core.delay.set(.milliseconds(milliseconds))
    return .object([("delay_ms", .integer(max(milliseconds, 0)))])
  }

  private func duration(_ text: String, key: String) throws -> Int64 {
    guard let milliseconds = DurationText.milliseconds(text) else {
      throw Refusal(reason: "'\(key)' is a duration such as 300ms, 10s, 5m, 24h or 30d")
    }
    return milliseconds
  }

  // MARK: - Receipts and transactions

  private struct ReceiptRequest: Decodable {
    var scenario: String?
    var environment: StoreEnvironment?
    var subscriber: Int64?
    var bundleID: String?
    var format: ReceiptFormat?
    var appAccountToken: String?
    var late: String?
    var age: String?
    /// The offer of a purchase that is posted as a transaction.
    var promotionalOffer: SignedOffer?
    var introductoryOffer: Eligibility?

    /// Whether the customer may have the introductory offer, signed by the app's server.
    struct Eligibility: Decodable {
      var jws: String
    }

    enum CodingKeys: String, CodingKey {
      case scenario, environment, subscriber, format, late, age
      case bundleID = "bundle_id"
      case appAccountToken = "app_account_token"
      case promotionalOffer = "promotional_offer"
      case introductoryOffer = "introductory_offer"
    }
  }

  private func order(_ request: ReceiptRequest) throws -> ReceiptOrder {
    var order = ReceiptOrder()
    try order.setScenario(named: request.scenario ?? order.scenario.rawValue)
    order.environment = request.environment ?? order.environment
    order.subscriber = request.subscriber ?? order.subscriber
    order.bundleID = request.bundleID ?? order.bundleID
    order.format = request.format ?? order.format
    order.appAccountToken = request.appAccountToken
    order.renewalsLateBy = try request.late.map { try duration($0, key: "late") }
    order.age = try request.age.map { try duration($0, key: "age") } ?? 0
    return order
  }

  private func issue(_ body: [UInt8]) throws -> JSON {
    let receipt = try core.issue(try order(decode(ReceiptRequest.self, body)))
    return .object([
      ("receipt_data", .string(receipt.receiptData)),
      ("original_transaction_ids", .array(receipt.originalTransactionIDs.map { .string($0) })),
    ])
  }

  private func transaction(_ transaction: IssuedTransaction) -> JSON {
    .object([
      ("signed_transaction", .string(transaction.signedTransaction)),
      ("transaction_id", .string(transaction.transactionID)),
      ("original_transaction_id", .string(transaction.originalTransactionID)),
      ("order_id", transaction.orderID.map { .string($0) } ?? .null),
    ])
  }

  // MARK: - Devices

  private struct DeviceTokenOrder: Decodable {
    var device: String
    var environment: StoreEnvironment?
  }

  private func deviceToken(_ body: [UInt8]) throws -> JSON {
    let order = try decode(DeviceTokenOrder.self, body)
    let isName = order.device.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
    guard isName, (1...100).contains(order.device.utf8.count) else {
      throw Refusal(reason: "'device' is a name of your own: up to 100 letters, digits, dots, hyphens, underscores")
    }
    return .object([("device_token", .string(core.deviceToken(of: order.device, order.environment ?? .production)))])
  }

  private func deviceBits(of device: String) -> JSON {
    .object(
      [("device", .string(device))]
        + StoreEnvironment.allCases.map { environment in
          let key = DeviceBitsRegistry.Key(environment: environment, device: device)
          return (environment.rawValue, core.deviceCheck.devices[key]?.json ?? .null)
        })
  }

  // MARK: - Notifications

  private struct RefundOrder: Decodable {
    var transactionID: String
    var reason: String?

    enum CodingKeys: String, CodingKey {
      case transactionID = "transaction_id"
      case reason
    }
  }

  private struct NotificationOrder: Decodable {
    var url: String
  }

  private func setNotifications(_ body: [UInt8]) throws -> JSON {
    let url = try PlainHTTPURL(checking: try decode(NotificationOrder.self, body).url)
    core.delivery.deliver(to: url)
    return .object([("url", .string(url.description))])
  }

  private func deliveries() async -> JSON {
    .object([
      (
        "notifications",
        .array(
          await core.delivery.attempts().map { attempt in
            let status: JSON = attempt.status.map { .integer(Int64($0)) } ?? .null
            return .object(Self.summary(attempt.notification) + [("status", status)])
          })
      )
    ])
  }

  private func notifications(of id: String) throws -> JSON {
    let notifications = try core.notifications(of: id, after: Timestamp(.distantPast), through: core.clock.now)
    return .object([
      (
        "notifications",
        .array(
          notifications.map { notification in
            .object(Self.summary(notification) + [("signed_payload", .string(notification.signedPayload))])
          })
      )
    ])
  }

  private static func summary(_ notification: SimulatedNotification) -> [(String, JSON)] {
    [
      ("at", .string(Timestamp(notification.at).text)),
      ("type", .string(notification.type)),
      ("subtype", notification.subtype.map { .string($0) } ?? .null),
      ("uuid", .string(notification.uuid)),
      ("environment", .string(notification.environment.rawValue)),
      ("original_transaction_id", .string(notification.originalTransactionID)),
    ]
  }

  private func scenarios() -> JSON {
    func list(_ entries: [(String, String)]) -> JSON {
      .array(entries.map { .object([("name", .string($0.0)), ("summary", .string($0.1))]) })
    }
    return .object([
      ("scenarios", list(Scenario.allCases.map { ($0.rawValue, $0.summary) })),
      ("troubles", list(Trouble.allCases.map { ($0.rawValue, $0.summary) })),
    ])
  }

  // MARK: - Troubles and calls

  private struct TroubleOrder: Decodable {
    var trouble: String
    var count: Int?
    var service: Trouble.Service?
    var environment: StoreEnvironment?
    var subscriber: Int64?
  }

  private func setTrouble(_ body: [UInt8]) throws -> JSON {
    let order = try decode(TroubleOrder.self, body)
    guard let trouble = Trouble(rawValue: order.trouble) else {
      throw Refusal(reason: "there is no trouble '\(order.trouble)'; GET /scenarios lists them")
    }
    if let count = order.count, count < 1 { throw Refusal(reason: "'count' is at least 1, or null for every call") }
    if let service = order.service, !trouble.befalls(service) {
      throw Refusal(reason: "the trouble '\(order.trouble)' is none of the service '\(service.rawValue)'")
    }
    core.troubles.set(
      trouble, count: order.count, service: order.service, environment: order.environment,
      subscriber: order.subscriber)
    return .object([
      ("trouble", .string(trouble.rawValue)), ("count", order.count.map { .integer(Int64($0)) } ?? .null),
    ])
  }

  private func calls() -> JSON {
    let calls = core.calls.current
    func counts(_ counts: [String: Int]) -> JSON {
      .object(counts.sorted { $0.key < $1.key }.map { ($0.key, .integer(Int64($0.value))) })
    }
    func service(_ calls: CallBook.ServiceSummary) -> [(String, JSON)] {
      [
        ("total", .integer(Int64(calls.total))), ("production", .integer(Int64(calls.production))),
        ("sandbox", .integer(Int64(calls.sandbox))), ("rejected_tokens", .integer(Int64(calls.rejectedTokens))),
        ("by_endpoint", counts(calls.byEndpoint)),
      ]
    }
    return .object([
      ("total", .integer(Int64(calls.total))),
      ("production", .integer(Int64(calls.production))),
      ("sandbox", .integer(Int64(calls.sandbox))),
      ("in_flight", .integer(Int64(calls.inFlight))),
      ("peak_in_flight", .integer(Int64(calls.peakInFlight))),
      ("redirects_followed", .integer(Int64(calls.redirectsFollowed))),
      (
        "passwords",
        .object([
          ("right", .integer(Int64(calls.rightPasswords))),
          ("wrong", .integer(Int64(calls.wrongPasswords))),
          ("missing", .integer(Int64(calls.missingPasswords))),
          ("last_was_right", calls.lastPasswordWasRight.map { .boolean($0) } ?? .null),
        ])
      ),
      ("by_receipt", counts(calls.byReceipt)),
      ("by_original_transaction_id", counts(calls.byOriginalTransactionID)),
      (
        "server_api",
        .object(service(calls.serverAPI) + [("by_transaction_id", counts(calls.serverAPI.byTransactionID))])
      ),
      ("device_check", .object(service(calls.deviceCheck))),
      (
        "consumption",
        .object(
          calls.consumption.sorted { $0.key < $1.key }.map { id, answers in
            (
              id,
              .array(answers.map { .object([("at", .string($0.at.text)), ("body", .string($0.body))]) })
            )
          })
      ),
    ])
  }

  // MARK: - JSON

  private func decode<Value: Decodable>(_ type: Value.Type, _ body: [UInt8]) throws -> Value {
    do {
      return try JSONDecoder().decode(type, from: Data(body))
    } catch DecodingError.keyNotFound(let key, _) {
      throw Refusal(reason: "'\(key.stringValue)' is missing")
    } catch DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context),
      DecodingError.dataCorrupted(let context)
    {
      let path = context.codingPath.map(\.stringValue).joined(separator: ".")
      throw Refusal(reason: path.isEmpty ? "the body is not a JSON object" : "'\(path)' has a value that is not known")
    }
  }

  private func reply(_ json: JSON) -> Response { reply(.ok, json) }

  private func reply(_ status: HTTPResponse.Status, error: String) -> Response {
    reply(status, .object([("error", .string(error))]))
  }

  private func reply(_ status: HTTPResponse.Status, _ json: JSON) -> Response {
    Response(
      status: status, headers: [.contentType: "application/json"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: json.text + "\n")))
  }
}
