import Access
import CountersignAPI
import Entitlements
import FoundationEssentials
import HTTPTypes
import Hummingbird
import Ledger
import Logging
import NIOCore
import Validation

/// `/v1/events`: the list of the service's events, and the intake of an app's own.
struct EventsController: Controller {
  var ledger: Ledger
  /// The experiments of the catalog.
  var experiments: [Experiment]
  var body = JSONRequestBody(limit: BodyBudgets.eventsLimit)
  var budgets: BodyBudgets
  /// Whether SDKs of RevenueCat's send their telemetry here, with the public key of an app.
  var takesTelemetry: Bool
  var reserve: DiskReserve
  /// The longest that a reader waits, within the deadline of a request.
  var longestWait: Duration
  var now: @Sendable () -> Date

  static let defaultLimit = 100
  static let largestLimit = 500
  /// Seconds.
  static let waits = 0...30
  /// The pause between two looks while a reader waits: commits of this process end it at once.
  static let look: Duration = .seconds(5)

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/events", [.get: list, .post: report])
    routes.serve("/v1/events/newest", [.get: newest])
  }

  // MARK: GET

  func list(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service)
    let limit = try request.wholeNumber("limit", in: 1...Self.largestLimit) ?? Self.defaultLimit
    let wait = try request.wholeNumber("wait", in: Self.waits) ?? 0
    let after = try request.eventPlace()
    let end = ContinuousClock.now.advanced(by: min(.seconds(wait), longestWait))
    var events: [ChangeEvent] = []
    while true {
      let rings = ledger.bell.rings
      events = try await page(after: after, limit: limit, context)
      guard events.isEmpty, !context.connectionEnd.isNear, !Task.isCancelled else { break }
      let left = ContinuousClock.now.duration(to: end)
      guard left > .zero else { break }
      await context.connectionEnd.cancelling { [bell = ledger.bell] in
        await bell.wait(after: rings, atMost: min(left, Self.look))
      }
    }
    return Self.response(events, "\"next\":\"\(events.last?.id ?? after?.id ?? Request.eventsBegin)\"", context)
  }

  private func page(
    after place: ChangeEvent.Place?, limit: Int, _ context: ServiceRequestContext
  ) async throws -> [ChangeEvent] {
    guard let place else { return try await context.reading(await ledger.changeEvents(after: 0, limit: limit)) }
    let events = try await context.reading(await ledger.changeEvents(following: place, limit: limit))
    guard let events else {
      throw Problem(
        .unknownCursor,
        "The ledger has no such event: it was restored from a backup. Go on after an older event, or from the start.")
    }
    return events
  }

  /// Answers a page without the events that cannot be read: a follower goes on after them.
  ///
  /// - Parameter place: the member that says where the next page begins.
  private static func response(
    _ events: [ChangeEvent], _ place: String, _ context: ServiceRequestContext
  ) -> Response {
    let unreadable = events.filter(\.isUnreadable)
    if !unreadable.isEmpty {
      context.logger.error(
        "events in the ledger cannot be read, and are passed over",
        metadata: ["events": "\(unreadable.map(\.id).joined(separator: " "))"])
    }
    var body = ByteBuffer(string: #"{"events":["#)
    for (index, event) in events.filter({ !$0.isUnreadable }).enumerated() {
      if index > 0 { body.writeString(",") }
      body.writeBytes(EventDocument.json(of: event))
    }
    body.writeString("],\(place)}\n")
    return response(body)
  }

  // MARK: GET newest

  static let fewest = 50
  static let most = 200

  /// Answers the newest events of some types, for people.
  func newest(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    let limit = try request.wholeNumber("limit", in: 1...Self.most) ?? Self.fewest
    let types = try types(of: request)
    let place = try request.pagePosition("before", from: "before")
    let found = try await context.reading(await ledger.newestChangeEvents(of: types, before: place, limit: limit))
    return Self.response(found.events, "\"before\":\(found.before.map { "\"\($0)\"" } ?? "null")", context)
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

  // MARK: POST

  /// The most events of a request, and the most bytes of one's properties.
  static let mostEvents = 50
  static let longestProperties = 8 * 1024
  /// The greatest age of an event: an app may have been offline.
  static let oldest: Duration = .seconds(90 * 86_400)
  /// The type of an event that says which variant of an experiment the user saw.
  static let exposed = "experiment_exposed"

  func report(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    if takesTelemetry, case .app = context.caller { return Self.response(ByteBuffer(string: "{}\n")) }
    let caller = try context.requireUserOr(.service)
    let posted = try await body.decode(PostedEvents.self, from: request, budgets.events(by: context.caller))
    defer { withExtendedLifetime(posted.loan) {} }
    guard (1...Self.mostEvents).contains(posted.value.events.count) else {
      throw Problem(.malformedRequest, "'events' has to list 1 to \(Self.mostEvents) events.")
    }
    try reserve.requireRoom()
    let now = now()
    var events: [AppEvent] = []
    for (index, one) in posted.value.events.enumerated() {
      events.append(try checked(one, "events[\(index)]", by: caller, at: now))
    }
    let refused = try await context.reading(await ledger.record(events, at: now))
    // Others' events of a server are kept beside those of a user who has too many.
    guard refused < events.count else {
      throw Problem(
        .rateLimited, "A user's events may have \(AppEvent.mostBytes) bytes a day (UTC), and these exceed that.",
        retryAfter: 86_400 - Int(now.timeIntervalSince1970) % 86_400)
    }
    let unknown = events.count { $0.type == Self.exposed && $0.exposure == nil }
    let recorded = events.count - refused
    return Self.response(ByteBuffer(string: "{\"recorded\":\(recorded),\"unknown_variants\":\(unknown)}\n"))
  }

  private func checked(
    _ posted: PostedEvent, _ place: String, by caller: NamedCaller, at now: Date
  ) throws(Problem) -> AppEvent {
    guard !posted.type.utf8.contains(UInt8(ascii: ".")) else {
      throw Problem(.malformedRequest, "'\(place).type': names with a dot are this service's own.")
    }
    guard posted.type.wholeMatch(of: /[A-Za-z][A-Za-z0-9_]{0,63}/) != nil else {
      throw Problem(.malformedRequest, "'\(place).type' has to be 1 to 64 letters, digits and _, a letter first.")
    }
    guard let properties = posted.propertiesText, properties.utf8.count <= Self.longestProperties else {
      throw Problem(.malformedRequest, "'\(place).properties' may have at most \(Self.longestProperties) bytes.")
    }
    guard posted.id.map(HTTPFields.isIdempotencyKey) ?? true else {
      throw Problem(.malformedRequest, "'\(place).id' has to be one word of 1 to 128 printable ASCII characters.")
    }
    let moment = try Self.moment(posted.at, place, now)
    return AppEvent(
      user: try Self.user(posted, place, by: caller), type: posted.type, at: moment, properties: properties,
      exposure: posted.type == Self.exposed ? try exposure(posted, place, at: moment) : nil, id: posted.id)
  }

  /// The variant that the user saw; `nil` for one that the catalog lacks. Versions of an app outlive experiments, and what
  /// they report with it has to be kept all the same.
  private func exposure(_ posted: PostedEvent, _ place: String, at moment: Date) throws(Problem) -> Exposure? {
    guard case .text(let name) = posted.properties?["experiment"],
      case .text(let variant) = posted.properties?["variant"]
    else {
      throw Problem(
        .malformedRequest, "'\(place).properties' of \(Self.exposed) needs the texts 'experiment' and 'variant'.")
    }
    guard let experiment = experiments.first(where: { $0.name == name }),
      experiment.variants.contains(where: { $0.name == variant })
    else { return nil }
    return Exposure(experiment: name, variant: variant, at: moment)
  }

  private static func user(_ posted: PostedEvent, _ place: String, by caller: NamedCaller) throws(Problem) -> UserID {
    switch caller {
    case .user(let own):
      guard posted.userID.map({ UserID($0) == own }) ?? true else {
        throw Problem(.forbidden, "A user's token reports events of that user alone: leave 'user_id' out.")
      }
      return own
    case .server: return try UserID(required: posted.userID, named: "\(place).user_id", as: "the event's user")
    }
  }

  /// A moment by another clock, which may be ahead: it counts as now then.
  private static func moment(_ text: String?, _ place: String, _ now: Date) throws(Problem) -> Date {
    guard let text else { return now }
    let moment = try Date(checking: text, named: "\(place).at")
    guard moment >= now.advanced(by: .zero - oldest) else {
      throw Problem(.malformedRequest, "'\(place).at' may be 90 days ago at most.")
    }
    return min(moment, now)
  }

  private static func response(_ body: ByteBuffer) -> Response {
    Response(status: .ok, headers: [.contentType: "application/json", .cacheControl: "no-store"], body: .bytes(body))
  }
}

extension Request {
  /// The place before the first event.
  fileprivate static let eventsBegin = "0"

  /// The ID of the event after which a page begins: `after`, of the answer before; `nil` for the oldest one.
  fileprivate func eventPlace() throws(Problem) -> ChangeEvent.Place? {
    guard let text = try parameter("after"), text != Self.eventsBegin else { return nil }
    guard let place = ChangeEvent.Place(id: text) else {
      throw Problem.unknownPlace("after", from: "next")
    }
    return place
  }
}
