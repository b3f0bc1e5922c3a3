import FoundationEssentials

/// One App Store Server Notification, version 2, as posted.
struct SimulatedNotification: Hashable, Sendable {
  /// Constant for an event, whenever it is signed: it identifies duplicates.
  let uuid: String
  let type: String
  let subtype: String?
  /// Empty where it is about no purchase.
  let originalTransactionID: String
  let bundleID: String
  let environment: StoreEnvironment
  /// The time of the event, and of its signature.
  let at: Date
  let signedPayload: String

  /// The body of the post.
  var body: String { JSON.object([("signedPayload", .string(signedPayload))]).text }
}

/// Builds and signs notifications (Apple's page responseBodyV2DecodedPayload).
struct NotificationWriter: Sendable {
  let signer: SignedDataSigner

  /// All events of a customer after `from`, up to and including `to`, in order.
  func notifications(
    of seed: ReceiptSeed, after from: Timestamp, through to: Timestamp
  ) throws -> [SimulatedNotification] {
    try StoreEvent.events(in: seed.timeline, after: from, through: to).map { try write($0, of: seed) }
  }

  /// - Parameter reason: the customer's, of a request for a refund.
  func write(_ event: StoreEvent, of seed: ReceiptSeed, reason: String? = nil) throws -> SimulatedNotification {
    let payload = SignedDataPayload(seed: seed, at: event.at)
    var data = seed.environment.app(seed.bundleID)
    data += [
      ("bundleVersion", .string(ReceiptSeed.applicationVersion)),
      ("signedTransactionInfo", .string(try signer.sign(payload.transaction(event.row)))),
    ]
    if let renewal = payload.state.renewals.first(where: { $0.slot == event.row.slot }) {
      data += [
        ("signedRenewalInfo", .string(try signer.sign(payload.renewalInfo(renewal)))),
        ("status", .integer(payload.status(of: renewal))),
      ]
    }
    if let reason { data.append(("consumptionRequestReason", .string(reason))) }
    let uuid = Self.uuid(of: event, seed)
    var members: [(String, JSON)] = [("notificationType", .string(event.type))]
    if let subtype = event.subtype { members.append(("subtype", .string(subtype))) }
    members += [
      ("notificationUUID", .string(uuid)),
      ("data", .object(data)),
      ("version", "2.0"),
      ("signedDate", .integer(event.at.milliseconds)),
    ]
    return SimulatedNotification(
      uuid: uuid, type: event.type, subtype: event.subtype,
      originalTransactionID: seed.transactionID(slot: event.row.slot, number: 0), bundleID: seed.bundleID,
      environment: seed.environment, at: event.at.date, signedPayload: try signer.sign(.object(members)))
  }

  /// The notification that a developer asks for, to try the URL.
  func test(uuid: String, bundleID: String, _ environment: StoreEnvironment, at: Timestamp) throws
    -> SimulatedNotification
  {
    let payload = JSON.object([
      ("notificationType", "TEST"), ("notificationUUID", .string(uuid)),
      ("data", .object(environment.app(bundleID))), ("version", "2.0"), ("signedDate", .integer(at.milliseconds)),
    ])
    return SimulatedNotification(
      uuid: uuid, type: "TEST", subtype: nil, originalTransactionID: "", bundleID: bundleID, environment: environment,
      at: at.date, signedPayload: try signer.sign(payload))
  }

  /// A version 4 UUID derived from the event's identity instead of random numbers.
  private static func uuid(of event: StoreEvent, _ seed: ReceiptSeed) -> String {
    let parts = [
      seed.environment.rawValue, seed.bundleID, seed.scenario.rawValue, String(seed.subscriber), String(seed.start),
      String(event.row.slot), String(event.row.number), String(event.at.milliseconds), event.type, event.subtype ?? "",
    ]
    // A period may be extended twice in a moment of a standing clock.
    return uuid(of: parts + (event.type == "RENEWAL_EXTENDED" ? ["\(event.row.expiresAt?.milliseconds ?? 0)"] : []))
  }

  static func uuid(of parts: [String]) -> String {
    var octets = Array(Digest.sha256(Array(parts.joined(separator: "\n").utf8)).prefix(16))
    octets[6] = octets[6] & 0x0F | 0x40
    octets[8] = octets[8] & 0x3F | 0x80
    let digits = octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
    return [digits[0..<4], digits[4..<6], digits[6..<8], digits[8..<10], digits[10..<16]].map { $0.joined() }
      .joined(separator: "-")
  }
}
