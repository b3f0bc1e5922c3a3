package import Entitlements
import Foundation
package import HTTPTransport
package import Profiles
import Synchronization

/// The rows of a profile table, by plain requests of its own to PostgREST.
///
/// Users can be given: their rows have to be there, are overwritten, and are put back at the end. Without, rows are
/// inserted and removed; that needs INSERT and DELETE, and no foreign key on the id (a Supabase project has one to
/// `auth.users`).
package final class RESTProfileRows: ProfileRows {
  package enum Failure: Error {
    /// PostgREST did not do it; its status.
    case status(Int, doing: String)
    case unreadable(doing: String)
    case tooFewUsers(needed: Int)
  }

  package let idsAreUUIDs: Bool
  private let configuration: PostgRESTProfileStore.Configuration
  private let transport: any Transport
  private let given: [UserID]
  /// The rows that are to be removed, and those that are to be put back.
  private let changed = Mutex<(inserted: [UserID], before: [UserID: ProfileRowSeen])>(([], [:]))

  package init(
    _ configuration: PostgRESTProfileStore.Configuration, transport: any Transport, users: [UserID] = [],
    idsAreUUIDs: Bool = true
  ) {
    self.configuration = configuration
    self.transport = transport
    given = users
    self.idsAreUUIDs = idsAreUUIDs
  }

  package func fresh(_ count: Int) async throws -> [UserID] {
    if !given.isEmpty {
      guard given.count >= count else { throw Failure.tooFewUsers(needed: count) }
      let users = Array(given.prefix(count))
      for user in users {
        guard let row = try await row(of: user) else { throw Failure.unreadable(doing: "looking for a user's row") }
        changed.withLock { $0.before[user] = $0.before[user] ?? row }
        try await write(ProfileStoreContract.untouched, to: user)
      }
      return users
    }
    while changed.withLock({ $0.inserted.count }) < count { try await insert(UserID(UUID().uuidString.lowercased())) }
    let users = changed.withLock { Array($0.inserted.prefix(count)) }
    for user in users { try await write(ProfileStoreContract.untouched, to: user) }
    return users
  }

  package func insert(_ user: UserID) async throws {
    let body = try JSONSerialization.data(withJSONObject: members(of: ProfileStoreContract.untouched, user: user))
    _ = try await send(.post, "", body: Array(body), doing: "inserting a row")
    changed.withLock { $0.inserted.append(user) }
  }

  package func row(of user: UserID) async throws -> ProfileRowSeen? {
    let doing = "reading a row"
    // By name: of the others the service's role need not be granted any.
    let names = configuration.columns.all.map(\.text).joined(separator: ",")
    let body = try await send(.get, "?\(condition(user))&select=\(names)", doing: doing)
    guard let rows = try? JSONSerialization.jsonObject(with: Data(body)) as? [[String: Any]] else {
      throw Failure.unreadable(doing: doing)
    }
    guard let row = rows.first else { return nil }
    let columns = configuration.columns
    guard rows.count == 1, let tier = row[columns.tier.text] as? String,
      let status = row[columns.status.text] as? String
    else { throw Failure.unreadable(doing: doing) }
    var expiresAt: Int64?
    if let text = row[columns.expiresAt.text] as? String {
      expiresAt = try Self.milliseconds(text)
    }
    return ProfileRowSeen(
      tier: tier, status: status, expiresAt: expiresAt,
      originalTransactionID: row[columns.originalTransactionID.text] as? String,
      version: columns.version.flatMap { (row[$0.text] as? NSNumber)?.int64Value } ?? 0)
  }

  package func cleanUp() async throws {
    let (inserted, before) = changed.withLock { state in
      defer { state = ([], [:]) }
      return (state.inserted, state.before)
    }
    for (user, row) in before { try await write(row, to: user) }
    for user in inserted { _ = try await send(.delete, "?\(condition(user))", doing: "removing a row") }
  }

  // MARK: - Parts

  private func write(_ row: ProfileRowSeen, to user: UserID) async throws {
    let body = try JSONSerialization.data(withJSONObject: members(of: row, user: nil))
    _ = try await send(.patch, "?\(condition(user))", body: Array(body), doing: "writing a row")
  }

  private func members(of row: ProfileRowSeen, user: UserID?) -> [String: Any] {
    let columns = configuration.columns
    var members: [String: Any] = [
      columns.tier.text: row.tier, columns.status.text: row.status,
      columns.expiresAt.text: row.expiresAt.map { Self.text($0) } ?? NSNull(),
      columns.originalTransactionID.text: row.originalTransactionID ?? NSNull(),
    ]
    if let version = columns.version { members[version.text] = row.version }
    if let user { members[columns.id.text] = user.rawValue }
    return members
  }

  private func condition(_ user: UserID) -> String {
    // Letters and digits of ASCII stay, every other byte becomes %XX.
    let value = user.rawValue.utf8.map { byte in
      let isPlain = byte < 0x80 && (Character(UnicodeScalar(byte)).isLetter || Character(UnicodeScalar(byte)).isNumber)
      return isPlain ? String(UnicodeScalar(byte)) : String(format: "%%%02X", byte)
    }.joined()
    return "\(configuration.columns.id)=eq.\(value)"
  }

  private func send(
    _ method: TransportRequest.Method, _ query: String, body: [UInt8] = [], doing: String
  ) async throws -> [UInt8] {
    let key = configuration.key.exposed
    var headers = [TransportHeader("apikey", key)]
    if key.split(separator: ".").count == 3 { headers.append(TransportHeader("Authorization", "Bearer \(key)")) }
    if !body.isEmpty { headers.append(TransportHeader("Content-Type", "application/json")) }
    if let schema = configuration.schema {
      headers.append(TransportHeader(method == .get ? "Accept-Profile" : "Content-Profile", schema.text))
    }
    let response = try await transport.send(
      TransportRequest(
        method: method, url: "\(configuration.url)/\(configuration.table)\(query)", headers: headers, body: body,
        responseBodyLimit: 1 << 20),
      deadline: .now + .seconds(60))
    guard (200...299).contains(response.status) else { throw Failure.status(response.status, doing: doing) }
    return response.body
  }

  /// `2026-12-31T00:00:00+00:00`, with up to six digits of a fraction.
  private static func milliseconds(_ text: String) throws -> Int64 {
    guard let match = text.wholeMatch(of: /([0-9T:-]{19})(?:\.([0-9]{1,6}))?\+00:00/) else {
      throw Failure.unreadable(doing: "reading a time")
    }
    let seconds = try Date("\(match.1)Z", strategy: .iso8601)
    let fraction = (match.2.map(String.init) ?? "").padding(toLength: 3, withPad: "0", startingAt: 0)
    return Int64(seconds.timeIntervalSince1970) * 1000 + (Int64(fraction) ?? 0)
  }

  private static func text(_ milliseconds: Int64) -> String {
    let date = Date(timeIntervalSince1970: Double(milliseconds / 1000)).formatted(.iso8601)
    return "\(date.dropLast()).\(String(format: "%03d", Int(milliseconds % 1000)))Z"
  }
}
