import CountersignAPI
import Hummingbird
import Validation

/// `/v1/brake`: why the service lowers nobody by itself, and the word of a person that it may.
struct BrakeController: Sendable {
  var brake: DowngradeBrakeService
  var review: RulesReview

  func state(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    return response
  }

  /// Whoever does this has looked into it: what the brake held back, and what the rules of this start would
  /// take, comes to pass.
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
