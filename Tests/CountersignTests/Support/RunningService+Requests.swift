import Crypto
import Foundation
import HTTPTransport
import Testing

extension Settings {
  static func sha256(_ text: String) -> String {
    SHA256.hash(data: Data(text.utf8)).map { String(format: "%02x", $0) }.joined()
  }
}

/// An answer of the service.
struct Answer: Sendable {
  var status: Int
  var headers: [TransportHeader]
  var body: [UInt8]

  func header(_ name: String) -> String? {
    headers.first { $0.name.lowercased() == name.lowercased() }?.value
  }

  var text: String { String(decoding: body, as: UTF8.self) }

  /// A member of the JSON object in the body as text; `nil` when it is absent, `"null"` when it is null.
  subscript(_ member: String) -> String? {
    guard let value = object[member] else { return nil }
    if value is NSNull { return "null" }
    if let number = value as? NSNumber, Contract.isBoolean(number) { return "\(number.boolValue)" }
    return "\(value)"
  }

  /// tier, status and reason: the verdict in one word of comparison.
  var verdict: String { "\(self["tier"] ?? "-") \(self["status"] ?? "-") \(self["reason"] ?? "-")" }
}

extension RunningService {
  /// Sends a request, and holds the answer against `openapi.yaml`.
  func send(
    _ method: TransportRequest.Method, _ path: String, key: String? = serviceKey, body: String? = nil,
    headers: [TransportHeader] = []
  ) async throws -> Answer {
    var headers = headers
    if let key { headers.append(TransportHeader("Authorization", "Bearer \(key)")) }
    if body != nil, !headers.contains(where: { $0.name == "Content-Type" }) {
      headers.append(TransportHeader("Content-Type", "application/json"))
    }
    let response = try await client.send(
      TransportRequest(
        method: method, url: origin + path, headers: headers, body: Array((body ?? "").utf8),
        responseBodyLimit: 1 << 24),
      deadline: .now.advanced(by: .seconds(60)))
    let answer = Answer(status: response.status, headers: response.headers, body: response.body)
    for finding in try Contract.shared.get().findings(method.rawValue, path, answer) { Issue.record("\(finding)") }
    return answer
  }

  /// Asks at a port of the service's, such as the operators' own, without a key.
  func get(_ path: String, port: Int) async throws -> Answer {
    let response = try await client.send(
      TransportRequest(method: .get, url: "http://127.0.0.1:\(port)\(path)", responseBodyLimit: 1 << 20),
      deadline: .now.advanced(by: .seconds(60)))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }

  /// Sends what a test says, byte by byte, and reads until the service closes the connection.
  func exchange(_ request: String) async throws -> String { try await RawClient.exchange(port: port, [request]) }

  /// Posts a receipt for a user.
  func validate(_ receipt: String, user: String = "user-1", key: String? = serviceKey) async throws -> Answer {
    try await post(["receipt_data": receipt, "user_id": user], key: key)
  }

  /// Asks for a purchase by its original transaction ID.
  func validate(originalTransactionID id: String, user: String = "user-1") async throws -> Answer {
    try await post(["original_transaction_id": id, "user_id": user])
  }

  func post(_ object: [String: String], key: String? = serviceKey) async throws -> Answer {
    let body = try JSONSerialization.data(withJSONObject: object)
    return try await send(.post, "/v1/validations", key: key, body: String(decoding: body, as: UTF8.self))
  }

  func profile(_ user: String = "user-1", key: String? = serviceKey, headers: [TransportHeader] = []) async throws
    -> Answer
  {
    try await send(.get, "/v1/profiles/\(user)", key: key, headers: headers)
  }

  /// A gauge without labels, as operators see it; -1 when there is none.
  func gauge(_ name: String) async throws -> Int {
    let metrics = try await send(.get, "/metrics", key: nil).text
    let line = metrics.split(separator: "\n").first { $0.hasPrefix(name + " ") }
    return Int(line?.split(separator: " ").last ?? "") ?? -1
  }
}
