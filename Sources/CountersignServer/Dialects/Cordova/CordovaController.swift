import Entitlements
import Hummingbird
import Validation

/// cordova-plugin-purchase 13 (`store.validator`), which iaptic's endpoint is made for.
///
/// The plugin reads nothing but HTTP 200, and keeps each 200 for two minutes, refusals too. So a verdict is 200 and a
/// refusal 200 with `ok: false`; whatever may pass is a 5xx, and is asked again.
struct CordovaController: DialectController {
  static let path = "/v1/validate"

  private let common: DialectParts
  private let body: JSONRequestBody

  init(_ common: DialectParts) {
    self.common = common
    body = JSONRequestBody(limit: common.maxBody)
  }

  func addRoutes(to routes: Routes, authenticated: Routes) {
    authenticated.serve(Self.path, [.post: validate])
  }

  /// The plugin's body, without the members that nothing here depends on: `device`, `offers`, `products`.
  private struct Posted: Decodable {
    struct Transaction: Decodable {
      var type: String
      /// The transaction ID or the product of a purchase. The plugin sends another word where it asks about the app itself.
      var id: String?
      var appStoreReceipt: String?
      var jwsRepresentation: String?
    }

    struct AdditionalData: Decodable {
      var applicationUsername: String?
    }

    var id: String
    var type: String?
    var transaction: Transaction
    var additionalData: AdditionalData?

    var transactionID: String? {
      transaction.id.flatMap { id in !id.isEmpty && id.utf8.allSatisfy { (48...57).contains($0) } ? id : nil }
    }

    /// Whether the plugin asks about something that was bought, and not about the app, which is a question too where
    /// nothing was.
    var isOfPurchase: Bool { transactionID != nil || type.map { $0 != "application" } ?? false }
  }

  private func validate(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    if case .server = context.caller { _ = try context.requireCaller(.service) }
    let read = try await body.decode(Posted.self, from: request, common.loan(for: context))
    defer { withExtendedLifetime(read.loan) {} }
    let posted = read.value
    let user = try user(of: posted, context)
    let answer = try await common.validate(
      .receipt(try Self.proof(posted)), of: user, app: context.caller?.app, isVouchedFor: context.isServer,
      transaction: posted.transactionID, context)
    let evidence = try await common.evidence(of: user, context)
    let now = common.now()
    // The plugin files whatever is listed under the App Store, so that purchases of other stores are left out, and so is the
    // app itself, which is no product.
    let ofProducts = evidence.filter(\.key.isOfAppStoreProduct)
    let collection = ofProducts.flatMap { evidence in
      CordovaPurchase.all(of: evidence, common.verdict(on: evidence, of: user, deciding: answer.entitlement), at: now)
    }
    // A transaction that was restored may have an ID that Apple's answer lacks, and gives access by what was bought before.
    let isSeen = answer.isTransactionFound != false || collection.contains { !$0.isExpired }
    guard isSeen, !answer.isAnothersTransaction, !collection.isEmpty || !posted.isOfPurchase else {
      throw Problem.purchaseNotYetSeen
    }
    return JSONBody.response(
      CordovaSuccess(id: posted.id, type: posted.transaction.type, date: now, collection: collection))
  }

  /// The user: the token's, or the one whom the app or the server names.
  private func user(of posted: Posted, _ context: ServiceRequestContext) throws(Problem) -> UserID {
    if case .user(let user) = context.caller { return user }
    guard let name = posted.additionalData?.applicationUsername, !name.isEmpty else {
      throw Problem(.forbidden, "The request names no user: set store.applicationUsername, or send the user's token.")
    }
    let user = try UserID(checking: name, named: "additionalData.applicationUsername")
    if case .app = context.caller { try common.admit(namedByApp: user, context) }
    return user
  }

  private static func proof(_ posted: Posted) throws(Problem) -> String {
    let text: String?
    let member: String
    switch posted.transaction.type {
    case "ios-appstore": (text, member) = (posted.transaction.appStoreReceipt, "appStoreReceipt")
    case "apple-sk2": (text, member) = (posted.transaction.jwsRepresentation, "jwsRepresentation")
    // No store but Apple's is ever asked, so this does not pass; a 5xx would be tried again for ever.
    default:
      throw Problem(
        .unsupportedReceipt,
        "This service validates purchases of the App Store alone; set the validator on iOS.")
    }
    guard let proof = text else { throw Problem(.malformedRequest, "'transaction.\(member)' is missing.") }
    return proof
  }

  func isForPages(_ path: String) -> Bool { path == Self.path }

  var errors: DialectErrors { Self.errors }

  static let errors = DialectErrors(
    covers: { $0 == path },
    response: { problem, _, _ in
      let isPassing = problem.passingStatus.kind == .serverError
      let code: CordovaFailure.Code =
        isPassing
        ? .communication
        : [.unauthenticated, .forbidden].contains(problem.code) ? .clientInvalid : .verificationFailed
      let status: HTTPResponse.Status = problem.code == .methodNotAllowed || isPassing ? problem.passingStatus : .ok
      return problem.response(CordovaFailure(code: code, message: problem.detail), status: status)
    })
}
