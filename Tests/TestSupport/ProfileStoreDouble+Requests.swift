import FoundationEssentials
import Synchronization

/// A value of a row, as JSON has it.
package enum Cell: Hashable, Codable, Sendable {
  case null
  case text(String)
  case integer(Int64)
  case boolean(Bool)

  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let boolean = try? container.decode(Bool.self) {
      self = .boolean(boolean)
    } else if let integer = try? container.decode(Int64.self) {
      self = .integer(integer)
    } else {
      self = .text(try container.decode(String.self))
    }
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .text(let text): try container.encode(text)
    case .integer(let integer): try container.encode(integer)
    case .boolean(let boolean): try container.encode(boolean)
    }
  }

  package var text: String? { if case .text(let text) = self { text } else { nil } }
  package var integer: Int64? { if case .integer(let integer) = self { integer } else { nil } }
}

extension ProfileStoreDouble {
  /// The query of one request to the table.
  private struct Query {
    /// `id=eq.X`; nil where no user is named.
    var user: String?
    /// `version=lt.N`
    var below: Int64?
    /// `select=a,b`; nil for every column.
    var columns: [String]?
    var limit: Int?
    /// `id=is.null&id=not.is.null`: no row can match; it asks whether writing is allowed at all.
    var matchesNothing = false
  }

  /// Answers as the real server did; whatever was not compared with it is 501.
  ///
  /// - Parameter applying: false to answer as if an update were applied, and leave the row as it was.
  func respond(to request: TestRequest, applying: Bool = true) -> TestAnswer {
    let parts = request.target.split(separator: "?", maxSplits: 1)
    guard parts.first == "/\(layout.table)", let query = query(parts.count > 1 ? String(parts[1]) : "") else {
      return notUnderstood(request)
    }
    switch request.method {
    case "GET": return read(query)
    case "PATCH":
      if query.matchesNothing { return .rows([], range: "*/*") }
      guard let user = query.user,
        let values = try? JSONDecoder().decode([String: Cell].self, from: Data(request.body))
      else { return notUnderstood(request) }
      return write(values, to: user, query, Preferences(request.header("Prefer") ?? ""), applying: applying)
    default: return notUnderstood(request)
    }
  }

  private func notUnderstood(_ request: TestRequest) -> TestAnswer {
    state.withLock { $0.notUnderstood.append("\(request.method) \(request.target)") }
    return TestAnswer(status: 501, text: "not compared with the real server")
  }

  private func query(_ text: String) -> Query? {
    var query = Query()
    for item in text.split(separator: "&") {
      let pair = item.split(separator: "=", maxSplits: 1).map { Self.decode($0) }
      guard pair.count == 2 else { return nil }
      switch (pair[0], pair[1]) {
      case (layout.id, let value) where value.hasPrefix("eq."): query.user = String(value.dropFirst(3))
      case (layout.id, "is.null"), (layout.id, "not.is.null"): query.matchesNothing = true
      case (layout.version, let value) where value.hasPrefix("lt."):
        guard let version = Int64(value.dropFirst(3)) else { return nil }
        query.below = version
      case ("select", let value): query.columns = value.split(separator: ",").map(String.init)
      case ("limit", let value):
        guard let limit = Int(value) else { return nil }
        query.limit = limit
      default: return nil
      }
    }
    return query
  }

  private static func decode(_ text: Substring) -> String {
    var octets: [UInt8] = []
    var rest = text.utf8[...]
    while let octet = rest.popFirst() {
      guard octet == UInt8(ascii: "%"), rest.count >= 2,
        let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
      else {
        octets.append(octet)
        continue
      }
      octets.append(value)
      rest = rest.dropFirst(2)
    }
    return String(decoding: octets, as: UTF8.self)
  }

  private func read(_ query: Query) -> TestAnswer {
    // Without a user nothing is told: a double that knows only rows that were asked for cannot list them.
    guard let user = query.user, query.limit != 0 else { return .rows([], range: "*/*") }
    let row = state.withLock { state in state.missing.contains(user) ? nil : self.row(user, in: state) }
    guard let row, query.below.map({ version(of: row) < $0 }) ?? true else { return .rows([], range: "*/*") }
    return .rows([selected(row, query)], range: "0-0/*")
  }

  private func write(
    _ values: [String: Cell], to user: String, _ query: Query, _ preferences: Preferences, applying: Bool
  ) -> TestAnswer {
    if let unknown = values.keys.sorted().first(where: { !layout.columns.contains($0) }) {
      return .problem(
        400, code: "PGRST204",
        message: "Could not find the '\(unknown)' column of '\(layout.table)' in the schema cache")
    }
    let written: [String: Cell]? = state.withLock { state in
      guard !state.missing.contains(user) else { return nil }
      let row = self.row(user, in: state)
      guard query.below.map({ version(of: row) < $0 }) ?? true else { return nil }
      guard applying else { return row.merging(values) { $1 } }
      state.apply(values, to: user)
      return state.rows[user]
    }
    let count = preferences.countsExactly ? (written == nil ? "0" : "1") : "*"
    let range = (written == nil ? "*" : "0-0") + "/" + count
    guard preferences.wantsRepresentation else {
      return TestAnswer(status: 204, headers: [("Content-Range", range)] + preferences.applied)
    }
    return .rows(written.map { [selected($0, query)] } ?? [], range: range, headers: preferences.applied)
  }

  /// A row that was never written to is blank; the version column is NOT NULL DEFAULT 0.
  private func row(_ user: String, in state: State) -> [String: Cell] {
    var blank = Dictionary(uniqueKeysWithValues: layout.columns.map { ($0, Cell.null) })
    blank[layout.id] = .text(user)
    blank[layout.version] = .integer(0)
    return blank.merging(state.rows[user] ?? [:]) { $1 }
  }

  private func version(of row: [String: Cell]) -> Int64 { row[layout.version]?.integer ?? 0 }

  private func selected(_ row: [String: Cell], _ query: Query) -> [String: Cell] {
    guard let columns = query.columns, columns != ["*"] else { return row }
    return row.filter { columns.contains($0.key) }
  }
}

/// The `Prefer` header, and which of it is honoured.
private struct Preferences {
  var wantsRepresentation = false
  var countsExactly = false
  var applied: [(name: String, value: String)] = []

  init(_ header: String) {
    let asked = Set(header.split(separator: ",").map { $0.trimmingPrefix { $0 == " " } })
    wantsRepresentation = asked.contains("return=representation")
    countsExactly = asked.contains("count=exact")
    // In the server's own order.
    let known: [Substring] = [
      "return=representation", "return=minimal", "count=exact", "handling=strict", "max-affected=1",
    ]
    let honoured = known.filter(asked.contains)
    if !honoured.isEmpty { applied = [("Preference-Applied", honoured.joined(separator: ", "))] }
  }
}

extension TestAnswer {
  fileprivate static func rows(
    _ rows: [[String: Cell]], range: String, headers: [(name: String, value: String)] = []
  ) -> TestAnswer {
    // Encoding a dictionary of these values cannot fail.
    let body = (try? JSONEncoder().encode(rows)).map(Array.init) ?? []
    return TestAnswer(
      status: 200,
      headers: [("Content-Range", range), ("Content-Type", "application/json; charset=utf-8")] + headers, body: body)
  }

  static func problem(
    _ status: Int, code: String, message: String, headers: [(name: String, value: String)] = []
  ) -> TestAnswer {
    TestAnswer(
      status: status,
      headers: [("Content-Type", "application/json; charset=utf-8"), ("Proxy-Status", "PostgREST; error=\(code)")]
        + headers,
      text: #"{"code":"\#(code)","details":null,"hint":null,"message":"\#(message)"}"#)
  }

  static let databaseAway = problem(
    503, code: "PGRST002", message: "Could not query the database for the schema cache. Retrying.",
    headers: [("Retry-After", "0")])

  static let wrongKey = problem(
    401, code: "PGRST301", message: "Expected 3 parts in JWT; got 1",
    headers: [
      ("WWW-Authenticate", #"Bearer error="invalid_token", error_description="Expected 3 parts in JWT; got 1""#)
    ])

  static let gatewayPage = TestAnswer(
    status: 520, headers: [("Content-Type", "text/html; charset=UTF-8")],
    text: "<!DOCTYPE html><html><head><title>520: Web server is returning an unknown error</title></head></html>")
}
