import Foundation
import Testing

@testable import AppStoreSimulator

@Suite("DeviceCheck")
struct DeviceCheckTests {
  /// The request of a caller; right unless a member is changed.
  private struct Request {
    var path = "/v1/query_two_bits"
    var method = "POST"
    var deviceToken: String?
    var transactionID: String? = "5b737ca6-a4c7-488e-b928-8452960c4be9"
    var timestamp: JSON? = .integer(noon.milliseconds)
    var bits: [(String, JSON)] = []
    var bearer = TeamToken()
    /// In place of the bearer token.
    var authorization: String?
    var environment = StoreEnvironment.production

    init(_ token: String?) { deviceToken = token }

    init(_ token: String?, set bit0: JSON?, _ bit1: JSON?) {
      deviceToken = token
      path = "/v1/update_two_bits"
      bits = [("bit0", bit0), ("bit1", bit1)].compactMap { name, bit in bit.map { (name, $0) } }
    }

    func sent(to store: Store) throws -> (status: Int, text: String) {
      var members = bits
      if let deviceToken { members.append(("device_token", .string(deviceToken))) }
      if let transactionID { members.append(("transaction_id", .string(transactionID))) }
      if let timestamp { members.append(("timestamp", timestamp)) }
      let answer = store.deviceCheck.answer(
        DeviceCheckAPI.Call(
          method: method, path: path, authorization: try authorization ?? "Bearer " + bearer.signed(),
          body: Array(JSON.object(members).text.utf8), environment: environment))
      return (answer.httpStatus, String(decoding: answer.body, as: UTF8.self))
    }
  }

  private func token(
    _ device: String = "phone-1", _ environment: StoreEnvironment = .production, at now: Timestamp = noon
  ) -> String {
    SimulatedDeviceToken(device: device, environment: environment, issuedAt: now).text
  }

  private static let refused = "Missing or incorrectly formatted device token payload"
  private static let neverSet = "Failed to find bit state"

  @Test("bits that were never set are told in plain text, and those of a device are kept for all its tokens")
  func bits() throws {
    let store = try Store()
    let before = try Request(token()).sent(to: store)
    #expect(before == (200, Self.neverSet))
    let update = try Request(token(), set: true, false).sent(to: store)
    #expect(update == (200, ""))
    store.clock.set(noon.adding(months: 2))
    let later = try Request(token(at: store.clock.now)).sent(to: store)
    #expect(later == (200, #"{"bit0":true,"bit1":false,"last_update_time":"2026-01"}"#))
    let other = try Request(token("phone-2", at: store.clock.now)).sent(to: store)
    #expect(other == (200, Self.neverSet))
    #expect(store.calls.current.deviceCheck.byEndpoint == ["query_two_bits": 3, "update_two_bits": 1])
    #expect(store.calls.current.total == 0)
  }

  @Test("each server has its own tokens and its own bits")
  func servers() throws {
    let store = try Store()
    _ = try Request(token(), set: true, true).sent(to: store)
    var development = Request(token())
    development.environment = .sandbox
    let foreign = try development.sent(to: store)
    #expect(foreign == (400, Self.refused))
    development.deviceToken = token("phone-1", .sandbox)
    let own = try development.sent(to: store)
    #expect(own == (200, Self.neverSet))
    #expect(store.calls.current.deviceCheck.sandbox == 2)
  }

  @Test("a device token is good for 30 seconds", arguments: [(-1, 400), (0, 200), (30_000, 200), (30_001, 400)])
  func expiry(milliseconds: Int64, status: Int) throws {
    let store = try Store()
    let token = token()
    store.clock.advance(milliseconds: milliseconds)
    let answer = try Request(token).sent(to: store)
    #expect(answer.status == status)
  }

  @Test("a request without its parts is refused")
  func malformed() throws {
    let store = try Store()
    var requests = [Request(nil), Request(""), Request("AAAA"), Request("no base64"), Request(token())]
    requests[4].transactionID = nil
    requests.append(Request(token()))
    requests[5].timestamp = "2026"
    for request in requests {
      let answer = try request.sent(to: store)
      #expect(answer == (400, Self.refused))
    }
    for bits in [(true, nil), (nil, true), (1, true)] as [(JSON?, JSON?)] {
      let answer = try Request(token(), set: bits.0, bits.1).sent(to: store)
      #expect(answer == (400, "Missing or incorrectly formatted bits"))
    }
    let untouched = try Request(token()).sent(to: store)
    #expect(untouched == (200, Self.neverSet))
    var other = Request(token())
    other.method = "GET"
    #expect(try other.sent(to: store).status == 405)
    other.path = "/v1/three_bits"
    #expect(try other.sent(to: store).status == 404)
  }

  @Test("a bearer token of another key, team or time is refused before the request is read")
  func bearers() throws {
    var wrong = Array(repeating: TeamToken(), count: 6)
    wrong[0].keyID = DeveloperTokens.keyID
    wrong[1].team = DeveloperTokens.issuerID
    wrong[2].key = DevelopmentKeys.serverAPIKey
    wrong[3].issuedAt -= 3_600
    wrong[4].issuedAt += 61
    wrong[5].algorithm = "HS256"
    let store = try Store()
    for bearer in wrong {
      var request = Request(nil)
      request.bearer = bearer
      let answer = try request.sent(to: store)
      #expect(answer == (401, "Unable to verify authorization token"))
    }
    #expect(store.calls.current.deviceCheck.rejectedTokens == wrong.count)
    for authorization in ["", "Bearer ", "Bearer a.b", "Basic a.b.c"] {
      var request = Request(token())
      request.authorization = authorization
      let answer = try request.sent(to: store)
      #expect(answer == (400, "Missing or badly formatted authorization token"))
    }
    var old = Request(token())
    old.bearer.issuedAt -= 3_599
    #expect(try old.sent(to: store).status == 200)
    // By the clock at the start the token is still new.
    store.clock.set(noon.adding(months: 2))
    #expect(try Request(token(at: store.clock.now)).sent(to: store).status == 200)
  }

  @Test("a trouble can be one service's alone")
  func trouble() throws {
    let store = try Store()
    store.troubles.set(.http503, count: nil, service: .deviceCheck, environment: nil)
    #expect(try Request(token(), set: true, true).sent(to: store).status == 503)
    #expect(try store.ask(ReceiptOrder()).status == 0)
    #expect(try store.get("/inApps/v1/subscriptions/480000000010000").status == 200)
    store.troubles.set(.deviceCheckTokenRefused, count: 1, environment: .sandbox)
    #expect(try Request(token()).sent(to: store).status == 200)
    var development = Request(token("phone-1", .sandbox))
    development.environment = .sandbox
    #expect(try development.sent(to: store).status == 400)
    #expect(try development.sent(to: store).status == 200)
  }
}
