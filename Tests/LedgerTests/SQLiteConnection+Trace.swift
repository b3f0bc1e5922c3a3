import CSQLite

@testable import Ledger

extension SQLiteConnection {
  /// The statements that a body runs, with their values.
  func traced(_ body: () throws -> Void) throws -> [String] {
    let handle = try self.handle
    let trace = Trace()
    sqlite3_trace_v2(
      handle, UInt32(SQLITE_TRACE_STMT),
      { _, context, statement, _ in
        guard let context, let sql = sqlite3_expanded_sql(OpaquePointer(statement)) else { return 0 }
        defer { sqlite3_free(sql) }
        Unmanaged<Trace>.fromOpaque(context).takeUnretainedValue().statements.append(String(cString: sql))
        return 0
      }, Unmanaged.passUnretained(trace).toOpaque())
    defer { sqlite3_trace_v2(handle, 0, nil, nil) }
    try withExtendedLifetime(trace, body)
    return trace.statements
  }

  private final class Trace {
    var statements: [String] = []
  }
}
