import Entitlements
import Hummingbird
import Validation

/// OpenIAP's `verifyPurchaseWithProvider`, with `iapkit.baseUrl` set to this service: expo-iap, react-native-iap,
/// flutter_inapp_purchase and others.
///
/// The body names no user. It is the token's, if the app sends the user's token as the key; else the one whom the app named
/// at the purchase; else the purchase is verified, and is nobody's.
struct OpenIAPController: DialectController {
  static let path = "/v1/purchase/verify"

  private let common: DialectParts
  private let kit: OpenIAPKitController
  private let body: JSONRequestBody

  init(_ common: DialectParts) {
    self.common = common
    kit = OpenIAPKitController(common)
    body = JSONRequestBody(limit: common.maxBody)
  }

  func addRoutes(to routes: Routes, authenticated: Routes) {
    authenticated.serve(Self.path, [.post: verify])
    kit.addRoutes(to: routes)
  }

  /// `includeClientPayload` is for a catalog that IAPKit keeps and this service does not.
  private struct Posted: Decodable {
    var store: String
    var jws: String?
    var expectedProductId: String?
  }

  private func verify(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    if case .server = context.caller { _ = try context.requireCaller(.service) }
    let read = try await body.decode(Posted.self, from: request, common.loan(for: context))
    defer { withExtendedLifetime(read.loan) {} }
    guard read.value.store == "apple" else {
      throw Problem(.malformedRequest, "'store' has to be 'apple': no other store can be asked here.")
    }
    guard let jws = read.value.jws else {
      throw Problem(.malformedRequest, "'jws' is missing: send the signed transaction.")
    }
    var answer = try await answer(about: jws, context)
    if let expected = read.value.expectedProductId, answer.isValid, answer.productId != expected {
      // The purchase is genuine, and not of what the app is about to give.
      (answer.isValid, answer.state) = (false, .inauthentic)
    }
    return JSONBody.response(answer)
  }

  private func answer(about jws: String, _ context: ServiceRequestContext) async throws -> OpenIAPAnswer {
    let transaction = try common.transaction(in: jws, named: "jws", context)
    let app = context.caller?.app
    guard let user = try await user(of: transaction, in: jws, context) else {
      let submission = ReceiptSubmission(user: .nobody, proof: .receipt(jws), requestID: context.requestID, app: app)
      let evidence = try await common.line.validation(of: context) { _ throws(ValidationError) in
        try await common.useCases.inspector.inspect(submission, logger: context.logger)
      }
      return answer(about: transaction, evidence, of: .nobody, deciding: nil)
    }
    let verdict = try await common.validate(.receipt(jws), of: user, app: app, isVouchedFor: context.isServer, context)
    return answer(
      about: transaction, try await common.evidence(of: user, context), of: user, deciding: verdict.entitlement)
  }

  private func user(
    of transaction: Purchase, in jws: String, _ context: ServiceRequestContext
  ) async throws -> UserID? {
    if case .user(let user) = context.caller { return user }
    let named = try await context.validating(await common.useCases.inspector.userNamed(by: transaction))
    if let named, case .app = context.caller {
      // Anybody can write a user into what nobody signed, which counts for nobody.
      try await context.validating(await common.useCases.inspector.requireProof(of: jws))
      try common.limits.admit(namedByApp: named, context)
    }
    return named
  }

  private func answer(
    about transaction: Purchase, _ all: [SubscriptionEvidence], of user: UserID, deciding: Entitlement?
  ) -> OpenIAPAnswer {
    guard
      let evidence = all.first(where: { evidence in
        evidence.purchases.contains { $0.transactionID == transaction.transactionID }
      }) ?? all.first(where: { $0.key.originalTransactionID == transaction.originalTransactionID })
    else { return OpenIAPAnswer(state: .unknown, productID: transaction.productID) }
    return OpenIAPAnswer(
      transaction, evidence, common.verdict(on: evidence, of: user, deciding: deciding),
      kind: common.useCases.reader.rules.catalog.products[transaction.productID]?.kind, at: common.now())
  }

  var errors: DialectErrors { Self.errors }

  static let errors = DialectErrors(
    covers: { $0 == path || OpenIAPKitController.covers($0) },
    response: { problem, path, _ in
      let isRefusal: Bool =
        switch problem.code {
        case .undecodableReceipt, .notAuthentic, .wrongApp, .sandboxRefused: true
        default: false
        }
      guard isRefusal, path == Self.path else {
        return problem.response(
          OpenIAPFailure(code: problem.code.rawValue, message: problem.detail), status: problem.passingStatus)
      }
      return problem.response(OpenIAPAnswer(state: .inauthentic), status: .ok)
    })
}

extension DialectParts {
  /// The transaction in a member of the body, unproven.
  /// - Throws: a problem: 400 that names the member, where it has something else of Apple's.
  func transaction(
    in text: String, named member: String, _ context: ServiceRequestContext
  ) throws(Problem) -> Purchase {
    do throws(ValidationError) { return try useCases.inspector.transaction(in: text) } catch {
      guard case .unsupportedReceipt(let detail) = error else { throw context.problem(error) }
      throw Problem(.malformedRequest, "'\(member)' has to be a signed transaction (JWS). \(detail)")
    }
  }
}
