import CountersignAPI
import Hummingbird
import NIOCore
import Resilience
import Validation

/// `POST /v1/notifications/app-store`: a thin adapter over `NotificationReceiver`.
///
/// Apple sends no credential: the signature is one. What is signed and was kept is answered with 200, also where it is
/// refused: Apple sends again what is answered otherwise, and has taken some errors for a final word.
struct NotificationsController: Controller {
  var receiver: NotificationReceiver
  private let body = RequestBytes(limit: BodyBudgets.notificationLimit)
  var budgets: BodyBudgets

  func addRoutes(to routes: Routes) { routes.serve("/v1/notifications/app-store", [.post: receive]) }

  func receive(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let posted = try await body.collect(request, budgets.notification(from: context.clientAddress))
    defer { withExtendedLifetime(posted.loan) {} }
    do throws(NotificationReceiver.Failure) {
      let reception = try await LongWork.run(bytes: posted.value.readableBytes) {
        () async throws(NotificationReceiver.Failure) in
        try await receiver.receive(Array(buffer: posted.value), logger: context.logger)
      }
      return JSONBody.response(
        NotificationResponse(outcome: reception.outcome.rawValue, notificationUUID: reception.uuid))
    } catch {
      switch error {
      case .ledgerUnavailable(let cause): throw context.unavailable(cause)
      case .tooManyUnproven:
        throw Problem(
          .rateLimited, "Too many unsigned notifications come, and this one is unsigned too. It was not kept.",
          retryAfter: 60)
      case .clockBehind:
        throw Problem(.appStoreUnavailable, "The notification is signed ahead of this service's clock; send it again.")
      case .wrongPassword:
        throw Problem(.unauthenticated, "The password of this notification is not the shared secret.")
      }
    }
  }
}
