import Foundation

/// An answer that is an error, in PostgREST's words.
struct APIError: Error {
  var status: Int
  var code: String
  var message: String
  var details: String?
  var hint: String?
  var headers: [(String, String)] = []

  /// A request that the stand-in was never compared in. Not an answer of PostgREST.
  static func notCompared(_ what: String) -> APIError {
    APIError(status: 501, code: "NOT_COMPARED", message: "\(what) was not compared with PostgREST 14.17")
  }

  static func token(_ message: String, details: String? = nil) -> APIError {
    APIError(
      status: 401, code: "PGRST301", message: message, details: details,
      headers: [("WWW-Authenticate", #"Bearer error="invalid_token", error_description="\#(message)""#)])
  }

  static let tokenExpired = APIError(
    status: 401, code: "PGRST303", message: "JWT expired",
    headers: [("WWW-Authenticate", #"Bearer error="invalid_token", error_description="JWT expired""#)])
}

extension APIError {
  /// A refusal of PostgreSQL's. Only statuses that were seen are given.
  init(_ error: PostgreSQLError, isAuthenticated: Bool) {
    self.init(
      status: 0, code: error.sqlState, message: error.message, details: error.detail, hint: error.hint)
    switch error.sqlState {
    case "42501" where !isAuthenticated:
      status = 401
      headers = [("WWW-Authenticate", "Bearer")]
    case "42501": status = 403
    case "23503", "23505": status = 409
    case "25006": status = 405
    case let state where ["22", "23", "42703", "42P10", "P0001"].contains { state.hasPrefix($0) }: status = 400
    case "08006", "53300":
      status = 503
      headers = [("Retry-After", "0")]
    case "57014", "55P03", "XX000", "42P17", "21000": status = 500
    case let state where state.hasPrefix("PT"): status = Int(state.dropFirst(2)) ?? 500
    default: self = .notCompared("SQLSTATE \(error.sqlState)")
    }
  }

  var answer: APIAnswer {
    struct Body: Encodable {
      let code: String
      let details: String?
      let hint: String?
      let message: String

      enum CodingKeys: CodingKey { case code, details, hint, message }

      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(code, forKey: .code)
        // `encode`, as an absent one is sent as null.
        try container.encode(details, forKey: .details)
        try container.encode(hint, forKey: .hint)
        try container.encode(message, forKey: .message)
      }
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    let body = (try? encoder.encode(Body(code: code, details: details, hint: hint, message: message))) ?? Data()
    // The end of a list is the one error without this header.
    let proxyStatus = status == 416 ? [] : [("Proxy-Status", "PostgREST; error=\(code)")]
    return APIAnswer(
      status: status, headers: headers + [("Content-Type", "application/json; charset=utf-8")] + proxyStatus,
      body: String(decoding: body, as: UTF8.self))
  }
}

struct APIAnswer {
  var status: Int
  var headers: [(String, String)]
  var body: String?
}

struct APIRequest: Sendable {
  var method: String
  /// As it was sent, percent-encoded.
  var target: String
  var headers: [(name: String, value: String)]
  var body: String

  func header(_ name: String) -> String? { headers.first { $0.name.lowercased() == name.lowercased() }?.value }
}
