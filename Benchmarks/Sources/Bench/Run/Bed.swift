import ArgumentParser
import Foundation

/// Everything a measurement stands on: the programs, receipts, certificates, and a directory that goes away with it.
struct Bed {
  static let serviceKey = "benchmark-service-key-0123456789abcdef"
  /// The service has a core to itself; what plays Apple and the callers share the other.
  static let serviceCore = 0
  static let othersCore = 1

  let countersign: String
  let bench: String
  let bodies: String
  let directory: String
  let certificate: String
  let key: String
  let root: String

  init(countersign: String, simulator: String, work: String, receipts: Int) throws {
    let files = FileManager.default
    try files.createDirectory(atPath: work, withIntermediateDirectories: true)
    self.countersign = countersign
    bench = try files.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    directory = "\(work)/run-\(getpid())"
    try files.createDirectory(atPath: directory, withIntermediateDirectories: true)
    certificate = "\(directory)/upstream.pem"
    key = "\(directory)/upstream-key.pem"
    root = "\(directory)/root.pem"
    bodies = "\(work)/posts-\(receipts).txt"
    try Child.output(of: simulator, ["root"]).write(toFile: root, atomically: true, encoding: .utf8)
    _ = try Child.output(
      of: "openssl",
      [
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate,
      ])
    if !files.fileExists(atPath: bodies) { try Self.makeBodies(simulator, count: receipts, in: bodies) }
  }

  func remove() { try? FileManager.default.removeItem(atPath: directory) }

  private static func makeBodies(_ simulator: String, count: Int, in path: String) throws {
    print("Signing \(count) receipts, once…")
    let parts = 2
    let running = try (0..<parts).map { part in
      let first = part * (count / parts)
      let number = part == parts - 1 ? count - first : count / parts
      let command = #"""
        "$1" receipt --subscriber \#(first) --count \#(number) |
          awk -v n=\#(first) '{ printf "{\"user_id\":\"user-%d\",\"receipt_data\":\"%s\"}\n", n++, $1 }' > "$2"
        """#
      return try Child("bash", ["-o", "pipefail", "-c", command, "make", simulator, "\(path).\(part)"], core: nil)
    }
    for child in running {
      child.process.waitUntilExit()
      guard child.process.terminationStatus == 0 else { throw ValidationError("receipts cannot be made") }
    }
    let names = (0..<parts).map { "\(path).\($0)" }
    _ = try Child.output(
      of: "bash", ["-c", "cat \"${@:2}\" > \"$1.new\" && mv \"$1.new\" \"$1\" && rm \"${@:2}\"", "join", path] + names)
  }
}

/// What plays Apple and the profile store.
final class Upstream {
  let child: Child
  let secure: String
  let plain: String
  let bytes: Double

  init(_ bed: Bed, delay: Int = 0, periods: Int = 6, receiptBytes: Int = 5_760, only: String? = nil) throws {
    var arguments = [
      "upstream", "--certificate", bed.certificate, "--key", bed.key, "--delay", "\(delay)", "--periods", "\(periods)",
      "--receipt-bytes", "\(receiptBytes)",
    ]
    if let only { arguments += ["--only", only] }
    child = try Child(bed.bench, arguments, core: Bed.othersCore, waitsForLine: true)
    let numbers = child.firstLine.numbers
    secure = "https://127.0.0.1:\(Int(numbers["tls"] ?? 0))"
    plain = "http://127.0.0.1:\(Int(numbers["plain"] ?? 0))"
    bytes = numbers["bytes"] ?? 0
  }

  /// How many receipts it was asked about.
  func calls() throws -> Double {
    Double(try Child.output(of: "curl", ["-sS", "\(plain)/calls"]).trimmingCharacters(in: .whitespaces)) ?? 0
  }

  func stop() { child.stop() }
}

/// The service, as its users start it, or another server.
final class Service {
  let child: Child
  let origin: String
  let directory: String
  /// From its start until it said that it is ready.
  let readyAfter: Duration

  /// - Parameters:
  ///   - settings: lines of YAML by section.
  ///   - ledger: in place of a new one.
  ///   - database: a URL of PostgreSQL's, in place of a ledger in a file.
  init(
    _ bed: Bed, _ upstream: Upstream, settings: [String: [String]] = [:], ledger: String? = nil,
    database: String? = nil, level: String = "info"
  ) throws {
    directory = "\(bed.directory)/service-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    let port = try Self.freePort()
    origin = "http://127.0.0.1:\(port)"
    let hash = try Child.output(of: "bash", ["-c", "printf %s '\(Bed.serviceKey)' | sha256sum | cut -d' ' -f1"])
      .trimmingCharacters(in: .whitespacesAndNewlines)
    var sections: [String: [String]] = [
      "server": ["port: \(port)"],
      "app_store": [
        "bundle_ids: [\(AnswerTemplate.bundleID)]", "shared_secret: benchmark",
        "production_url: \(upstream.secure)/verifyReceipt", "sandbox_url: \(upstream.secure)/verifyReceipt",
        "ca_file: \(bed.certificate)", "roots: [\(bed.root)]",
      ],
      "catalog": [
        "tiers: [free, pro]", "products: { \(AnswerTemplate.product): { tier: pro } }",
        "features: { questions: { kind: meter, free: 1000000 per month, pro: 1000000 per month } }",
      ],
      "ledger": [database.map { "url: \($0)" } ?? "path: \(ledger ?? "\(directory)/ledger.sqlite")"],
      "profile_store": [
        "url: \(upstream.plain)", "key: sb_secret_benchmark", "columns: { version: subscription_version }",
      ],
      "auth": ["api_keys: [{ name: bench, role: service, sha256: \(hash) }]"],
      "log": ["level: \(level)"],
    ]
    for (section, lines) in settings { sections[section, default: []] += lines }
    let yaml = sections.map { "\($0.key):\n" + $0.value.map { "  \($0)\n" }.joined() }.joined()
    let file = "\(directory)/countersign.yaml"
    try yaml.write(toFile: file, atomically: true, encoding: .utf8)
    (child, readyAfter) = try Self.start(
      bed.countersign, ["serve", "--config", file],
      ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"], port, "/readyz", in: directory)
  }

  /// Another server, which answers `GET /livez` once it listens.
  init(_ bed: Bed, _ upstream: Upstream, program: String) throws {
    directory = "\(bed.directory)/other-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    let port = try Self.freePort()
    origin = "http://127.0.0.1:\(port)"
    let settings = [
      "PORT": "\(port)", "APPLE_URL": "\(upstream.secure)/verifyReceipt", "APPLE_CA": bed.certificate,
      "STORE_URL": upstream.plain, "ROOTS": bed.root, "API_KEY": Bed.serviceKey,
      "RECORD_DB": "\(directory)/record.db",
    ]
    (child, readyAfter) = try Self.start(
      program, [], ProcessInfo.processInfo.environment.merging(settings) { $1 }, port, "/livez", in: directory)
  }

  private static func start(
    _ program: String, _ arguments: [String], _ environment: [String: String], _ port: Int, _ path: String,
    in directory: String
  ) throws -> (child: Child, readyAfter: Duration) {
    let begin = ContinuousClock.now
    let child = try Child(
      program, arguments, core: Bed.serviceCore, environment: environment, log: "\(directory)/log")
    let end = begin.advanced(by: .seconds(20))
    while !isReady(port: port, path) {
      guard child.process.isRunning, .now < end else {
        let log = (try? String(contentsOfFile: "\(directory)/log", encoding: .utf8)) ?? ""
        throw ValidationError("\(program) did not start: \(log.suffix(2000))")
      }
      usleep(1_000)
    }
    return (child, ContinuousClock.now - begin)
  }

  var authorization: String { "Bearer \(Bed.serviceKey)" }

  func get(_ path: String) throws -> String {
    try Child.output(of: "curl", ["-sS", "-m", "20", "-H", "Authorization: \(authorization)", "\(origin)\(path)"])
  }

  /// A counter of /metrics, over all its labels that hold a text.
  func metric(_ name: String, label: String = "") throws -> Double {
    try get("/metrics").split(separator: "\n").filter {
      !$0.hasPrefix("#") && $0.hasPrefix(name) && (label.isEmpty || $0.contains(label))
        && [" ", "{"].contains(String($0.dropFirst(name.count).prefix(1)))
    }.compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }.reduce(0, +)
  }

  func stop() {
    child.stop()
    try? FileManager.default.removeItem(atPath: directory)
  }

  private static func freePort() throws -> Int {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = Self.loopback(port: 0)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let bound = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
      }
    }
    guard bound else { throw ValidationError("no free port") }
    return Int(UInt16(bigEndian: address.sin_port))
  }

  private static func loopback(port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(UInt16(port)).bigEndian
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    return address
  }

  /// One GET on a connection of its own, without a client that takes longer to start than the service.
  private static func isReady(port: Int, _ path: String) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = loopback(port: port)
    let connected = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    guard connected else { return false }
    let request = Array("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
    guard write(descriptor, request, request.count) == request.count else { return false }
    var answer = [UInt8](repeating: 0, count: 64)
    let count = read(descriptor, &answer, answer.count)
    return count > 12 && String(decoding: answer.prefix(12), as: UTF8.self) == "HTTP/1.1 200"
  }
}
