import CountersignAPI
import Entitlements
import Hummingbird
import Logging
import Validation

/// `POST /v1/notifications/test`: has Apple post test notifications, and answers how they fared.
struct NotificationTestController: Controller {
  /// `nil` without a key of the Server API.
  var test: NotificationTest?
  /// The longest wait for the outcomes.
  var patience: Duration

  /// Apple posts within seconds.
  static let longestPatience: Duration = .seconds(15)

  func addRoutes(to routes: Routes) { routes.serve("/v1/notifications/test", [.post: run]) }

  func run(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.service, .support)
    context.logger.notice("Apple is asked for test notifications", metadata: ["caller": "\(caller.name)"])
    let results = await test?.run(until: .now.advanced(by: patience)) ?? []
    return JSONBody.uncached(
      NotificationTestResponse(
        tests: results.map {
          .init(
            bundleID: $0.bundleID.rawValue, environment: $0.environment.rawValue, outcome: $0.outcome.rawValue,
            cause: $0.cause)
        }))
  }
}
