import FoundationEssentials

/// Simulates Apple's App Store Server API: maps a request to the bytes of the response.
///
///     GET  /inApps/v1/subscriptions/{transactionId}?status=…   all subscriptions of the transaction's customer
///     GET  /inApps/v1/transactions/{transactionId}             that transaction
///     GET  /inApps/v1/lookup/{orderId}                         the transaction of an order, in production only
///     GET  /inApps/v2/history/{transactionId}?revision=…       all transactions of its customer, 20 a page
///     POST /inApps/v1/notifications/history?paginationToken=…  the notifications that were posted, 20 a page
///     PUT  /inApps/v2/transactions/consumption/{transactionId}   the developer's word on a refund
///     GET  /inApps/v2/refund/lookup/{transactionId}?revision=…   the refunds of its customer, 20 a page
///     PUT  /inApps/v1/transactions/{originalTransactionId}/appAccountToken   the user who has a purchase
///     PUT  /inApps/v1/subscriptions/extend/{originalTransactionId}   extends a renewal date
///     POST /inApps/v1/subscriptions/extend/mass                those of all active subscribers of a product, in an hour
///     GET  /inApps/v1/subscriptions/extend/mass/{productId}/{requestIdentifier}   whether that is done
///     POST /inApps/v1/notifications/test                       posts one, and answers a token
///     GET  /inApps/v1/notifications/test/{token}               what became of it
///
/// It serves the customers in the registry, to callers that sign with the development key, for the app in their token.
struct ServerAPI: Sendable {
  let customers: CustomerRegistry
  let signer: SignedDataSigner
  let tokens: DeveloperTokens
  let clock: SimulatedClock
  let troubles: TroubleSwitch
  let calls: CallBook
  let delivery: NotificationDelivery
  let notifications: NotificationWriter

  struct Call: Sendable {
    var method: String
    /// The path after the base URL.
    var path: String
    /// Decoded; names may repeat.
    var query: [(name: String, value: String)] = []
    var authorization: String?
    var environment: StoreEnvironment
    var body: [UInt8] = []

    fileprivate func values(_ name: String) -> [String] { query.filter { $0.name == name }.map(\.value) }
  }

  func answer(_ call: Call) -> Answer {
    let now = clock.now
    let endpoint = Endpoint(method: call.method, path: call.path)
    let owner = endpoint.transactionID.flatMap { customers.transaction($0) }
    let bundleID = tokens.bundleID(of: call.authorization, now: now)
    calls.record(
      endpoint.name, of: \.serverAPI, in: call.environment, isTokenAccepted: bundleID != nil,
      transactionID: owner == nil ? nil : endpoint.transactionID)

    let switched = troubles.next(in: call.environment, for: .serverAPI)
    // A customer's own trouble affects his own store only; ping-pong is a redirect from both.
    let own = owner?.customer.seed.trouble(of: .serverAPI).flatMap { trouble in
      trouble == .pingPong || owner?.customer.seed.environment == call.environment ? trouble : nil
    }
    let trouble = switched ?? own
    if let trouble, endpoint.changesTheStore, !trouble.losesTheAnswer {
      return trouble.befallServerAPI(Answer(text: ""), call.environment, now: now)
    }
    let ordinary = ordinaryAnswer(call, endpoint, bundleID: bundleID, now: now)
    guard let trouble else {
      if case .consumption(let id) = endpoint, ordinary.httpStatus == 202 {
        calls.recordConsumption(id, at: now, body: String(decoding: call.body, as: UTF8.self))
      }
      if case .accountToken(let id) = endpoint, ordinary.httpStatus == 200, let owner,
        let token = Self.accountToken(in: call.body)
      {
        customers.setAccountToken(token, of: owner.customer.seed, slot: owner.slot)
        calls.recordAccountToken(id, token)
      }
      return ordinary
    }
    return trouble.befallServerAPI(ordinary, call.environment, now: now)
  }

  private func ordinaryAnswer(_ call: Call, _ endpoint: Endpoint, bundleID: String?, now: Timestamp) -> Answer {
    // No body: the token is checked before anything else.
    guard let bundleID else { return Answer(text: "", httpStatus: 401) }
    do {
      switch endpoint {
      case .subscriptions(let id):
        return .ofServerAPI(try subscriptions(try purchase(id, call, bundleID, now).seed, call, now: now))
      case .transaction(let id):
        let purchase = try purchase(id, call, bundleID, now)
        let payload = SignedDataPayload(seed: purchase.seed, at: now)
        return .ofServerAPI(
          .object([("signedTransactionInfo", .string(try signer.sign(payload.transaction(purchase.row))))]))
      case .history(let id):
        return .ofServerAPI(try history(try purchase(id, call, bundleID, now).seed, call, now: now))
      case .order(let id): return try order(id, call, bundleID, now)
      case .notificationsHistory: return .ofServerAPI(try notificationHistory(call, bundleID, now: now))
      case .notificationsTest:
        let uuid = UUID().uuidString.lowercased()
        let test = try notifications.test(uuid: uuid, bundleID: bundleID, call.environment, at: now)
        guard delivery.post(test) else { throw ServerAPIError.noNotificationURL }
        return .ofServerAPI(.object([("testNotificationToken", .string(uuid))]))
      case .notificationsTestStatus(let token):
        guard !token.isEmpty, token.utf8.count <= 64 else { throw ServerAPIError.invalidTestToken }
        guard let sent = delivery.sent(token), sent.notification.type == "TEST" else {
          throw ServerAPIError.testNotFound
        }
        return .ofServerAPI(.object(Self.members(of: sent)))
      case .consumption(let id):
        let purchase = try purchase(id, call, bundleID, now)
        try check(call.body, purchase.row)
        return Answer(text: "", httpStatus: 202)
      case .refunds(let id):
        return .ofServerAPI(try refunds(try purchase(id, call, bundleID, now).seed, call, now: now))
      case .accountToken(let id):
        try checkAccountToken(call.body, try purchase(id, call, bundleID, now).row)
        return Answer(text: "", httpStatus: 200)
      case .extend(let id): return try extend(id, call, bundleID, now: now)
      case .extendAll: return try extendAll(call, bundleID, now: now)
      case .extensionStatus(let product, let request):
        return try extensionStatus(product, request, call, bundleID)
      case .unknown: return Answer(text: "", httpStatus: 404)
      }
    } catch let error as ServerAPIError {
      return error.answer
    } catch {
      return ServerAPIError.internalError.answer
    }
  }

  /// The customer of a transaction, and its row. Transactions of the other store, of another app and of the future are
  /// unknown, as is everything of a deleted account.
  private func purchase(
    _ id: String, _ call: Call, _ bundleID: String, _ now: Timestamp
  ) throws(ServerAPIError) -> (seed: ReceiptSeed, row: CustomerState.Row) {
    guard !id.isEmpty, id.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
      throw .invalidTransactionID
    }
    guard let (customer, slot, number) = customers.transaction(id), customer.seed.environment == call.environment,
      customer.seed.bundleID == bundleID,
      let row = customer.seed.state(at: now).rows.first(where: { $0.slot == slot && $0.number == number })
    else { throw .transactionNotFound }
    if customer.seed.scenario == .accountGone { throw .accountNotFound }
    return (customer.seed, row)
  }

  // MARK: - Answers

  /// An order unknown to the app is not an error: `status` is 1 then.
  private func order(_ id: String, _ call: Call, _ bundleID: String, _ now: Timestamp) throws -> Answer {
    guard call.environment == .production else { return Answer(text: "", httpStatus: 404) }
    let purchase: (seed: ReceiptSeed, row: CustomerState.Row)?
    do throws(ServerAPIError) {
      purchase = try ReceiptSeed.transactionID(ofOrder: id).map { id throws(ServerAPIError) in
        try self.purchase(id, call, bundleID, now)
      }
    } catch { purchase = nil }
    guard let purchase else { return .ofServerAPI(.object([("status", .integer(1))])) }
    let transaction = SignedDataPayload(seed: purchase.seed, at: now).transaction(purchase.row)
    return .ofServerAPI(
      .object([("status", .integer(0)), ("signedTransactions", .array([.string(try signer.sign(transaction))]))]))
  }

  private func subscriptions(_ seed: ReceiptSeed, _ call: Call, now: Timestamp) throws -> JSON {
    let payload = SignedDataPayload(seed: seed, at: now)
    let wanted = try call.values("status").map { text throws(ServerAPIError) in
      guard let status = Int64(text), (1...5).contains(status) else { throw .invalidStatus }
      return status
    }
    var groups: [(id: String, transactions: [JSON])] = []
    for renewal in payload.state.renewals {
      let status = payload.status(of: renewal)
      guard wanted.isEmpty || wanted.contains(status),
        let last = payload.state.rows.last(where: { $0.slot == renewal.slot })
      else { continue }
      let transaction = JSON.object([
        ("originalTransactionId", .string(seed.transactionID(slot: renewal.slot, number: 0))),
        ("status", .integer(status)),
        ("signedTransactionInfo", .string(try signer.sign(payload.transaction(last)))),
        ("signedRenewalInfo", .string(try signer.sign(payload.renewalInfo(renewal)))),
      ])
      let group = last.group ?? Subscription.mainGroup
      if let index = groups.firstIndex(where: { $0.id == group }) {
        groups[index].transactions.append(transaction)
      } else {
        groups.append((group, [transaction]))
      }
    }
    let data = groups.map { group in
      JSON.object([
        ("subscriptionGroupIdentifier", .string(group.id)), ("lastTransactions", .array(group.transactions)),
      ])
    }
    return .object(seed.environment.app(seed.bundleID) + [("data", .array(data))])
  }

  private static let pageSize = 20

  /// Sorted by the last change (purchase or revocation), as Apple does.
  private func history(_ seed: ReceiptSeed, _ call: Call, now: Timestamp) throws -> JSON {
    let payload = SignedDataPayload(seed: seed, at: now)
    var rows = payload.state.rows.map { (row: $0, modified: $0.cancelledAt ?? $0.purchasedAt) }
    let types = call.values("productType")
    guard types.allSatisfy({ ["AUTO_RENEWABLE", "NON_RENEWABLE", "CONSUMABLE", "NON_CONSUMABLE"].contains($0) }) else {
      throw ServerAPIError.invalidProductType
    }
    if !types.isEmpty { rows.removeAll { !types.contains($0.row.product.appleType.queried) } }
    let products = call.values("productId")
    if !products.isEmpty { rows.removeAll { !products.contains($0.row.product.id) } }
    // Apple's own library for Python writes `True`.
    switch call.values("revoked").last?.lowercased() {
    case "true": rows.removeAll { $0.row.cancelledAt == nil }
    case "false": rows.removeAll { $0.row.cancelledAt != nil }
    case nil: break
    default: throw ServerAPIError.invalidRevoked
    }
    let isDescending: Bool
    switch call.values("sort").last {
    case "ASCENDING", nil: isDescending = false
    case "DESCENDING": isDescending = true
    default: throw ServerAPIError.invalidSort
    }
    rows.sort { ($0.modified, $0.row.slot, $0.row.number) < ($1.modified, $1.row.slot, $1.row.number) }
    if isDescending { rows.reverse() }

    let page = try page(of: rows.map(\.row), payload, call)
    return .object(page.place + seed.environment.app(seed.bundleID) + [("signedTransactions", page.transactions)])
  }

  /// A page of signed transactions, and its place among the others.
  private func page(
    of rows: [CustomerState.Row], _ payload: SignedDataPayload, _ call: Call
  ) throws -> (place: [(String, JSON)], transactions: JSON) {
    var start = 0
    if let revision = call.values("revision").last {
      guard let offset = Self.offset(ofRevision: revision) else { throw ServerAPIError.invalidRevision }
      start = min(offset, rows.count)
    }
    let end = min(start + Self.pageSize, rows.count)
    let page = try rows[start..<end].map { JSON.string(try signer.sign(payload.transaction($0))) }
    return ([("revision", .string(Self.revision(end))), ("hasMore", .boolean(end < rows.count))], .array(page))
  }

  // MARK: - Refunds

  /// Sorted by the revocation, as Apple does. A transaction that an upgrade replaced is none, nor is what a family lost.
  private func refunds(_ seed: ReceiptSeed, _ call: Call, now: Timestamp) throws -> JSON {
    let payload = SignedDataPayload(seed: seed, at: now)
    let refunded = payload.state.rows.filter { $0.cancelledAt != nil && !$0.isUpgraded && !$0.isFamilyShared }
      .sorted { ($0.cancelledAt ?? now, $0.slot, $0.number) < ($1.cancelledAt ?? now, $1.slot, $1.number) }
    let page = try page(of: refunded, payload, call)
    return .object([("signedTransactions", page.transactions)] + page.place)
  }

  // MARK: - App account tokens

  /// The body of Set App Account Token.
  private struct AccountTokenRequest: Decodable {
    var appAccountToken: String?
  }

  private static func accountToken(in body: [UInt8]) -> String? {
    let request = try? JSONDecoder().decode(AccountTokenRequest.self, from: Data(body))
    return request?.appAccountToken.flatMap { UUID(uuidString: $0) }?.uuidString.lowercased()
  }

  private func checkAccountToken(_ body: [UInt8], _ row: CustomerState.Row) throws(ServerAPIError) {
    guard Self.accountToken(in: body) != nil else { throw .invalidAccountToken }
    if row.isFamilyShared { throw .familyTransaction }
    guard row.number == 0 else { throw .notOriginalTransactionID }
  }

  // MARK: - Consumption information

  /// The body of Send Consumption Information.
  private struct ConsumptionRequest: Decodable {
    var customerConsented: Bool?
    var consumptionPercentage: Int?
    var deliveryStatus: String?
    var refundPreference: String?
    var sampleContentProvided: Bool?
  }

  private static let deliveryStatuses =
    ["DELIVERED"]
    + ["QUALITY_ISSUE", "WRONG_ITEM", "SERVER_OUTAGE", "OTHER"].map { "UNDELIVERED_\($0)" }

  private func check(_ body: [UInt8], _ row: CustomerState.Row) throws(ServerAPIError) {
    guard let request = try? JSONDecoder().decode(ConsumptionRequest.self, from: Data(body)) else { throw .badRequest }
    if row.isFamilyShared { throw .familyTransaction }
    guard request.customerConsented == true else { throw .invalidCustomerConsented }
    guard let delivery = request.deliveryStatus, Self.deliveryStatuses.contains(delivery) else {
      throw .invalidDeliveryStatus
    }
    guard request.sampleContentProvided != nil else { throw .invalidSampleContentProvided }
    if let preference = request.refundPreference, !["DECLINE", "GRANT_FULL", "GRANT_PRORATED"].contains(preference) {
      throw .invalidRefundPreference
    }
    guard let percentage = request.consumptionPercentage else { return }
    if row.product.isSubscription { throw .consumptionPercentageAutoRenewable }
    guard (0...100_000).contains(percentage) else { throw .consumptionPercentageOutOfRange }
    if delivery != "DELIVERED", percentage != 0 { throw .undeliveredConsumptionPercentage }
  }

  // MARK: - Notifications

  /// The body of Get Notification History.
  private struct HistoryRequest: Decodable {
    var startDate: Int64?
    var endDate: Int64?
    var notificationType: String?
    var notificationSubtype: String?
    var onlyFailures: Bool?
    var transactionId: String?
  }

  /// The days for which the store keeps notifications.
  private static func days(_ environment: StoreEnvironment) -> Int { environment == .production ? 180 : 30 }

  private func notificationHistory(_ call: Call, _ bundleID: String, now: Timestamp) throws(ServerAPIError) -> JSON {
    guard let request = try? JSONDecoder().decode(HistoryRequest.self, from: Data(call.body)) else { throw .badRequest }
    guard let start = request.startDate.map({ Timestamp(milliseconds: $0) }) else { throw .invalidStartDate }
    guard let end = request.endDate.map({ Timestamp(milliseconds: $0) }) else { throw .invalidEndDate }
    guard start >= now.adding(days: -Self.days(call.environment)) else { throw .startTooFarInPast }
    guard start < end else { throw .startAfterEnd }
    guard request.transactionId == nil || request.notificationType == nil else { throw .multipleFilters }
    let matching = delivery.history.filter { sent in
      let one = sent.notification
      return one.bundleID == bundleID && one.environment == call.environment && Timestamp(one.at) >= start
        && Timestamp(one.at) <= end && (request.onlyFailures != true || !sent.isTaken)
        && request.notificationType.map { $0 == one.type } ?? true
        && request.notificationSubtype.map { $0 == one.subtype } ?? true
        && request.transactionId.map { $0 == one.originalTransactionID } ?? true
    }
    var first = 0
    if let token = call.values("paginationToken").last {
      guard let offset = Self.offset(ofRevision: token) else { throw .invalidPaginationToken }
      first = min(offset, matching.count)
    }
    let next = min(first + Self.pageSize, matching.count)
    var members: [(String, JSON)] = [
      ("notificationHistory", .array(matching[first..<next].map { .object(Self.members(of: $0)) })),
      ("hasMore", .boolean(next < matching.count)),
    ]
    if next < matching.count { members.append(("paginationToken", .string(Self.revision(next)))) }
    return .object(members)
  }

  private static func members(of sent: NotificationDelivery.Sent) -> [(String, JSON)] {
    let attempts = sent.posts.map { post in
      let result =
        NotificationDelivery.Sent.isTaken(post.status)
        ? "SUCCESS" : post.status == nil ? "NO_RESPONSE" : "UNSUCCESSFUL_HTTP_RESPONSE_CODE"
      return JSON.object([
        ("attemptDate", .integer(post.at.milliseconds)), ("sendAttemptResult", .string(result)),
      ])
    }
    return [("sendAttempts", .array(attempts)), ("signedPayload", .string(sent.notification.signedPayload))]
  }

  /// The start of the next page, in a form that is opaque to callers.
  private static func revision(_ offset: Int) -> String { SignedDataSigner.encode(Array("page:\(offset)".utf8)) }

  private static func offset(ofRevision text: String) -> Int? {
    guard let bytes = SignedDataSigner.decode(text[...]) else { return nil }
    let plain = String(decoding: bytes, as: UTF8.self)
    guard plain.hasPrefix("page:"), let offset = Int(plain.dropFirst(5)), offset >= 0 else { return nil }
    return offset
  }
}

extension Answer {
  /// Apple's own libraries read an error only under this content type.
  static func ofServerAPI(_ json: JSON, httpStatus: Int = 200) -> Answer {
    Answer(json: json, httpStatus: httpStatus, headers: [("Content-Type", "application/json")])
  }
}

/// A request's endpoint.
private enum Endpoint {
  case subscriptions(String)
  case transaction(String)
  case history(String)
  case order(String)
  case consumption(String)
  case refunds(String)
  case accountToken(String)
  case extend(String), extensionStatus(productID: String, requestIdentifier: String)
  case notificationsTestStatus(String)
  case extendAll
  case notificationsHistory, notificationsTest, unknown

  init(method: String, path: String) {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    switch ("\(method) \(parts.dropLast().joined(separator: "/"))", parts.last ?? "") {
    case ("GET /inApps/v1/subscriptions", let id): self = .subscriptions(id)
    case ("GET /inApps/v1/transactions", let id): self = .transaction(id)
    case ("GET /inApps/v2/history", let id): self = .history(id)
    case ("GET /inApps/v1/lookup", let id): self = .order(id)
    case ("PUT /inApps/v2/transactions/consumption", let id): self = .consumption(id)
    case ("GET /inApps/v2/refund/lookup", let id): self = .refunds(id)
    case ("POST /inApps/v1/subscriptions/extend", "mass"): self = .extendAll
    case ("PUT /inApps/v1/subscriptions/extend", let id): self = .extend(id)
    case ("POST /inApps/v1/notifications", "history"): self = .notificationsHistory
    case ("POST /inApps/v1/notifications", "test"): self = .notificationsTest
    case ("GET /inApps/v1/notifications/test", let token): self = .notificationsTestStatus(token)
    case (_, "appAccountToken") where method == "PUT" && parts.count == 6 && path.hasPrefix("/inApps/v1/transactions/"):
      self = .accountToken(parts[4])
    case (_, let request)
    where method == "GET" && parts.count == 8 && path.hasPrefix("/inApps/v1/subscriptions/extend/mass/"):
      self = .extensionStatus(productID: parts[6], requestIdentifier: request)
    default: self = .unknown
    }
  }

  /// The name in the call book.
  var name: String {
    switch self {
    case .subscriptions: "subscriptions"
    case .transaction: "transactions"
    case .history: "history"
    case .order: "lookup"
    case .consumption: "consumption"
    case .refunds: "refund_lookup"
    case .accountToken: "app_account_token"
    case .extend: "extend"
    case .extendAll: "extend_mass"
    case .extensionStatus: "extend_mass_status"
    case .notificationsHistory: "notifications_history"
    case .notificationsTest: "notifications_test"
    case .notificationsTestStatus: "notifications_test_status"
    case .unknown: "unknown"
    }
  }

  var transactionID: String? {
    switch self {
    case .subscriptions(let id), .transaction(let id), .history(let id), .consumption(let id), .refunds(let id),
      .accountToken(let id), .extend(let id):
      id
    case .order(let id): ReceiptSeed.transactionID(ofOrder: id)
    case .notificationsHistory, .notificationsTest, .notificationsTestStatus, .extendAll, .extensionStatus, .unknown:
      nil
    }
  }

  /// Whether a call changes subscriptions.
  var changesTheStore: Bool {
    switch self {
    case .extend, .extendAll: true
    default: false
    }
  }
}

extension Trouble {
  /// Whether the store has done what was asked, and its answer is lost on the way.
  fileprivate var losesTheAnswer: Bool {
    switch self {
    case .truncated, .stall, .slowDrip, .reset: true
    default: false
    }
  }

  /// Replaces an ordinary response of the Server API by this trouble.
  fileprivate func befallServerAPI(_ answer: Answer, _ environment: StoreEnvironment, now: Timestamp) -> Answer {
    switch self {
    case .serverAPIRetryable: return ServerAPIError.internalErrorRetryable.answer
    case .serverAPINotFoundRetryable: return ServerAPIError.accountNotFoundRetryable.answer
    case .serverAPIKeyRejected: return Answer(text: "", httpStatus: 401)
    case .serverAPIRateLimited:
      var limited = ServerAPIError.rateLimited.answer
      limited.headers.append(("Retry-After", String(now.milliseconds + 60_000)))
      return limited
    // Looks like a verdict, as this trouble does in verifyReceipt.
    case .http500:
      var broken = ServerAPIError.transactionNotFound.answer
      broken.httpStatus = 500
      return broken
    case .pingPong: return ServerAPIError.transactionNotFound.answer
    case .duplicateKeys:
      var twice = answer
      twice.body = Array((String(decoding: answer.body, as: UTF8.self).dropLast() + #","environment":"Xcode"}"#).utf8)
      return twice
    default: return befall(answer, environment)
    }
  }
}
