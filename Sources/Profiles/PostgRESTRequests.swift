import Entitlements
import HTTPTransport
import JSON

/// Builds every request to PostgREST. Pure: the same values give the same bytes.
///
/// https://docs.postgrest.org/en/stable/references/api/tables_views.html
struct PostgRESTRequests {
  /// Bytes. A row of ours takes a few hundred; an error may hold a whole row of the app.
  static let answerLimit = 64 * 1024

  let configuration: PostgRESTProfileStore.Configuration

  private var columns: PostgRESTProfileStore.Columns { configuration.columns }
  /// The table's URL up to the query.
  private let table: String
  private let columnsShown: String
  private let headersOfRead: [TransportHeader]
  private let headersOfWrite: [TransportHeader]

  init(configuration: PostgRESTProfileStore.Configuration) {
    self.configuration = configuration
    var base = configuration.url[...]
    while base.last == "/" { base.removeLast() }
    table = "\(base)/\(configuration.table)?"
    let columns = configuration.columns
    columnsShown =
      [columns.id, columns.tier, columns.status, columns.version].compactMap { $0?.text }.joined(separator: ",")
    let key = configuration.key.exposed
    var headers = [TransportHeader("Accept", "application/json"), TransportHeader("apikey", key)]
    if PostgRESTKey.isToken(configuration.key) { headers.append(TransportHeader("Authorization", "Bearer \(key)")) }
    headersOfRead = headers + (configuration.schema.map { [TransportHeader("Accept-Profile", $0.text)] } ?? [])
    headers.append(TransportHeader("Content-Type", "application/json"))
    // If the id matched two rows, the server would roll back; it honours that limit only together with `strict`.
    headers.append(TransportHeader("Prefer", "return=representation,handling=strict,max-affected=1"))
    headersOfWrite = headers + (configuration.schema.map { [TransportHeader("Content-Profile", $0.text)] } ?? [])
  }

  /// Writes an update to a user's row if its version is lower; without a version column, in any case.
  func write(_ update: ProfileUpdate) -> TransportRequest {
    patch([filter(columns.id, "eq", update.user.rawValue)], update)
  }

  func read(_ user: UserID) -> TransportRequest {
    get([filter(columns.id, "eq", user.rawValue), "select=\(columnsShown)", "limit=2"])
  }

  /// A write of every column that matches no row, as no value is both null and not null. The database still checks the
  /// privileges, PostgREST the columns, and the version column has to hold the highest possible version.
  func writeNothing() -> TransportRequest {
    patch(["\(columns.id)=is.null", "\(columns.id)=not.is.null"], nil)
  }

  func readAny() -> TransportRequest { get(["select=\(columnsShown)", "limit=1"]) }

  // MARK: - Parts

  /// The only place where a value becomes part of a query. Everything after the operator is the value; quotes have a
  /// meaning only inside `in.(…)` and `or=(…)`.
  private func filter(_ column: PostgRESTName, _ comparison: StaticString, _ value: String) -> String {
    "\(column)=\(comparison).\(value.percentEncoded)"
  }

  /// - Parameters:
  ///   - conditions: must begin with one on the id: a PATCH without it changes every row.
  ///   - update: the values; `nil` for nulls.
  private func patch(_ conditions: [String], _ update: ProfileUpdate?) -> TransportRequest {
    var query = conditions
    if let version = columns.version { query.append(filter(version, "lt", String(update?.version ?? Int64.max))) }
    let row = JSONWriter.object { row in
      row.member(columns.tier.text, update?.tier.rawValue)
      row.member(columns.status.text, update?.status.rawValue)
      row.member(columns.expiresAt.text, update?.expiresAt?.rfc3339(alwaysWithMilliseconds: true))
      row.member(columns.originalTransactionID.text, update?.originalTransactionID?.rawValue)
      if let column = columns.version { row.member(column.text, update?.version) }
    }
    return TransportRequest(
      method: .patch, url: url(query + ["select=\(columnsShown)"]), headers: headersOfWrite,
      body: row, responseBodyLimit: Self.answerLimit)
  }

  private func get(_ query: [String]) -> TransportRequest {
    TransportRequest(method: .get, url: url(query), headers: headersOfRead, responseBodyLimit: Self.answerLimit)
  }

  private func url(_ query: [String]) -> String { table + query.joined(separator: "&") }
}
