import Entitlements
import Hummingbird
import Ledger
import NIOCore
import Validation

/// `GET /v1/events/newest`: the newest events of some types, for people.
extension EventsController {
  static let fewest = 50
  static let most = 200

  func newest(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    let limit = try request.wholeNumber("limit", in: 1...Self.most) ?? Self.fewest
    let types = try types(of: request)
    let place = try request.eventPosition("before", from: "before")
    let found = try await context.reading(await ledger.newestChangeEvents(of: types, before: place, limit: limit))
    var body = ByteBuffer(string: #"{"events":["#)
    for (index, event) in found.events.enumerated() {
      if index > 0 { body.writeString(",") }
      body.writeBytes(EventDocument.json(of: event))
    }
    body.writeString("],\"before\":\(found.before.map { "\"\($0)\"" } ?? "null")}\n")
    return Self.response(body)
  }

  private func types(of request: Request) throws(Problem) -> [EventType] {
    let names = (try request.parameter("types") ?? "").split(separator: ",", omittingEmptySubsequences: false)
    let types = names.compactMap { EventType(rawValue: String($0)) }
    guard types.count == names.count, (1...NewestChanges.mostTypes).contains(types.count) else {
      throw Problem(
        .malformedRequest,
        "'types' has to be 1 to \(NewestChanges.mostTypes) of this service's types of events, with commas.")
    }
    return types
  }
}
