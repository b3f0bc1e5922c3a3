import Foundation
import HTTPTransport

@testable import Countersign

/// `countersign serve` as a process of its own, which can be killed.
final class ServiceProcess: @unchecked Sendable {
  // `Process` is not Sendable; each test drives its own from one task at a time.
  private let process: Process
  let client: CurlTransport
  let origin: String
  private let end: AsyncStream<(code: Int32, log: String)>

  /// Starts the program and waits until it listens.
  static func start(configuration file: URL, environment: [String: String] = [:]) async throws -> ServiceProcess {
    let process = Process()
    let standardError = Pipe()
    process.executableURL = URL(filePath: try program("countersign"))
    process.arguments = ["serve", "--config", file.path(percentEncoded: false)]
    process.environment = ProcessInfo.processInfo.environment
      .filter { !$0.key.hasPrefix("COUNTERSIGN_") }.merging(environment) { $1 }
    process.standardError = standardError
    process.standardOutput = FileHandle.nullDevice
    let (ports, found) = AsyncStream<Int>.makeStream()
    let (end, ended) = AsyncStream<(code: Int32, log: String)>.makeStream()
    try process.run()
    // Reading blocks, so it has a thread of its own: the pool of tasks has few.
    let handle = standardError.fileHandleForReading
    let running = Running(process: process)
    Thread.detachNewThread {
      var text = ""
      while true {
        let part = handle.availableData
        if part.isEmpty { break }
        text += String(decoding: part, as: UTF8.self)
        if let port = Self.port(in: text) { found.yield(port) }
      }
      running.process.waitUntilExit()
      ended.yield((running.process.terminationStatus, text))
      ended.finish()
      found.finish()
    }
    for await port in ports { return try ServiceProcess(process, port: port, end: end) }
    for await (_, log) in end { throw RunningService.Failure("countersign did not start: \(log)") }
    throw RunningService.Failure("countersign did not start")
  }

  /// Lends the process to the thread that waits for its end.
  private struct Running: @unchecked Sendable {
    var process: Process
  }

  private init(_ process: Process, port: Int, end: AsyncStream<(code: Int32, log: String)>) throws {
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = [.http]
    configuration.maxInFlight = 200
    configuration.maxQueued = 10_000
    self.process = process
    self.client = try CurlTransport(configuration: configuration)
    self.origin = "http://127.0.0.1:\(port)"
    self.end = end
  }

  deinit { client.shutdown() }

  var processID: Int32 { process.processIdentifier }

  /// A program of this package, where the tests were built.
  static func program(_ name: String) throws -> String {
    let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    return URL(filePath: tests).deletingLastPathComponent().appending(path: name).path(percentEncoded: false)
  }

  private static func port(in log: String) -> Int? {
    for line in log.split(separator: "\n") where line.contains(#""message":"listening""#) {
      struct Line: Decodable { var port: Int }
      return (try? JSONDecoder().decode(Line.self, from: Data(line.utf8)))?.port
    }
    return nil
  }

  /// As a power cut would for the process: nothing is finished, nothing is flushed.
  func killAtOnce() async {
    kill(process.processIdentifier, SIGKILL)
    await wait()
  }

  func terminate() { process.terminate() }
  func hangUp() { kill(process.processIdentifier, SIGHUP) }

  /// Waits for the end; returns the exit code and what was logged. Call it once.
  @discardableResult func wait() async -> (code: Int32, log: String) {
    for await end in end { return end }
    return (-1, "")
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
