import Foundation

/// The query of a request to one table, as far as it was compared with PostgREST 14.17.
struct TableQuery: Sendable {
  struct Filter: Sendable {
    var column: String
    /// SQL around the column and a parameter, if it takes one.
    var condition: @Sendable (_ column: String, _ parameter: String) -> String
    var value: String?
  }

  struct Preferences: Sendable {
    var returning: String?
    var isCounted = false
    var handling: String?
    var maxAffected: Int?
  }

  var schema: String
  var table: String
  var filters: [Filter] = []
  /// Empty: all.
  var columns: [String] = []
  var order: [(column: String, isDescending: Bool)] = []
  var limit: Int?
  var offset = 0
  var preferences = Preferences()
  var wantsObject = false

  /// The schemas that are exposed.
  static let schemas = ["public", "vehicles", "recording"]

  init(_ request: APIRequest) throws(APIError) {
    guard ["GET", "HEAD", "PATCH"].contains(request.method) else { throw .notCompared(request.method) }
    let parts = request.target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    table = String(parts[0].dropFirst())
    guard !table.isEmpty, table.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }) else {
      throw .notCompared("The path \(parts[0])")
    }
    schema = request.header(request.method == "PATCH" ? "Content-Profile" : "Accept-Profile") ?? "public"
    guard Self.schemas.contains(schema) else {
      throw APIError(
        status: 406, code: "PGRST106", message: "Invalid schema: \(schema)",
        hint: "Only the following schemas are exposed: \(Self.schemas.joined(separator: ", "))")
    }
    switch request.header("Accept") {
    case nil, "*/*", "application/json": break
    case "application/vnd.pgrst.object+json": wantsObject = true
    case let other?: throw .notCompared("Accept: \(other)")
    }
    preferences = try Preferences(request.headers.filter { $0.name.lowercased() == "prefer" }.map(\.value))
    if parts.count > 1 {
      for pair in parts[1].split(separator: "&") { try read(pair) }
    }
    if let range = request.header("Range") {
      guard let match = range.wholeMatch(of: /([0-9]{1,6})-([0-9]{1,6})/), let first = Int(match.1),
        let last = Int(match.2), first <= last
      else { throw .notCompared("Range: \(range)") }
      (offset, limit) = (first, last - first + 1)
    }
  }

  private mutating func read(_ pair: Substring) throws(APIError) {
    let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    // In a query, a plus that is not encoded is a blank.
    let decoded = parts.map { $0.replacing("+", with: " ").removingPercentEncoding }
    guard decoded.count == 2, let name = decoded[0], let value = decoded[1] else { throw .notCompared("\(pair)") }
    switch name {
    case "select":
      columns = value.split(separator: ",").map(String.init)
      guard columns.allSatisfy({ $0.wholeMatch(of: /[A-Za-z_][A-Za-z0-9_]*/) != nil }) else {
        throw .notCompared("select=\(value)")
      }
    case "limit", "offset":
      guard let number = Int(value), number >= 0 else { throw .notCompared("\(name)=\(value)") }
      if name == "limit" { limit = number } else { offset = number }
    case "order":
      for term in value.split(separator: ",") {
        guard let match = term.wholeMatch(of: /([a-z_]+)(\.asc|\.desc)?/) else { throw .notCompared("order=\(value)") }
        order.append((String(match.1), match.2 == ".desc"))
      }
    default:
      guard name.wholeMatch(of: /[A-Za-z_][A-Za-z0-9_]*/) != nil,
        !["and", "or", "not", "columns", "on_conflict"].contains(name)
      else { throw .notCompared("\(name)=") }
      filters.append(try Self.filter(name, value))
    }
  }

  private static func filter(_ name: String, _ value: String) throws(APIError) -> Filter {
    func compare(_ sign: String, _ operand: Substring) -> Filter {
      Filter(column: name, condition: { "\($0) \(sign) \($1)" }, value: String(operand))
    }
    if value.hasPrefix("eq.") { return compare("=", value.dropFirst(3)) }
    if value.hasPrefix("lt.") { return compare("<", value.dropFirst(3)) }
    // Not among the recorded requests; PostgREST's documentation has them.
    if value == "is.null" { return Filter(column: name, condition: { column, _ in "\(column) is null" }) }
    if value == "not.is.null" { return Filter(column: name, condition: { column, _ in "not \(column) is null" }) }
    throw .notCompared("The filter \(value.prefix { $0 != "." })")
  }
}

extension TableQuery.Preferences {
  init(_ headers: [String]) throws(APIError) {
    self.init()
    var unknown: [String] = []
    let words = headers.flatMap { $0.split(separator: ",") }.map { $0.trimmingCharacters(in: .whitespaces) }
    for word in words {
      switch word {
      case "return=minimal", "return=representation", "return=headers-only": returning = String(word.dropFirst(7))
      case "count=exact": isCounted = true
      case "handling=strict", "handling=lenient": handling = String(word.dropFirst(9))
      // Understood, and not heeded by a server of default settings.
      case "tx=rollback": break
      case let word where word.hasPrefix("max-affected="): maxAffected = Int(word.dropFirst(13))
      // For inserts.
      case let word where word.hasPrefix("resolution=") || word.hasPrefix("missing="):
        throw .notCompared("Prefer: \(word)")
      default: unknown.append(word)
      }
    }
    if handling != "strict" { maxAffected = nil }
    if handling == "strict", !unknown.isEmpty {
      throw APIError(
        status: 400, code: "PGRST122", message: "Invalid preferences given with handling=strict",
        details: "Invalid preferences: \(unknown.joined(separator: ", "))")
    }
  }

  func applied(to method: String) -> String? {
    let words = [
      method == "GET" || method == "HEAD" ? nil : returning.map { "return=\($0)" },
      isCounted ? "count=exact" : nil,
      handling.map { "handling=\($0)" },
      method == "PATCH" ? maxAffected.map { "max-affected=\($0)" } : nil,
    ].compactMap(\.self)
    return words.isEmpty ? nil : words.joined(separator: ", ")
  }
}
