import FoundationEssentials
import Synchronization

/// Simulates Apple's DeviceCheck, two bits for each device: maps a request to the bytes of the response.
///
///     POST /v1/query_two_bits    {"device_token":"…","transaction_id":"…","timestamp":1768478400000}
///     POST /v1/update_two_bits   the same, and {"bit0":true,"bit1":false}
///
/// `StoreEnvironment.sandbox` is Apple's development server. It answers callers that sign with the development key,
/// about the tokens of `SimulatedDeviceToken`.
struct DeviceCheckAPI: Sendable {
  let devices: DeviceBitsRegistry
  let tokens: TeamTokens
  let clock: SimulatedClock
  let troubles: TroubleSwitch
  let calls: CallBook

  struct Call: Sendable {
    var method: String
    /// The path after the base URL.
    var path: String
    var authorization: String?
    var body: [UInt8]
    var environment: StoreEnvironment
  }

  private struct Body: Decodable {
    var deviceToken: String
    var transactionID: String
    var timestamp: Int64

    enum CodingKeys: String, CodingKey {
      case deviceToken = "device_token"
      case transactionID = "transaction_id"
      case timestamp
    }
  }

  private struct Bits: Decodable {
    var bit0: Bool
    var bit1: Bool
  }

  func answer(_ call: Call) -> Answer {
    let now = clock.now
    let bearer = tokens.check(call.authorization, now: now)
    let endpoint = Endpoint(rawValue: call.path)
    calls.record(
      endpoint?.name ?? "unknown", of: \.deviceCheck, in: call.environment, isTokenAccepted: bearer == .accepted)
    let switched = troubles.next(in: call.environment, for: .deviceCheck)
    let ordinary: Answer =
      switch bearer {
      case .accepted: ordinaryAnswer(call, endpoint, isInTrouble: switched != nil, now: now)
      case .malformed: Answer(text: "Missing or badly formatted authorization token", httpStatus: 400)
      case .refused: .keyRefused
      }
    return switched?.befallDeviceCheck(ordinary, call.environment) ?? ordinary
  }

  /// - Parameter isInTrouble: whether the answer will be another one; then nothing is stored.
  private func ordinaryAnswer(_ call: Call, _ endpoint: Endpoint?, isInTrouble: Bool, now: Timestamp) -> Answer {
    guard let endpoint else { return Answer(text: "", httpStatus: 404) }
    guard call.method == "POST" else { return Answer(text: "", httpStatus: 405) }
    let decoder = JSONDecoder()
    guard let body = try? decoder.decode(Body.self, from: Data(call.body)), !body.transactionID.isEmpty,
      let token = SimulatedDeviceToken(text: body.deviceToken), token.isGood(in: call.environment, at: now)
    else { return .deviceTokenRefused }
    let device = DeviceBitsRegistry.Key(environment: call.environment, device: token.device)
    switch endpoint {
    case .query: return devices[device].map { Answer(json: $0.json) } ?? Answer(text: "Failed to find bit state")
    case .update:
      guard let bits = try? decoder.decode(Bits.self, from: Data(call.body)) else {
        return Answer(text: "Missing or incorrectly formatted bits", httpStatus: 400)
      }
      if isInTrouble { return Answer(text: "") }
      devices[device] = StoredBits(bit0: bits.bit0, bit1: bits.bit1, updatedAt: now)
      return Answer(text: "")
    }
  }

  private enum Endpoint: String {
    case query = "/v1/query_two_bits"
    case update = "/v1/update_two_bits"

    /// The name in the call book.
    var name: String { String(rawValue.dropFirst("/v1/".count)) }
  }
}

/// The bits of one device.
struct StoredBits: Hashable, Sendable {
  var bit0: Bool
  var bit1: Bool
  var updatedAt: Timestamp

  var json: JSON {
    .object([
      ("bit0", .boolean(bit0)), ("bit1", .boolean(bit1)),
      ("last_update_time", .string(String(updatedAt.text.prefix(7)))),
    ])
  }
}

/// The bits that were set since the start. Each of Apple's servers keeps its own.
final class DeviceBitsRegistry: Sendable {
  struct Key: Hashable, Sendable {
    var environment: StoreEnvironment
    var device: String
  }

  private let bits = Mutex<[Key: StoredBits]>([:])

  subscript(key: Key) -> StoredBits? {
    get { bits.withLock { $0[key] } }
    set { bits.withLock { $0[key] = newValue } }
  }
}

/// A token as `DCDevice.generateToken` gives it to an app: opaque to the app, and good for half a minute.
///
///     base64 of {"device":"phone-1","environment":"production","issued_at_ms":1768478400000}
struct SimulatedDeviceToken: Hashable, Decodable, Sendable {
  static let lifetime = 30 * Timestamp.second

  var device: String
  var environment: StoreEnvironment
  var issuedAt: Timestamp

  enum CodingKeys: String, CodingKey {
    case device, environment
    case issuedAt = "issued_at_ms"
  }

  var text: String {
    let content = JSON.object([
      ("device", .string(device)), ("environment", .string(environment.rawValue)),
      ("issued_at_ms", .integer(issuedAt.milliseconds)),
    ])
    return Data(content.text.utf8).base64EncodedString()
  }

  func isGood(in environment: StoreEnvironment, at now: Timestamp) -> Bool {
    let (age, isTooLarge) = now.milliseconds.subtractingReportingOverflow(issuedAt.milliseconds)
    return self.environment == environment && !isTooLarge && (0...Self.lifetime).contains(age)
  }
}

extension SimulatedDeviceToken {
  /// - Returns: nil for a text that `text` never is.
  init?(text: String) {
    guard let data = Data(base64Encoded: text), let token = try? JSONDecoder().decode(Self.self, from: data) else {
      return nil
    }
    self = token
  }
}

extension Timestamp: Decodable {
  /// Milliseconds.
  init(from decoder: any Decoder) throws {
    self.init(milliseconds: try decoder.singleValueContainer().decode(Int64.self))
  }
}

extension Answer {
  static let keyRefused = Answer(text: "Unable to verify authorization token", httpStatus: 401)
  static let deviceTokenRefused = Answer(text: "Missing or incorrectly formatted device token payload", httpStatus: 400)
}

extension Trouble {
  /// Replaces an ordinary response of DeviceCheck by this trouble.
  fileprivate func befallDeviceCheck(_ answer: Answer, _ environment: StoreEnvironment) -> Answer {
    switch self {
    case .deviceCheckKeyRefused: return .keyRefused
    case .deviceCheckTokenRefused: return .deviceTokenRefused
    // Looks like an answer, as this trouble does in verifyReceipt.
    case .http500: return Answer(text: #"{"bit0":true,"bit1":true}"#, httpStatus: 500)
    case .duplicateKeys: return Answer(text: #"{"bit0":false,"bit1":false,"last_update_time":"2026-01","bit0":true}"#)
    default: return befall(answer, environment)
    }
  }
}
