import Foundation

/// Plays PostgREST 14.17 over a real database, for the requests in which it was compared with the real server. It answers
/// 501 to every other. It is not PostgREST: what holds here holds there as far as `RecordedAnswerTests` reach, and the
/// filters `is.null` and `not.is.null`, which are not among the recorded requests, are by PostgREST's documentation.
///
/// One request is one transaction, as there: the caller's role and claims are set, one statement runs, and its SQLSTATE
/// becomes the status. A connection is opened for each.
struct PostgRESTStandIn: Sendable {
  let database: TestDatabase
  let tokens: TokenVerifier

  func answer(_ request: APIRequest) async -> APIAnswer {
    do {
      let identity = try tokens.identity(authorization: request.header("Authorization"))
      if request.target.hasPrefix("/rpc/") { return try await call(request, as: identity) }
      let query = try TableQuery(request)
      let connection = try await database.api()
      let columns = try await connection.columns(of: query)
      let statement = try Statement(request, query, columns)
      let read = request.method == "GET" || request.method == "HEAD"
      do {
        try await connection.begin(identity, readOnly: read)
        let result = try await connection.query(statement.sql, statement.parameters)
        let answer = try Self.answer(request, query, result.first ?? [])
        try await connection.commit()
        return answer
      } catch let error as PostgreSQLError {
        throw APIError(error, isAuthenticated: identity.isAuthenticated)
      }
    } catch let error as APIError {
      return error.answer
    } catch let error as PostgreSQLError {
      return APIError(error, isAuthenticated: true).answer
    } catch {
      return APIError.notCompared("\(error)").answer
    }
  }

  // MARK: - Answers

  /// - Parameter row: how many rows, how many without the limit if that was asked, the rows as JSON.
  private static func answer(_ request: APIRequest, _ query: TableQuery, _ row: [String?]) throws -> APIAnswer {
    guard row.count == 3, let count = row[0].flatMap(Int.init) else { throw APIError.notCompared("An empty result") }
    let all = row[1].flatMap(Int.init)
    let isRead = request.method == "GET" || request.method == "HEAD"
    if let most = query.preferences.maxAffected, !isRead, count > most {
      throw APIError(
        status: 400, code: "PGRST124", message: "Query result exceeds max-affected preference constraint",
        details: "The query affects \(count) rows")
    }
    if query.wantsObject, count != 1 {
      throw APIError(
        status: 406, code: "PGRST116", message: "Cannot coerce the result to a single JSON object",
        details: "The result contains \(count) rows")
    }

    let range = count == 0 ? "*" : "\(query.offset)-\(query.offset + count - 1)"
    var headers = [("Content-Range", "\(range)/\(query.preferences.isCounted ? all.map(String.init) ?? "*" : "*")")]
    if let applied = query.preferences.applied(to: request.method) { headers.append(("Preference-Applied", applied)) }
    if isRead { headers.append(("Content-Location", try contentLocation(request))) }
    if isRead, query.preferences.isCounted, let all {
      if query.offset > all {
        headers.append(("Content-Profile", query.schema))
        throw APIError(
          status: 416, code: "PGRST103", message: "Requested range not satisfiable",
          details: "An offset of \(query.offset) was requested, but there are only \(all) rows.", headers: headers)
      }
    }
    guard isRead || query.preferences.returning == "representation" else {
      return APIAnswer(status: 204, headers: headers, body: nil)
    }
    headers.append(
      ("Content-Type", "application/\(query.wantsObject ? "vnd.pgrst.object+" : "")json; charset=utf-8"))
    headers.append(("Content-Profile", query.schema))
    let isPartial = isRead && query.preferences.isCounted && count < (all ?? count)
    let rows = row[2] ?? "[]"
    let body = query.wantsObject ? String(rows.dropFirst().dropLast()) : rows
    return APIAnswer(
      status: isPartial ? 206 : 200, headers: headers, body: request.method == "HEAD" ? nil : body)
  }

  /// The request's own address, its parameters by name and encoded.
  private static func contentLocation(_ request: APIRequest) throws -> String {
    let parts = request.target.split(separator: "?", maxSplits: 1)
    guard parts.count == 2 else { return request.target }
    let unreserved = CharacterSet(
      charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
    let pairs = parts[1].split(separator: "&").map { pair in
      pair.split(separator: "=", maxSplits: 1).map { part in
        part.removingPercentEncoding?.addingPercentEncoding(withAllowedCharacters: unreserved) ?? String(part)
      }.joined(separator: "=")
    }
    return "\(parts[0])?\(pairs.sorted().joined(separator: "&"))"
  }

  // MARK: - Functions

  /// A function that raises. What one returns was recorded of functions that are not part of this project.
  private func call(_ request: APIRequest, as identity: TokenVerifier.Identity) async throws -> APIAnswer {
    let name = String(request.target.dropFirst("/rpc/".count))
    let arguments = try? JSONDecoder().decode([String: String].self, from: Data(request.body.utf8))
    guard request.method == "POST", name.wholeMatch(of: /[a-z_]+/) != nil, let arguments else {
      throw APIError.notCompared("This call of a function")
    }
    let connection = try await database.api()
    guard
      try await connection.value("select to_regproc('public.\(name)')") != nil
    else { throw APIError.notCompared("A function that is not there") }
    let names = arguments.keys.sorted()
    let list = names.enumerated().map { "\"\($1)\" => $\($0 + 1)" }.joined(separator: ", ")
    do {
      try await connection.begin(identity, readOnly: false)
      try await connection.query("select public.\(name)(\(list))", names.map { arguments[$0] })
    } catch let error as PostgreSQLError {
      throw APIError(error, isAuthenticated: identity.isAuthenticated)
    }
    throw APIError.notCompared("A function that returns")
  }
}

/// The one statement of a request, written as PostgREST writes it.
private struct Statement {
  let sql: String
  let parameters: [String?]

  init(_ request: APIRequest, _ query: TableQuery, _ columns: [(name: String, type: String)]) throws(APIError) {
    guard !columns.isEmpty else {
      throw APIError(
        status: 404, code: "PGRST205",
        message: "Could not find the table '\(query.schema).\(query.table)' in the schema cache")
    }
    var parameters: [String?] = []
    func quoted(_ name: String) -> String { "\"\(name)\"" }
    let table = "\(quoted(query.schema)).\(quoted(query.table))"
    func column(_ name: String) -> String { "\(table).\(quoted(name))" }

    var conditions: [String] = []
    for filter in query.filters {
      if let value = filter.value { parameters.append(value) }
      conditions.append(filter.condition(column(filter.column), "$\(parameters.count)"))
    }
    let filtered = conditions.isEmpty ? "" : " where \(conditions.joined(separator: " and "))"
    let shown = query.columns.isEmpty ? "\(table).*" : query.columns.map(column).joined(separator: ", ")

    let source: String
    var total = "null::bigint"
    switch request.method {
    case "GET", "HEAD":
      let order = query.order.map { column($0.column) + ($0.isDescending ? " desc" : " asc") }
      let ordered = order.isEmpty ? "" : " order by \(order.joined(separator: ", "))"
      let limit = query.limit.map { " limit \($0)" } ?? ""
      source = "select \(shown) from \(table)\(filtered)\(ordered)\(limit) offset \(query.offset)"
      if query.preferences.isCounted { total = "(select count(*) from \(table)\(filtered))" }
    case "PATCH":
      // PostgREST would change every row.
      guard !query.filters.isEmpty else { throw .notCompared("A PATCH of every row, which nobody wants,") }
      guard query.order.isEmpty, query.limit == nil, query.offset == 0 else {
        throw .notCompared("A PATCH with a limit")
      }
      let keys = try Self.keys(of: request, query, columns)
      if keys.isEmpty {
        parameters = []
        source = "select \(shown) from \(table) where false"
      } else {
        parameters.append(request.body)
        let typed = columns.filter { keys.contains($0.name) }
        let names = typed.map { quoted($0.name) }.joined(separator: ", ")
        let types = typed.map { "\(quoted($0.name)) \($0.type)" }.joined(separator: ", ")
        let set = typed.map { "\(quoted($0.name)) = body.\(quoted($0.name))" }.joined(separator: ", ")
        // Without a representation no column is read back, so none has to be granted.
        let returned = query.preferences.returning == "representation" ? shown : "1"
        source = """
          update \(table) set \(set)
          from (select \(names) from json_to_record($\(parameters.count)::json) as _(\(types))) as body\(filtered)
          returning \(returned)
          """
      }
      if query.preferences.isCounted { total = "count(*)" }
    default: throw .notCompared(request.method)
    }
    sql = "with source as (\(source)) select count(*), \(total), coalesce(json_agg(source), '[]') from source"
    self.parameters = parameters
  }

  private static func keys(
    of request: APIRequest, _ query: TableQuery, _ columns: [(name: String, type: String)]
  ) throws(APIError) -> Set<String> {
    guard let body = try? JSONSerialization.jsonObject(with: Data(request.body.utf8)) as? [String: Any] else {
      throw .notCompared("A body that is no JSON object")
    }
    guard request.header("Content-Type") == "application/json" else { throw .notCompared("This Content-Type") }
    for key in body.keys.sorted() where !columns.contains(where: { $0.name == key }) {
      throw APIError(
        status: 400, code: "PGRST204",
        message: "Could not find the '\(key)' column of '\(query.table)' in the schema cache")
    }
    return Set(body.keys)
  }
}

extension Connection {
  fileprivate func begin(_ identity: TokenVerifier.Identity, readOnly: Bool) throws {
    try query(readOnly ? "begin read only" : "begin")
    do {
      try query(
        "select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)",
        [identity.role, identity.claims])
    } catch let error as PostgreSQLError where error.sqlState == "22023" {
      throw APIError(
        status: 401, code: error.sqlState, message: error.message, details: error.detail, hint: error.hint,
        headers: [("WWW-Authenticate", "Bearer")])
    }
  }

  /// The columns that PostgREST keeps in its schema cache.
  fileprivate func columns(of table: TableQuery) throws -> [(name: String, type: String)] {
    try query(
      """
      select attname, format_type(atttypid, atttypmod)
      from pg_attribute join pg_class on pg_class.oid = attrelid
      where relnamespace = (select oid from pg_namespace where nspname = $1) and relname = $2
        and attnum > 0 and not attisdropped
      order by attnum
      """, [table.schema, table.table]
    ).map { ($0[0] ?? "", $0[1] ?? "") }
  }
}
