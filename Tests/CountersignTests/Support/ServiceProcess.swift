import Foundation
import HTTPTransport
import TestSupport

@testable import Countersign

/// `countersign serve` as a process of its own, which a test may kill, stop, trace or preload.
final class ServiceProcess: Sendable {
  private let process: ChildProcess
  let client: CurlTransport
  let origin: String
  /// From the start of the program until it listened.
  let readyAfter: Duration

  struct Ending: Sendable {
    /// The exit code, or the signal's number where one ended it.
    var code: Int32
    /// Whether it was killed, and did not end by a fault of its own.
    var wasKilled: Bool
    var log: String

    init(_ ending: ChildProcess.Ending) {
      (code, wasKilled, log) = (ending.code, ending.wasKilled && ending.code == SIGKILL, ending.error)
    }
  }

  /// It ended before it listened.
  struct NotStarted: Error, CustomStringConvertible {
    var ending: Ending
    var description: String { "countersign did not start (\(ending.code)): \(ending.log)" }
  }

  /// Starts the program and waits until it listens.
  ///
  /// - Parameter tool: a program and its arguments to run it under. It must leave the service the process that was
  ///   started, as `strace -D` does: signals go to that process.
  static func start(
    configuration file: URL, environment: [String: String] = [:], under tool: [String] = []
  ) async throws -> ServiceProcess {
    let began = ContinuousClock.now
    var command = tool + [try program("countersign"), "serve", "--config", file.path(percentEncoded: false)]
    let process = try await ChildProcess.start(
      command.removeFirst(), command, environment: Self.environment.merging(environment) { $1 })
    let patience = Self.killLater(process)
    defer { patience.cancel() }
    if let log = await process.error({ port(in: $0) != nil }), let port = port(in: log) {
      return try ServiceProcess(process, port: port, readyAfter: .now - began)
    }
    throw NotStarted(ending: Ending(await process.ending()))
  }

  /// Writes the configuration of a service beside a simulated App Store, in a directory of its own, for `body` to start.
  static func withConfiguration(
    _ settings: Settings = Settings(), logLevel: String = "info",
    body: @Sendable (SimulatedStore, URL) async throws -> Void
  ) async throws {
    let directory = try TemporaryDirectory()
    try await SimulatedStore.run { store in
      let yaml = settings.yaml(apple: store.apple, directory: directory.url)
      let file = try directory.write("countersign.yaml", yaml.replacing("level: trace", with: "level: \(logLevel)"))
      try await body(store, URL(filePath: file))
    }
  }

  /// No start and no end takes as long as two minutes; what hangs is killed, and its test fails.
  private static func killLater(_ process: ChildProcess) -> Task<Void, any Error> {
    Task {
      try await Task.sleep(for: .seconds(120))
      process.signal(SIGKILL)
    }
  }

  private init(_ process: ChildProcess, port: Int, readyAfter: Duration) throws {
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = [.http]
    configuration.maxInFlight = 256
    configuration.maxQueued = 10_000
    self.process = process
    self.readyAfter = readyAfter
    client = try CurlTransport(configuration: configuration)
    origin = "http://127.0.0.1:\(port)"
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

  func signal(_ number: Int32) { process.signal(number) }

  /// As a power cut would for the process: nothing is finished, nothing is flushed.
  func killAtOnce() async {
    signal(SIGKILL)
    await ending()
  }

  /// Waits for the end.
  @discardableResult func ending() async -> Ending {
    let patience = Self.killLater(process)
    defer { patience.cancel() }
    return Ending(await process.ending())
  }

  /// Tells it to stop, and waits until it has.
  @discardableResult func stop() async -> Ending {
    signal(SIGTERM)
    return await ending()
  }

  func validate(_ receipt: String, user: String) async throws(TransportError) -> Answer {
    try await send(.post, "/v1/validations", body: #"{"receipt_data":"\#(receipt)","user_id":"\#(user)"}"#)
  }

  func profile(_ user: String) async throws(TransportError) -> Answer { try await send(.get, "/v1/profiles/\(user)") }

  func send(
    _ method: TransportRequest.Method, _ path: String, body: String = "", key: String = RunningService.serviceKey
  ) async throws(TransportError) -> Answer {
    let response = try await client.send(
      TransportRequest(
        method: method, url: origin + path,
        headers: [
          TransportHeader("Authorization", "Bearer \(key)"),
          TransportHeader("Content-Type", "application/json"),
        ], body: Array(body.utf8), responseBodyLimit: 1 << 20),
      deadline: .now.advanced(by: .seconds(60)))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }
}
