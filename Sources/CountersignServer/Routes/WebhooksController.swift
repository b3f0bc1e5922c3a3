import CountersignAPI
import Entitlements
import Hummingbird
import Ledger
import Logging
import Validation
import Webhooks

/// `/v1/webhooks`: the progress of each receiver of events, dead letters, and redelivery.
struct WebhooksController: Controller {
  var endpoints: [WebhookEndpoint]
  var ledger: Ledger
  var body = JSONRequestBody(limit: BodyBudgets.runLimit)
  var budget: ByteBudget

  static let limit = 100

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/webhooks", [.get: list])
    routes.serve("/v1/webhooks/dead", [.get: deadLetters])
    routes.serve("/v1/webhooks/redeliver", [.post: redeliver])
  }

  func list(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    var webhooks: [WebhookResponse] = []
    for endpoint in endpoints {
      let status = try await context.reading(await ledger.webhookStatus(endpoint.name, taking: endpoint.takes))
      webhooks.append(WebhookResponse(endpoint, status ?? WebhookStatus()))
    }
    return JSONBody.uncached(WebhooksResponse(webhooks: webhooks))
  }

  func deadLetters(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    let endpoint = try endpoint(named: try request.parameter("webhook"))
    let after = try request.pagePosition()
    let letters = try await context.reading(
      await ledger.deadLetters(of: endpoint.name, after: after, limit: Self.limit))
    let next = letters.count == Self.limit ? letters.last?.event.sequence : nil
    return JSONBody.uncached(
      DeadLettersResponse(
        dead: letters.map(DeadLetterResponse.init),
        next: next.map { "/v1/webhooks/dead?webhook=\(endpoint.name)&after=\($0)" }))
  }

  func redeliver(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.support, .service)
    let posted = try await body.decode(RedeliveryRequest.self, from: request, budget.loan()).value
    let endpoint = try endpoint(named: posted.webhook)
    let redelivery: Redelivery
    let discards = posted.discards ?? false
    switch (posted.eventID, posted.isDead ?? false) {
    case (nil, _) where discards: throw Problem(.malformedRequest, "'discard' is for one 'event_id'.")
    case (nil, false): redelivery = .nothing
    case (nil, true): redelivery = .dead
    case (let id?, false):
      guard let place = ChangeEvent.Place(id: id) else { throw Self.unknownEvent }
      redelivery = discards ? .discard(place) : .event(place)
    case (.some, true): throw Problem(.malformedRequest, "Give either 'event_id' or 'dead'.")
    }
    let count: Int
    switch try await context.reading(
      await ledger.redeliver(redelivery, to: endpoint.name, taking: endpoint.takes))
    {
    case .begun(let events): count = events
    case .unknown: throw Self.unknownEvent
    case .untaken(let type):
      throw Problem(.malformedRequest, "The receiver takes no '\(type)': see its 'events' and its 'format'.")
    }
    context.logger.notice(
      discards ? "an event that was given up is discarded" : "events are redelivered",
      metadata: ["webhook": "\(endpoint.name)", "events": .stringConvertible(count), "caller": "\(caller.name)"])
    return JSONBody.uncached(RedeliveryResponse(webhook: endpoint.name, redelivered: count))
  }

  private func endpoint(named name: String?) throws(Problem) -> WebhookEndpoint {
    if name == nil, endpoints.count == 1, let only = endpoints.first { return only }
    guard let name else { throw Problem(.malformedRequest, "'webhook' is missing: name the receiver.") }
    guard let endpoint = endpoints.first(where: { $0.name == name }) else {
      throw Problem(.notFound, "The configuration names no such receiver.")
    }
    return endpoint
  }

  private static let unknownEvent = Problem(.notFound, "There is no such event; old ones are not kept.")
}

extension WebhookResponse {
  init(_ endpoint: WebhookEndpoint, _ status: WebhookStatus) {
    self.init(
      name: endpoint.name, origin: endpoint.origin, format: endpoint.format.rawValue, events: endpoint.events,
      isEnabled: status.isEnabled, waiting: status.waiting, dead: status.dead, oldestAt: status.oldest,
      problem: status.problem, problemAt: status.problemAt)
  }
}

extension DeadLetterResponse {
  init(_ letter: DeadLetter) {
    let event = letter.event
    let isNobodys = event.user == .nobody || event.type == EventType.forwarded
    self.init(
      webhook: letter.webhook, eventID: event.id, type: event.type, userID: isNobodys ? nil : event.user.rawValue,
      timestamp: event.at, attempts: letter.attempts, problem: letter.problem, failedAt: letter.failedAt)
  }
}
