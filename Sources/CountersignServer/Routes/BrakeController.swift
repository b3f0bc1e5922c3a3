import CountersignAPI
import Hummingbird
import Validation

/// `/v1/brake`: why the service lowers nobody by itself, and the word of a person that it may.
struct BrakeController: Controller {
  var brake: DowngradeBrakeService
  var review: RulesReview

  func addRoutes(to routes: Routes) { routes.serve("/v1/brake", [.get: state, .delete: release]) }

  func state(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    return response
  }

  /// Releases the brake after a person has looked into it: the losses that it held back, and those that the rules of this
  /// start would cause, take effect.
  func release(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    await brake.release(context.logger)
    await review.release(context.logger)
    return response
  }

  private var response: Response {
    let engagement = brake.engagement
    return JSONBody.response(
      BrakeState(
        isEngaged: engagement != nil, since: engagement?.since, lookedAt: engagement?.looked,
        lowered: engagement?.lowered, withheld: engagement?.withheld, withheldByRules: review.withheld))
  }
}
