package import Hummingbird
package import Validation

import struct FoundationEssentials.Date

/// `/v1/brake`: why the service lowers nobody by itself, and the word of a person that it may.
package struct BrakeController: Sendable {
  package var brake: DowngradeBrakeService
  package var review: RulesReview

  package init(brake: DowngradeBrakeService, review: RulesReview) {
    self.brake = brake
    self.review = review
  }

  private struct Body: Encodable {
    var engaged: Bool
    var since: Date?
    var lookedAt: Int?
    var lowered: Int?
    var withheld: Int?
    var withheldByRules: Int

    enum CodingKeys: String, CodingKey {
      case engaged, since
      case lookedAt = "looked_at"
      case lowered, withheld
      case withheldByRules = "withheld_by_rules"
    }

    init(_ engagement: DowngradeBrake.Engagement?, withheldByRules: Int) {
      self.withheldByRules = withheldByRules
      engaged = engagement != nil
      since = engagement?.since
      lookedAt = engagement?.looked
      lowered = engagement?.lowered
      withheld = engagement?.withheld
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(engaged, forKey: .engaged)
      try container.encode(since, forKey: .since)
      try container.encode(lookedAt, forKey: .lookedAt)
      try container.encode(lowered, forKey: .lowered)
      try container.encode(withheld, forKey: .withheld)
      try container.encode(withheldByRules, forKey: .withheldByRules)
    }
  }

  package func state(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
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
    JSONBody.response(Body(brake.engagement, withheldByRules: review.withheld))
  }
}
