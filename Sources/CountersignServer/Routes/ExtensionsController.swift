import CountersignAPI
import Entitlements
import FoundationEssentials
import Hummingbird
import Ledger
import Validation

/// Extensions of renewal dates: `/v1/purchases/{…}/extensions` for one purchase, `/v1/products/{product_id}/extensions` for all
/// active subscribers, and `/v1/extensions` for their progress.
struct ExtensionsController: Controller {
  var extensions: RenewalExtensions
  var ledger: Ledger
  var catalog: Catalog
  var body = JSONRequestBody(limit: BodyBudgets.supportLimit)
  var budget: ByteBudget
  var now: @Sendable () -> Date

  static let listed = 50
  static let mostStorefronts = 200

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/purchases/{original_transaction_id}/extensions", [.get: ofPurchase, .post: extend])
    routes.serve("/v1/products/{product_id}/extensions", [.post: extendAll])
    routes.serve("/v1/extensions", [.get: ofProducts])
    routes.serve("/v1/extensions/{extension_id}", [.get: one])
  }

  // MARK: One purchase

  func extend(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.support, .service)
    let id = try context.originalTransactionIDInPath()
    let idempotencyKey = try request.headers.idempotencyKey()
    let posted = try await body.decode(ExtensionRequest.self, from: request, budget.loan()).value
    let terms = try Self.terms(posted.days, posted.reason)
    let note = try NoteText.checked(posted.note, by: caller)
    try requireServerAPI()
    let environment = try posted.environment.map(StoreEnvironment.checked)
    let owned = try await context.reading(await ledger.ownedPurchases(id)).filter {
      !$0.owner.isErased && !$0.evidence.key.isOfAnotherStore
        && environment.map { [store = $0.evidence.key.environment] in $0 == store } ?? true
    }
    guard owned.count <= 1 else { throw Problem.inBothStores }
    guard let key = owned.first?.evidence.key else {
      throw Problem(.unknownTransaction, "No user here has a purchase with this original transaction ID.")
    }
    let asked = AskExtension(
      environment: key.environment, subject: .purchase(key.originalTransactionID), terms: terms, author: caller.name,
      note: note,
      requestID: context.requestID, idempotencyKey: idempotencyKey, now: now(), claimedUntil: extensions.lease())
    return try await answer(to: asked, context)
  }

  func ofPurchase(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    let id = try context.originalTransactionIDInPath()
    let environment = try request.parameter("environment").map(StoreEnvironment.checked) ?? .production
    let records = try await context.reading(
      await ledger.extensions(
        of: SubscriptionKey(environment: environment, originalTransactionID: id), limit: Self.listed))
    return JSONBody.uncached(ExtensionsResponse(extensions: records.map(ExtensionResponse.init)))
  }

  // MARK: All active subscribers of a product

  func extendAll(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.support, .service)
    let idempotencyKey = try request.headers.idempotencyKey()
    let posted = try await body.decode(ProductExtensionRequest.self, from: request, budget.loan()).value
    let terms = try Self.terms(posted.days, posted.reason)
    let note = try NoteText.checked(posted.note, by: caller)
    try requireServerAPI()
    guard let name = context.parameters["product_id"].flatMap(UserID.percentDecoded),
      catalog.products[ProductID(name)]?.kind == .subscription
    else { throw Problem(.notFound, "The catalog has no auto-renewable subscription with this product ID.") }
    let product = ExtendedProduct(productID: ProductID(name), storefronts: try Self.storefronts(posted.storefronts))
    let asked = AskExtension(
      environment: try posted.environment.map(StoreEnvironment.checked) ?? .production, subject: .product(product),
      bundleID: try app(posted.bundleID), terms: terms, author: caller.name, note: note, requestID: context.requestID,
      idempotencyKey: idempotencyKey, now: now(), claimedUntil: nil)
    return try await answer(to: asked, context)
  }

  func ofProducts(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    let of: String = try request.parameter("of") ?? "products"
    guard ["products", "purchases"].contains(of) else {
      throw Problem(.malformedRequest, "'of' has to be 'products' or 'purchases'.")
    }
    let records = try await context.reading(await ledger.extensions(ofProducts: of == "products", limit: Self.listed))
    return JSONBody.uncached(ExtensionsResponse(extensions: records.map(ExtensionResponse.init)))
  }

  func one(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    guard let id = context.number("extension_id"),
      let record = try await context.reading(await ledger.extensionRecord(id))
    else { throw Problem(.notFound, "There is no extension with this ID.") }
    return JSONBody.uncached(ExtensionResponse(record))
  }

  // MARK: Answers

  private func answer(to asked: AskExtension, _ context: ServiceRequestContext) async throws -> Response {
    let outcome = try await context.validating(await extensions.ask(asked, logger: context.logger))
    switch outcome {
    case .asked(let record), .known(let record):
      var response = JSONBody.uncached(ExtensionResponse(record), status: record.closedAt == nil ? .accepted : .ok)
      response.headers[.location] = "/v1/extensions/\(record.id)"
      return response
    case .mismatch: throw Problem(.idempotencyMismatch, "This 'Idempotency-Key' was used for another extension.")
    case .waiting(let record):
      throw Problem(
        .idempotencyMismatch,
        "Apple has not answered yet whether it extends this subscription by \(record.terms.days) days; wait for that.")
    }
  }

  private func requireServerAPI() throws(Problem) {
    guard extensions.isAvailable else {
      throw Problem(.notFound, "Extensions need a key of the App Store Server API: set app_store.server_api.")
    }
  }

  private static func terms(_ days: Int?, _ reason: String?) throws(Problem) -> RenewalExtension {
    guard let days, RenewalExtension.dayLimits.contains(days) else {
      throw Problem(.malformedRequest, "'days' has to be a whole number from 1 to 90, as Apple limits it.")
    }
    guard let reason = reason.flatMap(RenewalExtension.Reason.init) else {
      let words = RenewalExtension.Reason.allCases.map(\.rawValue).joined(separator: ", ")
      throw Problem(.malformedRequest, "'reason' has to be one of \(words).")
    }
    return RenewalExtension(days: days, reason: reason, requestIdentifier: UUID().uuidString.lowercased())
  }

  private static func storefronts(_ codes: [String]?) throws(Problem) -> [String]? {
    guard let codes else { return nil }
    let areCodes = codes.allSatisfy { code in code.utf8.count == 3 && code.utf8.allSatisfy { (65...90).contains($0) } }
    guard areCodes, (1...mostStorefronts).contains(codes.count) else {
      throw Problem(.malformedRequest, "'storefronts' has to list countries by codes of three letters, such as USA.")
    }
    return codes
  }

  private func app(_ name: String?) throws(Problem) -> BundleID {
    let apps = extensions.bundleIDs
    if name == nil, apps.count == 1, let app = apps.first { return app }
    guard let app = name.map({ BundleID($0) }), apps.contains(app) else {
      throw Problem(.malformedRequest, "'bundle_id' has to be one of \(apps.map(\.rawValue).joined(separator: ", ")).")
    }
    return app
  }
}

extension ExtensionResponse {
  init(_ record: ExtensionRecord) {
    self.init(
      id: String(record.id), requestIdentifier: record.terms.requestIdentifier, state: record.state.rawValue,
      environment: record.environment.rawValue, originalTransactionID: record.subject.purchase?.rawValue,
      productID: record.subject.product?.productID.rawValue, storefronts: record.subject.product?.storefronts,
      days: record.terms.days, reason: record.terms.reason.rawValue, author: record.author, note: record.note,
      askedAt: record.askedAt, closedAt: record.closedAt, expiresAt: record.expiresAt, problem: record.problem,
      progress: record.expected.map { expected in
        Progress(expected: expected, extended: record.succeeded, failed: record.failed)
      })
  }
}
