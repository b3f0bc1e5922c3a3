import CountersignAPI
import Entitlements
import HTTPTypes
import Hummingbird
import Ledger
import Logging
import NIOCore
import Validation

import struct FoundationEssentials.Date

/// `DELETE /v1/profiles/{user_id}` and `GET …/export`: the right to be forgotten, and to have what is kept (GDPR, articles
/// 17, 15 and 20; for apps with accounts, App Review Guideline 5.1.1(v)).
///
/// Both are for the app's server and for support, which know who asks. A token can be stolen, and does not know that.
struct PrivacyController: Controller {
  var erasure: UserErasure
  var ledger: Ledger
  var reader: StandingReader
  var now: @Sendable () -> Date

  func addRoutes(to routes: Routes) { routes.serve("/v1/profiles/{user_id}/export", [.get: export]) }

  // MARK: DELETE /v1/profiles/{user_id}

  func erase(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.support, .service)
    let user = try context.checkedUserInPath()
    let outcome = try await context.reading(await erasure.erase(user, author: caller.name, logger: context.logger))
    return JSONBody.uncached(ErasureResponse(user, outcome))
  }

  // MARK: GET /v1/profiles/{user_id}/export

  /// Answers one JSON document, which is written as it is read: a history may be long, and receipts are large.
  func export(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    let user = try context.checkedUserInPath()
    let now = now()
    let (record, keys, standing) = try await context.reading(
      (
        await ledger.record(of: user), await ledger.accountKeys(of: user),
        await reader.standing(of: user, at: now)
      ))
    let head = ExportDocument(record, standing, at: now)
    let headers: HTTPFields = [
      .contentType: "application/json", .cacheControl: "no-store",
      .contentDisposition: #"attachment; filename="countersign-export.json""#,
    ]
    let pages = ExportPages(ledger: ledger, keys: keys, ids: Set(record.ids + [user] + keys.map { UserID($0) }))
    return Response(
      status: .ok, headers: headers,
      body: .stream { writer in
        do { try await pages.write(after: head, to: writer) } catch {
          // The client sees a document that breaks off.
          context.logger.error("an export broke off", metadata: ["cause": "\(error)"])
          throw error
        }
      })
  }
}

extension ErasureResponse {
  init(_ user: UserID, _ outcome: UserErasure.Outcome) {
    let report = outcome.report
    self.init(
      userID: user.rawValue, profileWrite: .init(rawValue: outcome.write.rawValue),
      erased: Erased(
        receipts: report.receipts, waitingReceipts: report.waitingReceipts, notes: report.notes,
        devices: report.devices, usage: report.usage, customers: report.customers,
        notifications: report.notifications, events: report.changeEvents),
      kept: Kept(purchases: report.purchases, history: report.events, grants: report.grants, trials: report.trials))
  }
}

/// The long parts of an export, page by page.
private struct ExportPages: Sendable {
  var ledger: Ledger
  /// The accounts of the user.
  var keys: [String]
  /// The user's own IDs. Those of others are not shown.
  var ids: Set<UserID>

  /// Receipts have up to some megabytes each.
  private static let purchases = 5
  private static let events = 100
  private static let consumptions = 1_000

  func write(after head: ExportDocument, to writer: any BodyWriter) async throws {
    try await writer.write(Self.bytes(of: head, withoutLast: 2))
    try await write("purchases", to: writer) { (key: String, place: Int?) in
      let start = place ?? 0
      let page = try await ledger.exportedPurchases(ofKey: key, from: start, limit: Self.purchases)
      let purchases = page.map { Self.bytes(of: ExportDocument.KeptPurchase($0), withoutLast: 1) }
      return (purchases, page.count == Self.purchases ? start + page.count : nil)
    }
    try await write("history", to: writer) { (key: String, place: TimelinePosition?) in
      let page = try await ledger.timeline(ofKey: key, before: place, limit: Self.events)
      let events = page.events.map { HistoryEvent($0.withoutOthers(ids), for: UserID(key)) }
      return (events.map { Self.bytes(of: $0, withoutLast: 1) }, page.next)
    }
    try await write("events", to: writer) { (key: String, place: Int64?) in
      let page = try await ledger.changeEvents(ofKey: key, after: place ?? 0)
      return (page.events.map { ByteBuffer(bytes: EventDocument.json(of: $0.withoutOthers(ids))) }, page.next)
    }
    try await write("consumptions", to: writer) { (key: String, place: ExportedConsumption?) in
      let page = try await ledger.exportedConsumptions(ofKey: key, after: place, limit: Self.consumptions)
      let consumptions = page.map { Self.bytes(of: ExportDocument.Consumption($0), withoutLast: 1) }
      return (consumptions, page.count == Self.consumptions ? page.last : nil)
    }
    try await writer.write(ByteBuffer(string: "}\n"))
  }

  /// Writes one member, an array over all accounts.
  ///
  /// - Parameter read: a page of an account, and where the next one begins.
  private func write<Place>(
    _ member: String, to writer: any BodyWriter,
    _ read: (_ key: String, _ place: Place?) async throws -> ([ByteBuffer], Place?)
  ) async throws {
    try await writer.write(ByteBuffer(string: ",\"\(member)\":["))
    var isFirst = true
    for key in keys {
      var place: Place?
      repeat {
        let (elements, next) = try await read(key, place)
        for element in elements {
          if !isFirst { try await writer.write(ByteBuffer(string: ",")) }
          isFirst = false
          try await writer.write(element)
        }
        place = next
      } while place != nil
    }
    try await writer.write(ByteBuffer(string: "]"))
  }

  /// - Parameter count: bytes at the end that are left out: the newline, and for an object that goes on its brace.
  private static func bytes(of value: some Encodable, withoutLast count: Int) -> ByteBuffer {
    var bytes = JSONBody.encode(value, keys: .convertToSnakeCase)
    return bytes.readSlice(length: max(0, bytes.readableBytes - count)) ?? ByteBuffer()
  }
}

extension UserID {
  /// The text in the place of another user's ID, who has a right of their own (GDPR, article 15, paragraph 4).
  fileprivate static let another = UserID("(another user)")
}

extension ChangeEvent {
  /// The event without the IDs of other users.
  fileprivate func withoutOthers(_ ids: Set<UserID>) -> ChangeEvent {
    var event = self
    if let from = event.detail.from, !ids.contains(from) { event.detail.from = .another }
    if let to = event.detail.to, !ids.contains(to) { event.detail.to = .another }
    return event
  }
}

extension TimelineEvent {
  /// The event without the IDs of other users.
  fileprivate func withoutOthers(_ ids: Set<UserID>) -> TimelineEvent {
    guard case .ownership(var change) = self else { return self }
    if let from = change.from, !ids.contains(from) { change.from = .another }
    if !ids.contains(change.to) { change.to = .another }
    return .ownership(change)
  }
}
