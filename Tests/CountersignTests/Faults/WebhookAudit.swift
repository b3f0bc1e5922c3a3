import Foundation

/// The deliveries that a receiver of webhooks has to show in the end: each event of the list that it asked for, by the
/// ID once, in the order of its user, in the very words of the list, and signed.
struct WebhookAudit {
  /// An event as `GET /v1/events` lists it.
  struct Listed: Sendable {
    var id: String
    var type: String
    var user: String
    /// Its JSON, as it was sent.
    var text: String
  }

  /// IDs of events that never came.
  var missing: [String] = []
  /// IDs of deliveries that no listed event has, or none that this receiver asked for.
  var uncalledFor: [String] = []
  /// IDs that came with another body than the list has.
  var differing: [String] = []
  /// Users whose events came in another order.
  var disordered: [String] = []
  /// IDs of deliveries that a verifier refused.
  var refused: [String] = []
  /// Tampered deliveries that a verifier accepted.
  var deceived: [String] = []
  var events = 0
  /// More than one for an event whose receiver or sender was killed.
  var deliveries = 0
  /// Those that the library of PyPI judged.
  var judgedByLibrary = 0

  var isClean: Bool {
    missing.isEmpty && uncalledFor.isEmpty && differing.isEmpty && disordered.isEmpty && refused.isEmpty
      && deceived.isEmpty
  }

  var figures: String {
    "\(events) events in \(deliveries) deliveries, \(missing.count) missing, \(uncalledFor.count) uncalled-for, "
      + "\(differing.count) differing, \(disordered.count) users out of order, \(refused.count) refused, "
      + "\(deceived.count) tampered ones accepted, \(judgedByLibrary) judged by standardwebhooks"
  }

  /// - Parameters:
  ///   - listed: every event, in its order.
  ///   - deliveries: what this receiver got, in its order.
  init(
    _ listed: [Listed], _ deliveries: [ReceiverProcess.Delivery], secret: String, wants: (Listed) -> Bool
  ) {
    let wanted = listed.filter(wants)
    let texts = Dictionary(wanted.map { ($0.id, $0.text) }) { first, _ in first }
    events = wanted.count
    self.deliveries = deliveries.count
    var order: [String] = []
    var seen: Set<String> = []
    for delivery in deliveries {
      let id = delivery.headers["webhook-id"] ?? ""
      guard let text = texts[id] else {
        uncalledFor.append(id)
        continue
      }
      if Array(text.utf8) != Array(delivery.body) { differing.append(id) }
      if seen.insert(id).inserted { order.append(id) }
      judge(delivery, id, secret)
    }
    missing = wanted.map(\.id).filter { !seen.contains($0) }
    let users = Dictionary(wanted.map { ($0.id, $0.user) }) { first, _ in first }
    let came = Dictionary(grouping: order) { users[$0] ?? "" }
    for (user, events) in Dictionary(grouping: wanted, by: \.user).sorted(by: { $0.key < $1.key })
    where came[user, default: []] != events.map(\.id).filter(seen.contains) {
      disordered.append(user)
    }
  }

  /// Judges a delivery by a verifier that is not ours, and so what somebody made of it on its way.
  private mutating func judge(_ delivery: ReceiverProcess.Delivery, _ id: String, _ secret: String) {
    guard let time = delivery.headers["webhook-timestamp"], let seconds = Double(time),
      let signatures = delivery.headers["webhook-signature"], let mark = signatures.utf8.dropFirst(3).first
    else { return refused.append(id) }
    let now = Date(timeIntervalSince1970: seconds)
    func accepts(
      id: String = id, time: String = time, signatures: String = signatures, body: [UInt8]? = nil, now: Date = now
    ) -> Bool {
      WebhookTests.isAuthentic(
        id: id, time: time, signatures: signatures, body: body ?? Array(delivery.body), secret, now: now)
    }
    if !accepts() { refused.append(id) }
    var body = Array(delivery.body)
    body[body.count / 2] ^= 1
    let other = mark == UInt8(ascii: "A") ? "B" : "A"
    let tampered = [
      accepts(body: body), accepts(id: id + "0"), accepts(time: String(Int(seconds) + 1)),
      accepts(signatures: "v1,\(other)" + signatures.dropFirst(4)), accepts(now: now + 301), accepts(now: now - 301),
    ]
    deceived += tampered.filter { $0 }.map { _ in id }
    guard let accepted = delivery.accepted else { return }
    judgedByLibrary += 1
    if !accepted { refused.append(id) }
    deceived += (delivery.deceived ?? []).map { "\(id) by its \($0)" }
  }
}
