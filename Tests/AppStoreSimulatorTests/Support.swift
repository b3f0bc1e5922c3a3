import Crypto
import Foundation
import Logging
import SwiftASN1
import TestSupport
import Testing
@_spi(FixedExpiryValidationTime) import X509

@testable import AppStoreSimulator

/// A fixed moment for every test: noon of 15 January 2026, UTC.
let noon = Timestamp(milliseconds: 1_768_478_400_000)

/// A program from the search path, or nil where it is not installed.
enum Tool {
  static let curl = find("curl")
  static let openssl = find("openssl")

  private static func find(_ name: String) -> String? {
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
    return folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
  }
}

func temporaryFile(_ bytes: [UInt8] = []) throws -> URL {
  let file = FileManager.default.temporaryDirectory.appending(path: "simulator-tests-\(UUID().uuidString)")
  try Data(bytes).write(to: file)
  return file
}

/// One exchange as curl saw it. Its exit codes: 18 cut short, 28 timed out, 35 and 56 reset.
struct Exchange {
  var code: Int32
  var status: Int
  var headers: String
  var body: [UInt8]

  var text: String { String(decoding: body, as: UTF8.self) }
  var json: [String: Any]? { try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any] }

  static func send(
    _ method: String = "POST", _ url: String, root: String? = nil, body: String = "", seconds: Double = 60,
    extra: [String] = []
  ) async throws -> Exchange {
    let curl = try #require(Tool.curl)
    let request = try temporaryFile(Array(body.utf8))
    let headers = try temporaryFile()
    let answer = try temporaryFile()
    defer { for file in [request, headers, answer] { try? FileManager.default.removeItem(at: file) } }
    var arguments = [
      "-s", "--noproxy", "*", "-X", method, "-m", "\(seconds)", "-D", headers.path(), "-o", answer.path(),
    ]
    arguments += ["-w", "%{http_code}"]
    if let root { arguments += ["--cacert", root] }
    if method != "GET" { arguments += ["--data-binary", "@" + request.path()] }
    let result = try await ChildProcess.run(curl, arguments + extra + [url])
    return Exchange(
      code: result.code, status: Int(result.output) ?? 0,
      headers: String(decoding: try Data(contentsOf: headers), as: UTF8.self),
      body: Array(try Data(contentsOf: answer)))
  }
}

/// Verifies with the openssl command line, an independent reader; returns the content it took from the message.
func openssl(_ receipt: [UInt8], root: String = DevelopmentPKI.rootPEM) async throws -> [UInt8]? {
  let message = try temporaryFile(receipt)
  let roots = try temporaryFile(Array(root.utf8))
  let content = try temporaryFile()
  defer { for file in [message, roots, content] { try? FileManager.default.removeItem(at: file) } }
  let result = try await ChildProcess.run(
    try #require(Tool.openssl),
    [
      "cms", "-verify", "-binary", "-inform", "DER", "-in", message.path(), "-CAfile", roots.path(),
      "-purpose", "any", "-out", content.path(),
    ])
  return result.code == 0 ? Array(try Data(contentsOf: content)) : nil
}

/// A simulator whose clock stands at noon.
func simulatorAtNoon(_ change: (inout Simulator.Configuration) -> Void = { _ in }) async throws -> RunningSimulator {
  var configuration = Simulator.Configuration()
  configuration.clock = noon.date
  change(&configuration)
  return try await Simulator.start(configuration)
}

func requestBody(_ receiptData: String, password: String? = "simulator", excludesOld: Bool? = nil) -> String {
  var members: [(String, JSON)] = [("receipt-data", .string(receiptData))]
  if let password { members.append(("password", .string(password))) }
  if let excludesOld { members.append(("exclude-old-transactions", .boolean(excludesOld))) }
  return JSON.object(members).text
}

/// A store without a network: what the listeners ask, asked directly.
struct Store {
  let clock = SimulatedClock(standingAt: noon)
  let issuer: ReceiptIssuer
  let calls = CallBook()
  let troubles = TroubleSwitch()
  let verifyReceipt: VerifyReceipt
  let serverAPI: ServerAPI
  let deviceCheck: DeviceCheckAPI
  let notifications: NotificationWriter
  let delivery: NotificationDelivery

  init() throws {
    let pki = try DevelopmentPKI()
    issuer = ReceiptIssuer(pki: pki)
    notifications = NotificationWriter(signer: pki.signedData)
    delivery = NotificationDelivery(
      customers: issuer.customers, writer: notifications, clock: clock, logger: Logger(label: "tests"))
    serverAPI = ServerAPI(
      customers: issuer.customers, signer: pki.signedData,
      tokens: try DeveloperTokens(startedAt: noon, realNow: { noon }), clock: clock, troubles: troubles, calls: calls,
      delivery: delivery, notifications: notifications)
    deviceCheck = DeviceCheckAPI(
      devices: DeviceBitsRegistry(), tokens: try TeamTokens(startedAt: noon, realNow: { noon }), clock: clock,
      troubles: troubles, calls: calls)
    verifyReceipt = VerifyReceipt(
      issuer: issuer, clock: clock, troubles: troubles, calls: calls, sharedSecret: "simulator")
  }

  func receipt(_ order: ReceiptOrder) throws -> String {
    try issuer.issue(order, at: clock.now).receiptData
  }

  func ask(_ body: String, _ environment: StoreEnvironment = .production, isPost: Bool = true) throws -> Verdict {
    let answer = verifyReceipt.answer(isPost: isPost, body: Array(body.utf8), environment: environment)
    return Verdict(try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]))
  }

  /// Asks the Server API with a good token.
  func get(
    _ path: String, _ query: [(String, String)] = [], in environment: StoreEnvironment = .production,
    method: String = "GET", body: String = "", token: DeveloperToken = DeveloperToken()
  ) throws -> (status: Int, headers: [(String, String)], json: [String: Any]) {
    let answer = serverAPI.answer(
      ServerAPI.Call(
        method: method, path: path, query: query.map { (name: $0.0, value: $0.1) },
        authorization: "Bearer " + (try token.signed()), environment: environment, body: Array(body.utf8)))
    let json = try? JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
    return (answer.httpStatus, answer.headers, json ?? [:])
  }

  /// The notifications of a whole story from its start.
  func notifications(
    _ order: ReceiptOrder, after from: Timestamp = Timestamp(.distantPast), days: Int
  ) throws -> [SimulatedNotification] {
    let id = try issuer.issueTransaction(order, at: noon).originalTransactionID
    let (customer, _, _) = try #require(issuer.customers.transaction(id))
    return try notifications.notifications(of: customer.seed, after: from, through: noon.adding(days: days))
  }

  func ask(_ order: ReceiptOrder, excludesOld: Bool? = nil) throws -> Verdict {
    try ask(requestBody(try receipt(order), excludesOld: excludesOld), order.environment)
  }
}

/// A JWS, checked by swift-certificates and swift-crypto against the root that the simulator hands out.
struct CheckedJWS {
  var header: [String: Any]
  var payload: [String: Any]

  init(_ text: String, at now: Timestamp = noon) async throws {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    try #require(parts.count == 3)
    header = try Self.object(parts[0])
    payload = try Self.object(parts[1])
    #expect(header["alg"] as? String == "ES256")
    let chain = try #require(header["x5c"] as? [String]).map { text in
      try Certificate(derEncoded: Array(try #require(Data(base64Encoded: text))))
    }
    try #require(chain.count == 3)
    let key = try #require(P256.Signing.PublicKey(chain[0].publicKey))
    let signature = try P256.Signing.ECDSASignature(rawRepresentation: try Self.bytes(parts[2]))
    #expect(key.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
    #expect(chain[0].extensions.contains { $0.oid == [1, 2, 840, 113635, 100, 6, 11, 1] })
    #expect(chain[1].extensions.contains { $0.oid == [1, 2, 840, 113635, 100, 6, 2, 1] })
    let roots = try Certificate.roots(inPEM: DevelopmentPKI.rootPEM)
    #expect(chain[2] == roots.last)
    var verifier = Verifier(rootCertificates: CertificateStore(roots)) {
      RFC5280Policy(fixedExpiryValidationTime: now.date)
    }
    let result = await verifier.validate(leaf: chain[0], intermediates: CertificateStore([chain[1]]))
    guard case .validCertificate = result else {
      Issue.record("\(result)")
      return
    }
  }

  private static func bytes(_ part: Substring) throws -> Data {
    let text = part.replacing("-", with: "+").replacing("_", with: "/")
    return try #require(Data(base64Encoded: text + String(repeating: "=", count: (4 - text.count % 4) % 4)))
  }

  private static func object(_ part: Substring) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: try bytes(part)) as? [String: Any])
  }

  /// The payload without any check, for tests of what it says.
  static func payload(_ text: String?) throws -> [String: Any] {
    try object(try #require(text?.split(separator: ".").dropFirst().first))
  }
}

extension Certificate {
  fileprivate static func roots(inPEM text: String) throws -> [Certificate] {
    let end = "-----END CERTIFICATE-----"
    return try text.split(separator: end).filter { $0.contains("BEGIN") }.map {
      try Certificate(pemEncoded: $0.trimmingCharacters(in: .whitespacesAndNewlines) + "\n" + end)
    }
  }
}

/// A caller's token for the Server API; right unless a member is changed.
struct DeveloperToken {
  var algorithm = "ES256"
  var keyID = DeveloperTokens.keyID
  var issuer = DeveloperTokens.issuerID
  var audience = "appstoreconnect-v1"
  var bundleID = Product.defaultBundleID
  var issuedAt = noon.milliseconds / 1_000
  var lifetime: Int64 = 300
  var hasIssueDate = true
  var key = DevelopmentKeys.serverAPIKey

  func signed() throws -> String {
    let header = JSON.object([("alg", .string(algorithm)), ("kid", .string(keyID)), ("typ", "JWT")])
    let claims = JSON.object(
      [
        ("iss", .string(issuer)), ("exp", .integer(issuedAt + lifetime)), ("aud", .string(audience)),
        ("bid", .string(bundleID)),
      ] + (hasIssueDate ? [("iat", .integer(issuedAt))] : []))
    return try signedJWT(header, claims, key: key)
  }
}

/// A caller's token for DeviceCheck; right unless a member is changed.
struct TeamToken {
  var algorithm = "ES256"
  var keyID = TeamTokens.keyID
  var team = TeamTokens.teamID
  var issuedAt = noon.milliseconds / 1_000
  var key = DevelopmentKeys.deviceCheckKey

  func signed() throws -> String {
    try signedJWT(
      .object([("alg", .string(algorithm)), ("kid", .string(keyID))]),
      .object([("iss", .string(team)), ("iat", .integer(issuedAt))]), key: key)
  }
}

/// A JWT signed with ES256 by swift-crypto.
private func signedJWT(_ header: JSON, _ claims: JSON, key: String) throws -> String {
  func encode(_ data: Data) -> String {
    data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }
  let signed = encode(Data(header.text.utf8)) + "." + encode(Data(claims.text.utf8))
  let signature = try P256.Signing.PrivateKey(pemRepresentation: key).signature(for: Data(signed.utf8))
  return signed + "." + encode(signature.rawRepresentation)
}

/// An answer's JSON, by its parts.
struct Verdict {
  var json: [String: Any]

  init(_ json: [String: Any]) { self.json = json }

  var status: Int? { json["status"] as? Int }
  var receipt: [String: Any] { json["receipt"] as? [String: Any] ?? [:] }
  var inApp: [[String: Any]] { receipt["in_app"] as? [[String: Any]] ?? [] }
  var latest: [[String: Any]] { json["latest_receipt_info"] as? [[String: Any]] ?? [] }
  var renewals: [[String: Any]] { json["pending_renewal_info"] as? [[String: Any]] ?? [] }
}

extension [String: Any] {
  func text(_ key: String) -> String? { self[key] as? String }

  func object(_ key: String) -> [String: Any] { self[key] as? [String: Any] ?? [:] }

  func objects(_ key: String) -> [[String: Any]] { self[key] as? [[String: Any]] ?? [] }

  /// A number of milliseconds, as days from noon.
  func dayNumber(_ key: String) -> Double? {
    (self[key] as? Int64).map { Double($0 - noon.milliseconds) / Double(Timestamp.day) }
  }

  /// The `_ms` member of a date triplet, as days from noon.
  func days(_ key: String) -> Double? {
    text(key + "_ms").flatMap { Int64($0) }.map { Double($0 - noon.milliseconds) / Double(Timestamp.day) }
  }
}
