import Foundation
import HTTPTransport
import TestSupport

@testable import Countersign

/// `countersign serve` as a process of its own, which can be killed.
final class ServiceProcess: Sendable {
  private let process: ChildProcess
  let client: CurlTransport
  let origin: String

  /// Starts the program and waits until it listens.
  static func start(configuration file: URL, environment: [String: String] = [:]) async throws -> ServiceProcess {
    let process = try await ChildProcess.start(
      program("countersign"), ["serve", "--config", file.path(percentEncoded: false)],
      environment: Self.environment.merging(environment) { $1 })
    if let log = await process.error({ port(in: $0) != nil }), let port = port(in: log) {
      return try ServiceProcess(process, port: port)
    }
    throw RunningService.Failure("countersign did not start: \(await process.ending().error)")
  }

  /// Writes the configuration of a service beside a simulated App Store, in a directory of its own, for `body` to start.
  static func withConfiguration(
    _ settings: Settings = Settings(), logLevel: String = "info",
    body: @Sendable (SimulatedStore, URL) async throws -> Void
  ) async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "countersign-\(UUID())")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    try await SimulatedStore.run { store in
      let file = directory.appending(path: "countersign.yaml")
      try settings.yaml(apple: store.apple, directory: directory)
        .replacing("level: trace", with: "level: \(logLevel)").write(to: file, atomically: true, encoding: .utf8)
      try await body(store, file)
    }
  }

  private init(_ process: ChildProcess, port: Int) throws {
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = [.http]
    configuration.maxInFlight = 200
    configuration.maxQueued = 10_000
    self.process = process
    self.client = try CurlTransport(configuration: configuration)
    self.origin = "http://127.0.0.1:\(port)"
  }

  deinit { client.shutdown() }

  var processID: Int32 { process.processID }

  /// The environment of the tests, without settings of a service.
  static var environment: [String: String] {
    ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("COUNTERSIGN_") }
  }

  /// A program of this package, where the tests were built.
  static func program(_ name: String) throws -> String {
    let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    return URL(filePath: tests).deletingLastPathComponent().appending(path: name).path(percentEncoded: false)
  }

  /// The port in the log of a service that listens.
  static func port(in log: String) -> Int? {
    struct Line: Decodable { var port: Int }
    let line = log.split(separator: "\n").first { $0.contains(#""message":"listening""#) && $0.hasSuffix("}") }
    return line.flatMap { try? JSONDecoder().decode(Line.self, from: Data($0.utf8)) }?.port
  }

  /// As a power cut would for the process: nothing is finished, nothing is flushed.
  func killAtOnce() async {
    process.signal(SIGKILL)
    await process.ending()
  }

  func terminate() { process.signal(SIGTERM) }
  func hangUp() { process.signal(SIGHUP) }

  /// Waits for the end; returns the exit code and what was logged.
  @discardableResult func wait() async -> (code: Int32, log: String) {
    let ending = await process.ending()
    return (ending.code, ending.error)
  }

  func validate(_ receipt: String, user: String) async throws -> Answer {
    let body = try JSONSerialization.data(withJSONObject: ["receipt_data": receipt, "user_id": user])
    return try await send(.post, "/v1/validations", body: Array(body))
  }

  func profile(_ user: String) async throws -> Answer { try await send(.get, "/v1/profiles/\(user)") }

  func send(
    _ method: TransportRequest.Method, _ path: String, body: [UInt8] = [], key: String = RunningService.serviceKey
  ) async throws -> Answer {
    let response = try await client.send(
      TransportRequest(
        method: method, url: origin + path,
        headers: [
          TransportHeader("Authorization", "Bearer \(key)"),
          TransportHeader("Content-Type", "application/json"),
        ], body: body, responseBodyLimit: 1 << 20),
      deadline: .now.advanced(by: .seconds(60)))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }
}
