import CountersignAPI
import Entitlements
import FoundationEssentials
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
    struct Order: Encodable {
      var scenario: String
      var subscriber: Int
    }
    return try await control(.post, "/receipts", Order(scenario: scenario, subscriber: subscriber), as: Receipt.self)
  }

  func advanceClock(by duration: String) async throws {
    struct Clock: Decodable {}
    _ = try await control(.post, "/clock", ["advance": duration], as: Clock.self)
  }

  func validate(_ request: ValidationRequest) async throws -> DemoAnswer {
    let response = try await send(.post, service + "/v1/validations", request, authorization)
    return try DemoAnswer(about: EntitlementResponse.self, response.status, response.body) {
      [$0.tier, $0.status.rawValue, $0.accessUntil?.rfc3339, $0.reason.rawValue]
    }
  }

  func consume(_ feature: String, of user: String) async throws -> DemoAnswer {
    let response = try await send(
      .post, service + "/v1/profiles/\(user)/usage/\(feature)", UsageRequest(), authorization)
    return try DemoAnswer(about: FeatureResponse.self, response.status, response.body) {
      [$0.tier, $0.remaining.map(String.init) ?? "any", $0.resetsAt?.rfc3339, $0.isAllowed ? "allowed" : "refused"]
    }
  }

  func startTrial(of user: String, on device: String) async throws -> DemoAnswer {
    let response = try await send(
      .post, service + "/v1/trials", TrialRequest(deviceID: device, userID: user), authorization)
    return try DemoAnswer(about: TrialResponse.self, response.status, response.body) {
      [$0.tier, nil, $0.expiresAt.rfc3339, $0.state.rawValue]
    }
  }

  private var authorization: [TransportHeader] { [TransportHeader("Authorization", "Bearer \(key)")] }

  private func control<Answer: Decodable>(
    _ method: TransportRequest.Method, _ path: String, _ body: (any Encodable)? = nil, as type: Answer.Type
  ) async throws -> Answer {
    let response = try await send(method, store.controlURL + path, body, [])
    guard (200..<300).contains(response.status) else {
      throw DemoFailure("The simulator answered \(response.status) to \(path).")
    }
    return try JSONDecoder().decode(type, from: Data(response.body))
  }

  private func send(
    _ method: TransportRequest.Method, _ url: String, _ body: (any Encodable)?, _ headers: [TransportHeader]
  ) async throws -> TransportResponse {
    let bytes = try body.map { Array(try JSONEncoder().encode($0)) } ?? []
    return try await transport.send(
      TransportRequest(
        method: method, url: url, headers: headers + [TransportHeader("Content-Type", "application/json")],
        body: bytes, responseBodyLimit: 1 << 20),
      deadline: .now.advanced(by: .seconds(30)))
  }
}

/// An answer of the service.
struct DemoAnswer {
  let status: Int
  let json: String
  /// The four cells of the table after the status.
  let cells: [String]

  /// - Parameter cells: the cells of a 2xx; of a problem the last one is its code.
  init<Value: Decodable>(about type: Value.Type, _ status: Int, _ body: [UInt8], cells: (Value) -> [String?]) throws {
    self.status = status
    json = String(decoding: body, as: UTF8.self)
    if (200..<300).contains(status) {
      self.cells = cells(try JSONDecoder.countersign.decode(type, from: Data(body))).map { $0 ?? "-" }
    } else {
      let problem = try JSONDecoder.countersign.decode(ProblemDocument.self, from: Data(body))
      let feature = problem.feature
      self.cells = [
        feature?.tier, feature?.remaining.map(String.init), feature?.resetsAt?.rfc3339, problem.code,
      ].map { $0 ?? "-" }
    }
  }
}
