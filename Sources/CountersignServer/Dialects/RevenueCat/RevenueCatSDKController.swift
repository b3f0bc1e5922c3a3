import Access
import AppStore
import CountersignAPI
import Entitlements
import FoundationEssentials
import HTTPTypes
import Hummingbird
import Ledger
import Logging
import NIOCore
import Resilience
import Validation

/// RevenueCat's SDKs, with `Purchases.proxyURL` set to this service: their calls over our use cases.
///
/// The key in the app is public, and names no user: whoever has an app user ID reads what it names. What a call may
/// change is what a receipt proves, whom an anonymous ID turns out to be, and attributes.
struct RevenueCatSDKController: DialectController {
  static let receiptsPath = "/v1/receipts"

  private let common: DialectParts
  private let isEnabled: Bool
  private let receipt: JSONRequestBody
  private let small = JSONRequestBody(limit: 256 * 1024, requiresPlainNames: false)
  private let offerings: ByteBuffer
  private let mapping: ByteBuffer

  init(_ common: DialectParts, isEnabled: Bool) {
    self.common = common
    self.isEnabled = isEnabled
    receipt = JSONRequestBody(limit: common.maxBody, requiresPlainNames: false)
    offerings = JSONBody.encode(RevenueCatOfferings(common.useCases.plans), keys: .convertToSnakeCase)
    mapping = JSONBody.encode(
      ProductEntitlementMapping(common.useCases.reader.rules.catalog, scope: common.useCases.plans.entitlements),
      keys: .convertToSnakeCase)
  }

  func addRoutes(to routes: Routes, authenticated: Routes) {
    guard isEnabled else {
      // A 404 would make an SDK that still calls throw its purchases away.
      routes.serve("/v1/receipts", [.post: { _, _ in throw Self.switchedOff }])
      return
    }
    routes.serve("/v1/health", [.get: { _, _ in Self.response(Self.emptyObject) }])
    authenticated.serve("/v1/receipts", [.post: answering(postReceipt)])
    authenticated.serve("/v1/subscribers/identify", [.post: answering(identify)])
    routes.serve("/v1/subscribers/redeem_purchase", [.post: { _, _ in throw Problem.nothingHere }])
    authenticated.serve("/v1/subscribers/{app_user_id}", [.get: answering(subscriber)])
    authenticated.serve("/v1/subscribers/{app_user_id}/offerings", [.get: known(offerings)])
    authenticated.serve("/v1/subscribers/{app_user_id}/alias", [.post: answering(alias)])
    authenticated.serve("/v1/subscribers/{app_user_id}/attributes", [.post: answering(setAttributes)])
    authenticated.serve("/v1/subscribers/{app_user_id}/restore/eligibility", [.post: answering(restoreEligibility)])
    authenticated.serve("/v1/subscribers/{app_user_id}/intro_eligibility", [.post: answering(introEligibility)])
    authenticated.serve(
      "/v1/subscribers/{app_user_id}/virtual_currencies",
      [.get: known(JSONBody.encode(["virtual_currencies": [String: Int]()]))])
    // The SDK sends no key with it.
    routes.serve(
      "/v1/subscribers/{app_user_id}/health_report_availability",
      [.get: { _, _ in Self.response(JSONBody.encode(["report_logs": false])) }])
    for ending in ["attribution", "adservices_attribution"] {
      authenticated.serve("/v1/subscribers/{app_user_id}/\(ending)", [.post: known(Self.emptyObject)])
    }
    authenticated.serve("/rcbilling/v1/subscribers/{app_user_id}/products", [.get: answering(webProducts)])
    authenticated.serve("/v1/product_entitlement_mapping", [.get: known(mapping)])
    authenticated.serve("/v1/offers", [.post: answering(offers)])
    authenticated.serve("/v1/diagnostics", [.post: known(Self.emptyObject)])
  }

  // MARK: Customers

  private func subscriber(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (id, caller) = try await customer(in: context)
    try await admitNewcomer(id, caller, context)
    return try await customerInfo(of: id, context)
  }

  private func identify(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireAppOr(.service)
    let posted = try await small.decode(PostedIdentity.self, from: request, common.loan(for: context)).value
    let id = try UserID(checkingAppUserID: posted.appUserID)
    let newID = try UserID(checkingAppUserID: posted.newAppUserID)
    try admit(newID, caller, context)
    let isNew = try await join(id, to: newID, caller, context)
    return try await customerInfo(of: newID, context, status: isNew ? .created : .ok)
  }

  private func alias(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (id, caller) = try await customer(in: context)
    let posted = try await small.decode(PostedIdentity.self, from: request, common.loan(for: context)).value
    _ = try await join(id, to: try UserID(checkingAppUserID: posted.newAppUserID), caller, context)
    return Self.response(Self.emptyObject)
  }

  /// - Returns: whether the user was not known before.
  private func join(
    _ id: UserID, to user: UserID, _ caller: Caller, _ context: ServiceRequestContext
  ) async throws -> Bool {
    try await admitNewcomer(id, caller, context)
    let isNew = try await admitNewcomer(user, caller, context)
    let outcome = try await context.reading(
      await common.useCases.validator.join(id, to: user, requestID: context.requestID))
    if outcome == .joined { context.logger.info("an anonymous customer signed in", metadata: ["user_id": "\(user)"]) }
    return isNew
  }

  private func setAttributes(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (id, caller) = try await customer(in: context)
    let posted = try await small.decode(PostedAttributes.self, from: request, common.loan(for: context)).value
    var errors = posted.attributes.compactMap { name, attribute in
      PostedAttribute.problem(name, attribute).map { AttributeErrors.One(keyName: name, message: $0) }
    }
    try common.limits.reserve.requireRoom()
    try await admitNewcomer(id, caller, context)
    errors += try await keep(posted.attributes, of: id, context).map { name in
      AttributeErrors.One(
        keyName: name,
        message:
          "A customer has at most \(CustomerAttribute.most) attributes, of \(CustomerAttribute.mostBytes) bytes in all."
      )
    }
    guard !errors.isEmpty else { return Self.response(Self.emptyObject) }
    return Self.response(
      JSONBody.encode(
        AttributeErrors(attributeErrors: errors.sorted { $0.keyName < $1.keyName }), keys: .convertToSnakeCase))
  }

  /// - Returns: the names for which there is no room.
  private func keep(
    _ attributes: [String: PostedAttribute], of id: UserID, _ context: ServiceRequestContext
  ) async throws -> [String] {
    let sound = attributes.filter { PostedAttribute.problem($0.key, $0.value) == nil }.mapValues(\.kept)
    return try await context.reading(await common.useCases.ledger.keep(sound, of: id, at: common.now()))
  }

  // MARK: Purchases

  private func postReceipt(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireAppOr(.service)
    let body = try await receipt.decode(PostedReceipt.self, from: request, common.loan(for: context))
    defer { withExtendedLifetime(body.loan) {} }
    let posted = body.value
    let id = try UserID(checkingAppUserID: posted.appUserID)
    try admit(id, caller, context)
    var moment: Date?
    if let token = posted.fetchToken {
      moment = try await validate(token, of: id, posted, caller, request, context)
    } else if posted.appTransaction == nil {
      throw RevenueCatError(.badRequest, "There is no purchase in 'fetch_token'.")
    } else {
      // An AppTransaction proves a download. A transaction beside it stays with the SDK.
      guard posted.initiation == nil else { throw Problem.purchaseNotYetSeen }
      try await admitNewcomer(id, caller, context)
    }
    // Nothing of a refused purchase is kept.
    if let attributes = posted.attributes, common.limits.reserve.hasRoom {
      _ = try await keep(attributes, of: id, context)
    }
    if let transaction = posted.appTransaction { await note(transaction, of: id, caller, context) }
    return try await customerInfo(of: id, context, status: .ok, at: moment)
  }

  /// - Returns: when Apple answered, by Apple's clock, for which the verdict is; `nil` where it was not asked.
  private func validate(
    _ token: String, of id: UserID, _ posted: PostedReceipt, _ caller: Caller, _ request: Request,
    _ context: ServiceRequestContext
  ) async throws -> Date? {
    if let platform = request.headers[.xPlatform]?.lowercased(), platform == "android" || platform == "amazon" {
      throw Problem(
        .unsupportedReceipt,
        "This service asks Apple alone. Purchases of other stores come in by RevenueCat's webhooks.")
    }
    let user = try await user(named: id, context)
    let token = await signedTransaction(ofXcode: token, posted.transactionID) ?? token
    // A signed transaction names itself. A restore is about all purchases.
    let signed = token.contains(".") ? common.useCases.validator.purchases(in: token).first : nil
    let transaction = posted.isRestore ? nil : posted.transactionID ?? signed?.transactionID.rawValue
    let answer: ValidatedEntitlement
    do {
      answer = try await common.validate(
        .receipt(token), of: user, app: caller.app, transaction: transaction, context)
    } catch let problem as Problem where problem.code == .ownedByAnotherUser {
      guard let signed, try await !isOwned(signed, context) else { throw problem }
      // It waits for the user for whom the app made it.
      throw Problem.purchaseNotYetSeen
    }
    guard try await isRecorded(posted, token, answer, context) else { throw Problem.purchaseNotYetSeen }
    return answer.evaluatedAt
  }

  private func isOwned(_ purchase: Purchase, _ context: ServiceRequestContext) async throws -> Bool {
    try await !context.reading(await common.useCases.ledger.ownedPurchases(purchase.originalTransactionID)).isEmpty
  }

  /// The signed transaction with an ID, or else the newest, of a purchase in Xcode. There is no app receipt there: the SDK
  /// sends all signed transactions as JSON in base64.
  private func signedTransaction(ofXcode token: String, _ id: String?) async -> String? {
    struct XcodeReceipt: Decodable { var transactions: [String] }
    // `{"` or `{` and a line break.
    guard token.hasPrefix("eyJ") || token.hasPrefix("ewo") else { return nil }
    return await LongWork.run(bytes: token.utf8.count) {
      guard let data = Data(base64Encoded: token),
        let receipt = try? JSONDecoder().decode(XcodeReceipt.self, from: data),
        receipt.transactions.count <= Self.xcodeLimit
      else { return nil }
      let known = receipt.transactions.compactMap { signed in
        common.useCases.validator.purchases(in: signed).first.map { (signed, $0) }
      }
      let newest = known.max { ($0.1.purchaseDate ?? .distantPast) < $1.1.purchaseDate ?? .distantPast }
      return (known.first { $0.1.transactionID.rawValue == id } ?? newest)?.0
    }
  }

  /// The most transactions that Xcode's JSON may have.
  private static let xcodeLimit = 1_000

  /// Whether the purchase that the SDK finishes is known. Where its transaction is not in Apple's answer, a running
  /// purchase of its product, or a change to it at the next renewal, is as good: an answer may have the newest period alone.
  /// SDKs of 2025 and older do not name the transaction.
  private func isRecorded(
    _ posted: PostedReceipt, _ token: String, _ answer: ValidatedEntitlement, _ context: ServiceRequestContext
  ) async throws -> Bool {
    guard !posted.isRestore, answer.isTransactionFound != true else { return true }
    guard !answer.isAnothersTransaction else { return false }
    let now = common.now()
    func isRunning(_ row: Purchase) -> Bool { row.cancellationDate == nil && row.expiresDate.map { now < $0 } ?? true }
    // A new purchase runs. A transaction from the queue may be long over.
    let mayBeOver = answer.isTransactionFound == nil && posted.initiation != .purchase
    let evidence = try await context.reading(await common.useCases.ledger.profile(of: answer.user))?.evidence ?? []
    guard let product = posted.productID.map(ProductID.init(rawValue:)) else {
      return answer.isTransactionFound == nil
        && (posted.initiation == nil || evidence.contains { $0.key.isOfAppStoreProduct && !$0.purchases.isEmpty })
    }
    let isKnown = evidence.contains { evidence in
      let running = evidence.purchases.filter(isRunning)
      let isToChange = evidence.renewals.contains { $0.autoRenewProductID == product && $0.autoRenews != false }
      let counted = mayBeOver ? evidence.purchases : running
      return counted.contains { $0.productID == product } || isToChange && !running.isEmpty
    }
    guard !isKnown, answer.isTransactionFound == nil else { return isKnown }
    return common.useCases.validator.purchases(in: token).contains {
      $0.productID == product && (mayBeOver || isRunning($0))
    }
  }

  /// Records what an AppTransaction says of the app. It is sent beside every purchase, and none fails for it.
  private func note(_ transaction: String, of id: UserID, _ caller: Caller, _ context: ServiceRequestContext) async {
    do {
      _ = try await common.validate(
        .appTransaction(transaction), of: try await user(named: id, context), app: caller.app, context)
    } catch {
      context.logger.info(
        "an AppTransaction was not recorded", metadata: ["problem": "\((error as? Problem)?.code.rawValue ?? "other")"])
    }
  }

  private func restoreEligibility(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (id, _) = try await customer(in: context)
    let body = try await receipt.decode(PostedRestore.self, from: request, common.loan(for: context))
    defer { withExtendedLifetime(body.loan) {} }
    var isAnothers = false
    if let token = body.value.fetchToken {
      let user = try await user(named: id, context)
      isAnothers = try await context.validating(await common.useCases.validator.isAnothers(token, than: user))
    }
    return Self.response(JSONBody.encode(["is_purchase_allowed_by_restore_behavior": !isAnothers]))
  }

  /// Whether the customer may still have an introductory price: no, once one was had of the product or its group. Apple
  /// alone knows that none was.
  private func introEligibility(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (id, _) = try await customer(in: context)
    let body = try await receipt.decode(PostedProducts.self, from: request, common.loan(for: context))
    let profile = try await context.reading(await common.useCases.ledger.profile(of: id))
    let known = try await context.reading(
      await common.useCases.ledger.includingPast(profile?.evidence ?? [], of: id))
    let purchases = known.flatMap(\.purchases)
    let groups = Set(purchases.filter { $0.isTrial || $0.isIntroductoryOffer }.compactMap(\.subscriptionGroupID))
    let used = Set(
      purchases.filter { purchase in
        purchase.isTrial || purchase.isIntroductoryOffer
          || purchase.subscriptionGroupID.map(groups.contains) ?? false
      }.map(\.productID.rawValue))
    let answers = (body.value.productIdentifiers ?? []).prefix(1_000).map { product in
      (product, Nullable(wrappedValue: used.contains(product) ? false : nil))
    }
    return Self.response(JSONBody.encode(Dictionary(answers) { first, _ in first }))
  }

  private func offers(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireAppOr(.service)
    let posted = try await receipt.decode(PostedOffers.self, from: request, common.loan(for: context)).value
    let id = try UserID(checkingAppUserID: posted.appUserID)
    try admit(id, caller, context)
    let user = try await user(named: id, context)
    // StoreKit 2 knows accounts that are UUIDs alone; before it the SDK gave every purchase the ID.
    let isStoreKit2 = posted.fetchToken.map { $0.utf8.count { $0 == UInt8(ascii: ".") } == 2 } ?? true
    let account = id.accountToken ?? (isStoreKit2 ? "" : id.rawValue)
    var offers: [SignedOffers.Offer] = []
    for offer in (posted.generateOffers ?? []).prefix(Self.mostOffers) {
      var answer = SignedOffers.Offer(offerID: offer.offerID ?? "", productID: offer.productID ?? "")
      do throws(SubscriptionOffers.Refusal) {
        let signed = try await common.useCases.offers.promotional(
          answer.offerID, SubscriptionOffers.Wanted(user: user, product: ProductID(answer.productID), app: caller.app),
          account: account, at: common.now())
        answer.keyID = signed.keyID
        answer.signatureData = SignedOffers.SignatureData(
          nonce: signed.former.nonce, signature: signed.former.signature, timestamp: signed.former.timestamp)
      } catch {
        let problem = Problem(error, context)
        guard !problem.code.isRetryable else { throw problem }
        answer.signatureError = SignedOffers.SignatureError(
          code: RevenueCatError.Code.badRequest.rawValue, message: problem.detail)
      }
      offers.append(answer)
    }
    return Self.response(JSONBody.encode(SignedOffers(offers: offers), keys: .convertToSnakeCase))
  }

  /// The most offers of one request: an SDK asks for one.
  private static let mostOffers = 20

  /// The products of an offering, as the SDK for the web shows them.
  private func webProducts(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireAppOr(.service)
    let products = request.uri.queryParameters[values: "id"].prefix(1_000).map { ProductID(String($0)) }
    let currency = try request.parameter("currency")
    return Self.response(
      JSONBody.encode(
        WebProducts(products, in: currency, common.useCases.reader.rules.catalog, common.useCases.plans),
        keys: .convertToSnakeCase))
  }

  // MARK: Parts

  /// The customer in the path.
  private func customer(in context: ServiceRequestContext) async throws -> (id: UserID, caller: Caller) {
    let caller = try context.requireAppOr(.service)
    guard let text = context.parameters["app_user_id"].flatMap(UserID.percentDecoded) else {
      throw RevenueCatError(.invalidUserID, "The app user ID is not percent-encoded UTF-8.")
    }
    let id = try UserID(checkingAppUserID: text)
    try admit(id, caller, context)
    return (id, caller)
  }

  private func admit(_ id: UserID, _ caller: Caller, _ context: ServiceRequestContext) throws(Problem) {
    if case .app = caller { try common.limits.admit(namedByApp: id, context) }
  }

  /// Counts a customer who is not known yet for the address.
  /// - Returns: whether there is none of that ID yet.
  @discardableResult
  private func admitNewcomer(
    _ id: UserID, _ caller: Caller, _ context: ServiceRequestContext
  ) async throws(Problem) -> Bool {
    let isKnown = try await context.reading(await common.useCases.ledger.knows(id))
    if !isKnown { try common.limits.admitNewcomer(by: caller, from: context.clientAddress) }
    return !isKnown
  }

  private func user(named id: UserID, _ context: ServiceRequestContext) async throws(Problem) -> UserID {
    try await context.reading(await common.useCases.ledger.user(named: id))
  }

  /// - Parameters:
  ///   - status: `nil`: 201 for a customer who was not known, else 200.
  ///   - moment: for which the answer is; `nil` for now.
  private func customerInfo(
    of id: UserID, _ context: ServiceRequestContext, status: HTTPResponse.Status? = nil, at moment: Date? = nil
  ) async throws -> Response {
    let (customer, isNew) = try await context.reading(await common.useCases.ledger.meet(id, at: common.now()))
    let now = moment ?? common.now()
    let (profile, troubles) = try await context.reading(
      (
        await common.useCases.ledger.profile(of: customer.user),
        await common.useCases.ledger.troubles(of: customer.user)
      ))
    let info = CustomerInfo(
      customer, profile, troubles, rules: common.useCases.reader.rules, scope: common.useCases.plans.entitlements,
      at: now)
    return Self.response(JSONBody.encode(info), status: status ?? (isNew ? .created : .ok), at: now)
  }

  /// A handler whose answer depends on nothing but that the caller is known.
  private func known(_ body: ByteBuffer) -> Handler {
    { _, context in
      _ = try context.requireAppOr(.service)
      return Self.response(body)
    }
  }

  /// A handler whose errors have RevenueCat's form.
  private func answering(_ handler: @escaping Handler) -> Handler {
    { request, context in
      do { return try await handler(request, context) } catch let error as RevenueCatError {
        return error.response(path: request.uri.path)
      }
    }
  }

  private static let emptyObject = ByteBuffer(string: "{}\n")

  private static func response(_ body: ByteBuffer, status: HTTPResponse.Status = .ok, at now: Date? = nil) -> Response {
    var headers: HTTPFields = [.contentType: "application/json", .cacheControl: "no-store"]
    if let now { headers[.revenueCatRequestTime] = String(now.millisecondsSince1970) }
    return Response(status: status, headers: headers, body: .bytes(body))
  }

  // MARK: Errors

  private static let switchedOff = Problem(
    .overloaded, "This service does not speak RevenueCat's dialect now; nothing was recorded; try again.",
    retryAfter: 3600)

  /// The native path that takes the telemetry of SDKs as well.
  static let telemetryPath = "/v1/events"

  func isForPages(_ path: String) -> Bool { isEnabled && (Self.isOurs(path) || path == Self.telemetryPath) }

  var errors: DialectErrors {
    DialectErrors(
      covers: { [isEnabled] path in path == Self.receiptsPath || isEnabled && Self.isOurs(path) },
      response: { problem, path, _ in RevenueCatError(problem).response(path: path) })
  }

  /// Whether a path is one that RevenueCat's SDKs call, answered or not, and not ours.
  static func isOurs(_ path: String) -> Bool {
    [
      "/v1/subscribers/", "/v1/customercenter/", "/v1/customer/", "/v1/config/", "/v1/receipts/", "/rcbilling/",
      "/auth/",
    ].contains { path.hasPrefix($0) }
      || [
        receiptsPath, "/v1/product_entitlement_mapping", "/v1/offers", "/v1/diagnostics", "/v1/health",
        "/v1/health/connectivity", "/v1/customer", "/v1/offerings", "/v1/external_purchase_tokens",
      ].contains(path)
  }
}

extension ServiceRequestContext {
  /// The caller, where the route lets in apps by their public key, and servers of one of these roles.
  /// - Throws: a 403 problem for anybody else.
  func requireAppOr(_ roles: APIKey.Role...) throws(Problem) -> Caller {
    switch caller {
    case .app(let key): return .app(key)
    case .server(let server) where roles.contains(where: server.roles.contains): return .server(server)
    case nil, .user, .server: throw Problem(.forbidden, "This route is for the public key of an app.")
    }
  }
}
