import Synchronization

/// Extends renewal dates, by the store's rules: at once for one subscription, and after an hour for all of a product.
///
/// https://developer.apple.com/documentation/appstoreserverapi/extending-the-renewal-date-for-auto-renewable-subscriptions
final class RenewalExtensions: Sendable {
  /// The body of Extend a Subscription Renewal Date, and of the same for all active subscribers.
  struct Request: Decodable, Sendable {
    var extendByDays: Int?
    var extendReasonCode: Int?
    var requestIdentifier: String?
    var productId: String?
    var storefrontCountryCodes: [String]?
  }

  /// A request for all active subscribers of a product.
  struct Job: Hashable, Sendable {
    struct Key: Hashable, Sendable {
      var environment: StoreEnvironment
      var bundleID: String
      var productID: String
      var requestIdentifier: String
    }

    var key: Key
    var product: Product
    var days: Int
    var storefronts: [String]?
    var due: Timestamp
    var isComplete = false
    var succeeded = 0
    var failed = 0
  }

  /// An extended subscription.
  struct Extended: Sendable {
    var seed: ReceiptSeed
    var row: CustomerState.Row
    /// Its notification; nil if it was extended before, for the same request.
    var notification: SimulatedNotification?
  }

  /// The milliseconds that a request for all subscribers takes.
  static let massTime: Int64 = 3_600 * Timestamp.second
  /// Apple: up to 90 days, twice in 365 days.
  private static let days = 1...90
  private static let mostAYear = 2
  /// Every customer of the simulator buys there.
  private static let storefront = "USA"

  private let customers: CustomerRegistry
  private let writer: NotificationWriter
  private let jobs = Mutex<[Job]>([])

  init(customers: CustomerRegistry, writer: NotificationWriter) {
    self.customers = customers
    self.writer = writer
  }

  // MARK: One subscription

  func extend(_ seed: ReceiptSeed, slot: Int, by request: Request, at now: Timestamp) throws -> Extended {
    let (days, identifier) = try Self.check(request)
    return try extend(seed, slot: slot, days: days, identifier, at: now)
  }

  private func extend(
    _ seed: ReceiptSeed, slot: Int, days: Int, _ identifier: String, at now: Timestamp
  ) throws -> Extended {
    if let former = seed.extensions?.first(where: { $0.requestIdentifier == identifier && $0.slot == slot }),
      let row = seed.row(slot: slot, number: former.number, at: now)
    {
      return Extended(seed: seed, row: row)
    }
    let number = try Self.eligibleRow(of: seed, slot: slot, at: now).number
    let one = RenewalExtension(
      made: now.milliseconds, slot: slot, number: number, days: days, requestIdentifier: identifier)
    guard let extended = customers.add(one, to: seed), let row = extended.row(slot: slot, number: number, at: now)
    else { throw ServerAPIError.internalErrorRetryable }
    let event = StoreEvent(at: now, type: "RENEWAL_EXTENDED", subtype: nil, row: row)
    return Extended(seed: extended, row: row, notification: try writer.write(event, of: extended))
  }

  /// Only a running, paid period that the customer bought may be extended.
  private static func eligibleRow(
    of seed: ReceiptSeed, slot: Int, at now: Timestamp
  ) throws(ServerAPIError) -> CustomerState.Row {
    let state = seed.state(at: now)
    guard let row = state.rows.last(where: { $0.slot == slot }),
      state.renewals.first(where: { $0.slot == slot })?.phase == .running, row.cancelledAt == nil, !row.isTrial
    else { throw .extensionIneligible }
    if row.isFamilyShared { throw .familySharedExtension }
    let recent = seed.extensions?.count { $0.slot == slot && $0.madeAt > now.adding(days: -365) } ?? 0
    guard recent < mostAYear else { throw .mostExtensions }
    return row
  }

  private static func check(_ request: Request) throws(ServerAPIError) -> (days: Int, identifier: String) {
    guard let count = request.extendByDays, days.contains(count) else { throw .invalidExtendByDays }
    guard let reason = request.extendReasonCode, (0...3).contains(reason) else { throw .invalidExtendReason }
    guard let identifier = request.requestIdentifier, (1...128).contains(identifier.utf8.count) else {
      throw .invalidRequestIdentifier
    }
    return (count, identifier)
  }

  // MARK: All active subscribers of a product

  /// - Returns: the identifier, also of a request that was made before.
  func begin(
    _ request: Request, of bundleID: String, in environment: StoreEnvironment, at now: Timestamp
  ) throws(ServerAPIError) -> String {
    let (days, identifier) = try Self.check(request)
    guard let product = Product.allCases.first(where: { $0.id == request.productId }), product.isSubscription else {
      throw .invalidProductID
    }
    if let storefronts = request.storefrontCountryCodes {
      guard !storefronts.isEmpty else { throw .emptyStorefronts }
      guard storefronts.allSatisfy({ $0.utf8.count == 3 && $0.utf8.allSatisfy { (65...90).contains($0) } }) else {
        throw .invalidStorefront
      }
    }
    let key = Job.Key(
      environment: environment, bundleID: bundleID, productID: product.id, requestIdentifier: identifier)
    let job = Job(
      key: key, product: product, days: days, storefronts: request.storefrontCountryCodes,
      due: Timestamp(milliseconds: now.milliseconds + Self.massTime))
    jobs.withLock { jobs in if !jobs.contains(where: { $0.key == key }) { jobs.append(job) } }
    return identifier
  }

  func job(_ key: Job.Key) -> Job? { jobs.withLock { $0.first { $0.key == key } } }

  /// The first request that has to be carried out by now.
  func due(at now: Timestamp) -> Job? {
    jobs.withLock { jobs in jobs.filter { !$0.isComplete && $0.due <= now }.min { $0.due < $1.due } }
  }

  /// Carries out a request at its time.
  ///
  /// - Returns: the notifications, one for each subscription and the summary.
  func carryOut(_ job: Job) throws -> [SimulatedNotification] {
    var job = job
    var news: [SimulatedNotification] = []
    let isForUs = job.storefronts?.contains(Self.storefront) ?? true
    for seed in customers.all.map(\.seed)
    where isForUs && seed.environment == job.key.environment && seed.bundleID == job.key.bundleID {
      let state = seed.state(at: job.due)
      for renewal in state.renewals where renewal.product == job.product && renewal.phase == .running {
        guard let row = state.rows.last(where: { $0.slot == renewal.slot }), row.cancelledAt == nil else { continue }
        do {
          // A customer of two such subscriptions has another seed by now.
          let current = customers.extended(seed)
          let extended = try extend(current, slot: renewal.slot, days: job.days, job.key.requestIdentifier, at: job.due)
          job.succeeded += 1
          if let notification = extended.notification { news.append(notification) }
        } catch is ServerAPIError {
          job.failed += 1
          let event = StoreEvent(at: job.due, type: "RENEWAL_EXTENSION", subtype: "FAILURE", row: row)
          news.append(try writer.write(event, of: seed))
        }
      }
    }
    job.isComplete = true
    news.append(try writer.summary(of: job))
    let done = job
    jobs.withLock { jobs in
      for index in jobs.indices where jobs[index].key == done.key { jobs[index] = done }
    }
    return news
  }
}

extension ReceiptSeed {
  fileprivate func row(slot: Int, number: Int, at now: Timestamp) -> CustomerState.Row? {
    state(at: now).rows.first { $0.slot == slot && $0.number == number }
  }
}

extension NotificationWriter {
  /// The summary of an extension for all subscribers of a product.
  func summary(of job: RenewalExtensions.Job) throws -> SimulatedNotification {
    let environment = job.key.environment
    var summary: [(String, JSON)] =
      environment.app(job.key.bundleID) + [
        ("requestIdentifier", .string(job.key.requestIdentifier)), ("productId", .string(job.product.id)),
        ("succeededCount", .integer(Int64(job.succeeded))), ("failedCount", .integer(Int64(job.failed))),
      ]
    if let storefronts = job.storefronts {
      summary.append(("storefrontCountryCodes", .array(storefronts.map { .string($0) })))
    }
    let uuid = Self.uuid(of: [
      environment.rawValue, job.key.bundleID, job.product.id, job.key.requestIdentifier, "SUMMARY",
    ])
    let payload = JSON.object([
      ("notificationType", "RENEWAL_EXTENSION"), ("subtype", "SUMMARY"), ("notificationUUID", .string(uuid)),
      ("summary", .object(summary)), ("version", "2.0"), ("signedDate", .integer(job.due.milliseconds)),
    ])
    return SimulatedNotification(
      uuid: uuid, type: "RENEWAL_EXTENSION", subtype: "SUMMARY", originalTransactionID: "",
      bundleID: job.key.bundleID, environment: environment, at: job.due.date, signedPayload: try signer.sign(payload))
  }
}
