import CountersignAPI
import Entitlements
import Hummingbird
import Validation

/// `GET /v1/profiles/{user_id}/refunds`: Apple's own list of the refunds of a user's customers.
struct RefundsController: Controller {
  var refunds: RefundHistory

  func addRoutes(to routes: Routes) { routes.serve("/v1/profiles/{user_id}/refunds", [.get: read]) }

  func read(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    let user = try context.checkedUserInPath()
    let answer: RefundHistory.Answer
    do throws(ValidationError) {
      answer = try await refunds.refunds(of: user, requestID: context.requestID, logger: context.logger)
    } catch {
      guard case .notAskable = error else { throw context.problem(error) }
      return JSONBody.uncached(RefundsResponse(userID: user.rawValue, appStore: "not_configured", refunds: []))
    }
    let appStore = answer.asked == 0 ? "not_asked" : answer.unanswered > 0 ? "unavailable" : "answered"
    return JSONBody.uncached(
      RefundsResponse(
        userID: user.rawValue, appStore: appStore, refunds: answer.refunds.compactMap(RefundsResponse.Refund.init)))
  }
}

extension RefundsResponse.Refund {
  fileprivate init?(_ refund: RefundHistory.Refund) {
    let transaction = refund.transaction
    guard let refundedAt = transaction.cancellationDate else { return nil }
    self.init(
      environment: refund.environment.rawValue, productID: transaction.productID.rawValue,
      transactionID: transaction.transactionID.rawValue,
      originalTransactionID: transaction.originalTransactionID.rawValue, purchasedAt: transaction.purchaseDate,
      refundedAt: refundedAt, revocationType: refund.type,
      revocationPercentage: transaction.sale?.revocationPercentage, userID: refund.owner?.shown,
      isNew: refund.isNew)
  }
}
