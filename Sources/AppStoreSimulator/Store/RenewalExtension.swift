/// An extension of a subscription's renewal date. It is part of the customer's seed, so that receipts and transactions show it.
struct RenewalExtension: Codable, Hashable, Sendable {
  /// Milliseconds since 1970.
  var made: Int64
  var slot: Int
  /// The transaction whose end moved, within its slot.
  var number: Int
  var days: Int
  var requestIdentifier: String

  var madeAt: Timestamp { Timestamp(milliseconds: made) }
}

extension Timeline {
  /// The runs as the store knows them at a moment: an extension postpones the rest of its slot's story.
  func subscriptions(at now: Timestamp) -> [Subscription] {
    extensions.filter { $0.madeAt <= now }.reduce(subscriptions) { runs, one in
      runs.map { $0.slot == one.slot ? $0.postponed(by: one) : $0 }
    }
  }
}

extension Subscription {
  fileprivate func postponed(by one: RenewalExtension) -> Subscription {
    func moved(_ moment: Timestamp) -> Timestamp { moment > one.madeAt ? moment.adding(days: one.days) : moment }
    var run = self
    run.start = moved(start)
    if run.start == start { run.extensions.append((one.number - firstNumber, one.days)) }
    run.chargedAt = chargedAt.map(moved)
    run.renewalOffFrom = renewalOffFrom.map(moved)
    run.renewalOnAgainFrom = renewalOnAgainFrom.map(moved)
    run.upgradedAt = upgradedAt.map(moved)
    run.nextProductFrom = nextProductFrom.map(moved)
    for index in run.cancellations.indices { run.cancellations[index].at = moved(cancellations[index].at) }
    return run
  }
}
