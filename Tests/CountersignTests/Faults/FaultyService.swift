import Foundation
import HTTPTransport

@testable import Countersign

/// `countersign serve` as a process that a test may kill, stop, trace or preload.
final class FaultyService: @unchecked Sendable {
  // `Process` is not Sendable. After the start it is only asked for its end, by the thread that waits for it.
  private let process: Process
  let client: CurlTransport
  let origin: String
  /// From the start of the program until it listened.
  let readyAfter: Duration
  private let end: AsyncStream<Ending>

  struct Ending: Sendable {
    /// The exit code, or the signal's number where one ended it.
    var code: Int32
    var wasKilled: Bool
    var log: String
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
  ) async throws -> FaultyService {
    let began = ContinuousClock.now
    let process = Process()
    let standardError = Pipe()
    var command =
      tool + [try ServiceProcess.program("countersign"), "serve", "--config", file.path(percentEncoded: false)]
    process.executableURL = URL(filePath: command.removeFirst())
    process.arguments = command
    process.environment = ProcessInfo.processInfo.environment
      .filter { !$0.key.hasPrefix("COUNTERSIGN_") }.merging(environment) { $1 }
    process.standardError = standardError
    process.standardOutput = FileHandle.nullDevice
    let (ports, found) = AsyncStream<Int>.makeStream()
    let (end, ended) = AsyncStream<Ending>.makeStream()
    try process.run()
    let reader = Reader(process: process, handle: standardError.fileHandleForReading)
    // Reading blocks, so it has a thread of its own: the pool of tasks has few.
    Thread.detachNewThread {
      let log = reader.readAll { port in found.yield(port) }
      reader.process.waitUntilExit()
      ended.yield(
        Ending(
          code: reader.process.terminationStatus, wasKilled: reader.process.terminationReason == .uncaughtSignal,
          log: log))
      ended.finish()
      found.finish()
    }
    let patience = Self.killLater(process.processIdentifier)
    defer { patience.cancel() }
    for await port in ports {
      return try FaultyService(process, port: port, end: end, readyAfter: .now - began)
    }
    for await ending in end { throw NotStarted(ending: ending) }
    throw NotStarted(ending: Ending(code: -1, wasKilled: true, log: ""))
  }

  /// No start and no end takes as long as a minute; what hangs is killed, and its test fails.
  private static func killLater(_ process: Int32) -> Task<Void, any Error> {
    Task {
      try await Task.sleep(for: .seconds(60))
      kill(process, SIGKILL)
    }
  }

  /// Lends the process to the thread that waits for its end.
  private struct Reader: @unchecked Sendable {
    var process: Process
    var handle: FileHandle

    /// - Returns: all that was logged, once the process has closed its end.
    func readAll(listening: (Int) -> Void) -> String {
      var text = ""
      var isFound = false
      while true {
        let part = handle.availableData
        if part.isEmpty { return text }
        text += String(decoding: part, as: UTF8.self)
        guard !isFound, let port = Self.port(in: text) else { continue }
        isFound = true
        listening(port)
      }
    }

    private static func port(in log: String) -> Int? {
      struct Line: Decodable { var port: Int }
      let line = log.split(separator: "\n").first { $0.contains(#""message":"listening""#) && $0.hasSuffix("}") }
      return line.flatMap { try? JSONDecoder().decode(Line.self, from: Data($0.utf8)) }?.port
    }
  }

  private init(_ process: Process, port: Int, end: AsyncStream<Ending>, readyAfter: Duration) throws {
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = [.http]
    configuration.maxInFlight = 256
    configuration.maxQueued = 10_000
    self.process = process
    self.readyAfter = readyAfter
    self.end = end
    client = try CurlTransport(configuration: configuration)
    origin = "http://127.0.0.1:\(port)"
  }

  deinit {
    client.shutdown()
    if process.isRunning { kill(process.processIdentifier, SIGKILL) }
  }

  var processID: Int32 { process.processIdentifier }

  func signal(_ number: Int32) { kill(process.processIdentifier, number) }

  /// Waits for the end. Call it once.
  @discardableResult func ending() async -> Ending {
    let patience = Self.killLater(processID)
    defer { patience.cancel() }
    for await ending in end { return ending }
    return Ending(code: -1, wasKilled: true, log: "")
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
      deadline: .now.advanced(by: .seconds(30)))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }
}
