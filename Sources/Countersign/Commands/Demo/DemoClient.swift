import Foundation
import HTTPTransport

/// Plays the app and its backend, and tells the simulator what to do.
struct DemoClient: Sendable {
  struct Receipt: Decodable {
    var data: String
    var originalTransactionIDs: [String]

    enum CodingKeys: String, CodingKey {
      case data = "receipt_data"
      case originalTransactionIDs = "original_transaction_ids"
    }
  }

  private let service: String
  private let key: String
  private let store: SimulatorProcess
  private let transport: CurlTransport

  init(service: String, key: String, store: SimulatorProcess) throws {
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = [.http]
    self.service = service
    self.key = key
    self.store = store
    self.transport = try CurlTransport(configuration: configuration)
  }

  func close() { transport.shutdown() }

  func scenarios() async throws -> [String] {
    struct Scenarios: Decodable {
      struct Scenario: Decodable { var name: String }
      var scenarios: [Scenario]
    }
    return try await control(.get, "/scenarios", as: Scenarios.self).scenarios.map(\.name)
  }

  func issue(scenario: String, subscriber: Int) async throws -> Receipt {
    try await control(
      .post, "/receipts", ["scenario": .text(scenario), "subscriber": .number(subscriber)], as: Receipt.self)
  }

  func advanceClock(by duration: String) async throws {
    struct Clock: Decodable {}
    _ = try await control(.post, "/clock", ["advance": .text(duration)], as: Clock.self)
  }

  func validate(receipt: String, user: String) async throws -> DemoAnswer {
    try await validate(["receipt_data": .text(receipt), "user_id": .text(user)])
  }

  func validate(originalTransactionID id: String, user: String) async throws -> DemoAnswer {
    try await validate(["original_transaction_id": .text(id), "user_id": .text(user)])
  }

  private enum Value: Encodable {
    case text(String)
    case number(Int)

    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      switch self {
      case .text(let text): try container.encode(text)
      case .number(let number): try container.encode(number)
      }
    }
  }

  private func validate(_ body: [String: Value]) async throws -> DemoAnswer {
    let response = try await send(
      .post, service + "/v1/validations", body, [TransportHeader("Authorization", "Bearer \(key)")])
    return try DemoAnswer(status: response.status, body: response.body)
  }

  private func control<Answer: Decodable>(
    _ method: TransportRequest.Method, _ path: String, _ body: [String: Value]? = nil, as type: Answer.Type
  ) async throws -> Answer {
    let response = try await send(method, store.controlURL + path, body, [])
    guard (200..<300).contains(response.status) else {
      throw DemoFailure("The simulator answered \(response.status) to \(path).")
    }
    return try JSONDecoder().decode(type, from: Data(response.body))
  }

  private func send(
    _ method: TransportRequest.Method, _ url: String, _ body: [String: Value]?, _ headers: [TransportHeader]
  ) async throws -> TransportResponse {
    let bytes = try body.map { Array(try JSONEncoder().encode($0)) } ?? []
    return try await transport.send(
      TransportRequest(
        method: method, url: url, headers: headers + [TransportHeader("Content-Type", "application/json")],
        body: bytes, responseBodyLimit: 1 << 20),
      deadline: .now.advanced(by: .seconds(30)))
  }
}

/// What the service answered, as far as the table shows it.
struct DemoAnswer {
  var status: Int
  var tier = ""
  var state = ""
  var accessUntil = ""
  var reason = ""
  let json: String

  private struct Body: Decodable {
    var tier: String?
    var status: StatusWord?
    var access_until: String?
    var reason: String?
    var code: String?
  }

  /// `status` is a word in a verdict and a number in a problem.
  private enum StatusWord: Decodable {
    case word(String)
    case number

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if let word = try? container.decode(String.self) { self = .word(word) } else { self = .number }
    }
  }

  init(status: Int, body: [UInt8]) throws {
    self.status = status
    self.json = String(decoding: body, as: UTF8.self)
    let body = try JSONDecoder().decode(Body.self, from: Data(body))
    if case .word(let word) = body.status { state = word }
    tier = body.tier ?? "-"
    accessUntil = body.access_until ?? "-"
    reason = body.reason ?? body.code ?? "-"
    if state.isEmpty { state = "-" }
  }
}
