import Synchronization

/// The customers known to a simulator: customers with an issued receipt or transaction, and customers of received
/// receipts.
///
/// A receipt contains its whole seed; an ID and a signed transaction do not. An ID encodes the store, the subscriber
/// and the transaction (`ReceiptSeed.transactionID`); the rest of the seed, above all the scenario and its start, is
/// stored here by store and subscriber. A later issue for the same subscriber replaces the story, for any app. After a
/// restart, a simulator knows a customer again when it issues the same or receives a receipt.
final class CustomerRegistry: Sendable {
  /// The owner of transactions.
  struct Key: Hashable, Sendable {
    var environment: StoreEnvironment
    var subscriber: Int64
  }

  /// A customer, and when the simulator learnt the story.
  struct Customer: Hashable, Sendable {
    var seed: ReceiptSeed
    var knownSince: Timestamp
  }

  private struct State {
    var customers: [Key: Customer] = [:]
    /// A ring in order of arrival: when it is full, the oldest customer is dropped.
    var order: [Key] = []
    var oldest = 0

    mutating func add(_ seed: ReceiptSeed, at now: Timestamp, limit: Int) {
      // The received copy may have been signed later than the first.
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

  init(limit: Int = 100_000) { self.limit = limit }

  /// Starts or replaces a customer's story after an issue.
  func register(_ seed: ReceiptSeed) { state.withLock { $0.add(seed, at: seed.startedAt, limit: limit) } }

  /// Adds the customer of a received receipt; no effect on a known one.
  func learn(_ seed: ReceiptSeed, at now: Timestamp) {
    state.withLock { state in
      guard state.customers[Key(seed)] == nil else { return }
      state.add(seed, at: now, limit: limit)
    }
  }

  /// Has the purchase of a slot name a user.
  func setAccountToken(_ token: String, of seed: ReceiptSeed, slot: Int) {
    state.withLock { state in
      guard var customer = state.customers[Key(seed)] else { return }
      customer.seed.accountTokens = (customer.seed.accountTokens ?? [:]).merging([slot: token]) { $1 }
      state.customers[Key(seed)] = customer
    }
  }

  /// A received receipt's seed with the extensions that were made since it was signed.
  func extended(_ seed: ReceiptSeed) -> ReceiptSeed {
    guard let known = state.withLock({ $0.customers[Key(seed)] })?.seed, known.story == seed.story,
      known.extensions?.count ?? 0 > seed.extensions?.count ?? 0
    else { return seed }
    var extended = seed
    extended.extensions = known.extensions
    return extended
  }

  /// Extends a renewal date of a known customer.
  ///
  /// - Returns: the customer's seed from now on; nil if the story is another one by now.
  func add(_ one: RenewalExtension, to seed: ReceiptSeed) -> ReceiptSeed? {
    state.withLock { state in
      guard state.customers[Key(seed)]?.seed == seed else { return nil }
      state.customers[Key(seed)]?.seed.extensions = (seed.extensions ?? []) + [one]
      return state.customers[Key(seed)]?.seed
    }
  }

  /// All customers in order of arrival.
  var all: [Customer] {
    state.withLock { state in
      (state.order[state.oldest...] + state.order[..<state.oldest]).compactMap { state.customers[$0] }
    }
  }

  /// The customer who made a transaction, and its place in the story.
  ///
  /// - Returns: nil for an ID that no known customer can have; the purchase may still lie in the future.
  func transaction(_ id: String) -> (customer: Customer, slot: Int, number: Int)? {
    guard let parts = ReceiptSeed.parts(ofTransactionID: id) else { return nil }
    let key = Key(environment: parts.environment, subscriber: parts.subscriber)
    return state.withLock { $0.customers[key] }.map { ($0, parts.slot, parts.number) }
  }
}

extension CustomerRegistry.Key {
  fileprivate init(_ seed: ReceiptSeed) { self.init(environment: seed.environment, subscriber: seed.subscriber) }
}
