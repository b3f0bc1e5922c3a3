import CountersignAPI
import Entitlements
import HTTPTypes
import Hummingbird
import Logging
import Validation

import struct FoundationEssentials.Date

/// `/v1/notifications/history`: what was asked of Apple's history of notifications, and the word to ask again.
struct NotificationHistoryController: Controller {
  var history: NotificationHistory
  var body = JSONRequestBody(limit: BodyBudgets.runLimit)
  var budget: ByteBudget
  var now: @Sendable () -> Date

  func addRoutes(to routes: Routes) { routes.serve("/v1/notifications/history", [.get: state, .post: ask]) }

  func state(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    return response(.ok)
  }

  /// Has the job ask for everything since a moment, also what Apple knows to be delivered.
  func ask(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.service, .support)
    let posted = try await body.decode(CatchUpRequest.self, from: request, budget.loan()).value
    guard let text = posted.since else { throw Problem(.malformedRequest, "'since' is missing.") }
    let since = try Date(checking: text, named: "since")
    let now = now()
    guard since < now else { throw Problem(.malformedRequest, "'since' has to be in the past.") }
    try await context.reading(await history.ask(since: since, at: now))
    context.logger.notice(
      "Apple is asked for notifications", metadata: ["since": "\(since.rfc3339)", "caller": "\(caller.name)"])
    return response(.accepted)
  }

  private func response(_ status: HTTPResponse.Status) -> Response {
    let now = now()
    let sources = history.statuses.map { one in
      NotificationHistoryResponse.Source(
        bundleID: one.source.bundleID.rawValue, environment: one.source.environment.rawValue,
        through: one.progress.through, isAsking: one.progress.isAsking, seen: one.progress.seen,
        taken: one.progress.taken, passedOver: one.progress.passedOver, problem: one.problem,
        gap: history.gap(of: one, at: now).map { NotificationHistoryResponse.Gap(from: $0.from, to: $0.to) })
    }
    return JSONBody.uncached(NotificationHistoryResponse(sources: sources), status: status)
  }
}
