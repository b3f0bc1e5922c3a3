import CountersignAPI
import HTTPTypes
import Hummingbird
import NIOCore
import Resilience
import Validation

/// `POST /v1/notifications/revenuecat`: a thin adapter over `RevenueCatReceiver`.
///
/// Only 200 ends RevenueCat's attempts, so that nothing else is answered before an event is kept.
struct RevenueCatWebhookController: Controller {
  var receiver: RevenueCatReceiver
  private let body = RequestBytes(limit: BodyBudgets.notificationLimit)
  var budgets: BodyBudgets

  func addRoutes(to routes: Routes) { routes.serve("/v1/notifications/revenuecat", [.post: receive]) }

  func receive(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let authorization = request.headers[.authorization]
    let signature = request.headers[.revenueCatSignature]
    // A stranger's body is not even read.
    guard await receiver.mayCome(authorization: authorization, signature: signature, logger: context.logger) else {
      throw Self.notAuthentic
    }
    let posted = try await body.collect(request, budgets.notification(from: context.clientAddress))
    defer { withExtendedLifetime(posted.loan) {} }
    do throws(RevenueCatReceiver.Failure) {
      let reception = try await LongWork.run(bytes: posted.value.readableBytes) {
        () async throws(RevenueCatReceiver.Failure) in
        try await receiver.receive(
          Array(buffer: posted.value), authorization: authorization, signature: signature, logger: context.logger)
      }
      return JSONBody.response(EventReceptionResponse(outcome: reception.outcome.rawValue, id: reception.id))
    } catch {
      switch error {
      case .notAuthentic: throw Self.notAuthentic
      case .unreadable(let cause): throw Problem(.malformedRequest, cause.sentence)
      case .ledgerUnavailable(let cause): throw context.unavailable(cause)
      }
    }
  }

  private static let notAuthentic = Problem(
    .unauthenticated,
    "Nothing here proves that RevenueCat sent this: its header, or its signature, is not the one expected.")
}
