import Foundation
import Testing

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

/// Runs a program to its end. Its output goes through a file, so that a long one cannot block it.
@discardableResult
func run(_ program: String, _ arguments: [String]) async throws -> (code: Int32, output: String) {
  let file = try temporaryFile()
  defer { try? FileManager.default.removeItem(at: file) }
  let process = Process()
  process.executableURL = URL(filePath: program)
  process.arguments = arguments
  process.standardInput = FileHandle.nullDevice
  process.standardOutput = try FileHandle(forWritingTo: file)
  process.standardError = FileHandle.nullDevice
  let code = try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Int32, any Error>) in
    process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
    do { try process.run() } catch { continuation.resume(throwing: error) }
  }
  return (code, String(decoding: try Data(contentsOf: file), as: UTF8.self))
}

func temporaryFile(_ bytes: [UInt8] = []) throws -> URL {
  let file = FileManager.default.temporaryDirectory.appending(path: "simulator-tests-\(UUID().uuidString)")
  try Data(bytes).write(to: file)
  return file
}

/// What curl saw of one exchange. Its exit codes: 18 cut short, 28 timed out, 35 and 56 reset.
struct Exchange {
  var code: Int32
  var status: Int
  var headers: String
  var body: [UInt8]

  var text: String { String(decoding: body, as: UTF8.self) }
  var json: [String: Any]? { try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any] }

  static func send(
    _ method: String = "POST", _ url: String, root: String? = nil, body: String = "", seconds: Double = 10,
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
    let result = try await run(curl, arguments + extra + [url])
    return Exchange(
      code: result.code, status: Int(result.output) ?? 0,
      headers: String(decoding: try Data(contentsOf: headers), as: UTF8.self),
      body: Array(try Data(contentsOf: answer)))
  }
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

  init() throws {
    issuer = ReceiptIssuer(pki: try DevelopmentPKI())
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

  func ask(_ order: ReceiptOrder, excludesOld: Bool? = nil) throws -> Verdict {
    try ask(requestBody(try receipt(order), excludesOld: excludesOld), order.environment)
  }
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

  /// The `_ms` member of a date triplet, as days from noon.
  func days(_ key: String) -> Double? {
    text(key + "_ms").flatMap { Int64($0) }.map { Double($0 - noon.milliseconds) / Double(Timestamp.day) }
  }
}
