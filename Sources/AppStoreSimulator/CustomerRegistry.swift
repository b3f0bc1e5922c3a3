import Synchronization

/// The customers that a simulator knows: those it issued something for, and those whose receipts it was shown.
///
/// A receipt carries its whole seed; an ID and a signed transaction do not. An ID says which store, which subscriber and
/// which transaction it is (`ReceiptSeed.transactionID`); the rest of the seed, the scenario and its start before all, is
/// remembered here, by store and subscriber: a later issue for the same subscriber replaces the story, of whatever app.
/// A simulator that was restarted knows a customer again when it issues the same or is shown a receipt.
final class CustomerRegistry: Sendable {
  /// Whose transactions they are.
  struct Key: Hashable, Sendable {
    var environment: StoreEnvironment
    var subscriber: Int64
  }

  /// A customer, and when the simulator came to know the story.
  struct Customer: Hashable, Sendable {
    var seed: ReceiptSeed
    var knownSince: Timestamp
  }

  private struct State {
    var customers: [Key: Customer] = [:]
    /// In the order of their coming, as a ring: where it is full, the oldest is forgotten.
    var order: [Key] = []
    var oldest = 0

    mutating func add(_ seed: ReceiptSeed, at now: Timestamp, limit: Int) {
      // The copy that was shown may have been signed later than the first.
      var first = seed
      first.created = seed.start
      let key = Key(seed)
      let isNew = customers.updateValue(Customer(seed: first, knownSince: now), forKey: key) == nil
      guard isNew else { return }
      guard order.count >= limit, order.indices.contains(oldest) else { return order.append(key) }
      customers[order[oldest]] = nil
      order[oldest] = key
      oldest = (oldest + 1) % order.count
    }
  }

  private let state = Mutex(State())
  private let limit: Int

  init(limit: Int = 100_000) {
    self.limit = limit
  }

  /// Something was issued for this customer: from now on this is his story.
  func register(_ seed: ReceiptSeed) {
    state.withLock { $0.add(seed, at: seed.startedAt, limit: limit) }
  }

  /// A receipt of this customer was shown, which tells nothing new of one who is known.
  func learn(_ seed: ReceiptSeed, at now: Timestamp) {
    state.withLock { state in
      guard state.customers[Key(seed)] == nil else { return }
      state.add(seed, at: now, limit: limit)
    }
  }

  /// In the order of their coming.
  var all: [Customer] {
    state.withLock { state in
      (state.order[state.oldest...] + state.order[..<state.oldest]).compactMap { state.customers[$0] }
    }
  }

  /// The customer who made a transaction, and which one it is.
  ///
  /// - Returns: nil for an ID that no known customer can have; whether the purchase was made by now is not looked at.
  func transaction(_ id: String) -> (customer: Customer, slot: Int, number: Int)? {
    guard let parts = ReceiptSeed.parts(ofTransactionID: id) else { return nil }
    let key = Key(environment: parts.environment, subscriber: parts.subscriber)
    return state.withLock { $0.customers[key] }.map { ($0, parts.slot, parts.number) }
  }
}

extension CustomerRegistry.Key {
  fileprivate init(_ seed: ReceiptSeed) {
    self.init(environment: seed.environment, subscriber: seed.subscriber)
  }
}
