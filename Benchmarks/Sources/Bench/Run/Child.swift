import ArgumentParser
import Foundation

/// A process that was started here, held to one core, and is ended by its ID.
final class Child {
  let process = Process()
  private let output = Pipe()
  private(set) var firstLine = ""

  /// - Parameters:
  ///   - core: the only core it may use.
  ///   - waitsForLine: whether to wait for its first line of output.
  ///   - environment: in place of ours, where given.
  init(
    _ program: String, _ arguments: [String], core: Int?, environment: [String: String]? = nil,
    log: String? = nil, waitsForLine: Bool = false
  ) throws {
    let pinned = core.map { ["taskset", "-c", "\($0)", program] } ?? [program]
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = pinned + arguments
    if let environment { process.environment = environment }
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = waitsForLine ? output : FileHandle.nullDevice
    if let log {
      _ = FileManager.default.createFile(atPath: log, contents: nil)
      process.standardError = FileHandle(forWritingAtPath: log)
    }
    try process.run()
    guard waitsForLine else { return }
    var line = Data()
    while line.last != UInt8(ascii: "\n") {
      let part = output.fileHandleForReading.availableData
      if part.isEmpty { throw ValidationError("\(program) ended before it said where it listens") }
      line += part
    }
    firstLine = String(decoding: line, as: UTF8.self)
  }

  /// env and taskset become the program itself, so that this is its ID.
  var id: Int32 { process.processIdentifier }

  /// User and kernel time of all its threads, those included that have ended.
  var cpu: Duration {
    guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
      let end = text.lastIndex(of: ")")
    else { return .zero }
    let fields = text[text.index(after: end)...].split(separator: " ")
    guard fields.count > 12, let user = Int(fields[11]), let system = Int(fields[12]) else { return .zero }
    return .milliseconds((user + system) * 1000 / sysconf(Int32(_SC_CLK_TCK)))
  }

  /// Resident memory in MB; `VmHWM` is the peak.
  func memory(_ field: String = "VmRSS") -> Double {
    guard let text = try? String(contentsOfFile: "/proc/\(id)/status", encoding: .utf8) else { return 0 }
    for line in text.split(separator: "\n") where line.hasPrefix("\(field):") {
      let parts = line.split(whereSeparator: { $0 == " " || $0 == "\t" })
      return parts.count > 1 ? (Double(parts[1]) ?? 0) / 1024 : 0
    }
    return 0
  }

  /// The peak begins anew.
  func resetPeak() { try? "5".write(toFile: "/proc/\(id)/clear_refs", atomically: false, encoding: .utf8) }

  func stop() {
    guard process.isRunning else { return }
    process.terminate()
    let end = Date() + 25
    while process.isRunning, Date() < end { usleep(5_000) }
    if process.isRunning { kill(id, SIGKILL) }
    process.waitUntilExit()
  }

  deinit { stop() }

  /// Runs a program to its end and returns what it printed.
  static func output(of program: String, _ arguments: [String], core: Int? = nil) throws -> String {
    try begin(program, arguments, core: core)()
  }

  /// Starts a program that prints little.
  ///
  /// - Returns: waits for its end and returns what it printed.
  static func begin(_ program: String, _ arguments: [String], core: Int? = nil) throws -> () throws -> String {
    let process = Process()
    let pipe = Pipe()
    let pinned = core.map { ["taskset", "-c", "\($0)", program] } ?? [program]
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = pinned + arguments
    process.standardOutput = pipe
    process.standardInput = FileHandle.nullDevice
    try process.run()
    return {
      let data = pipe.fileHandleForReading.readDataToEndOfFile()
      process.waitUntilExit()
      guard process.terminationStatus == 0 else {
        throw ValidationError("\(program) \(arguments.first ?? "") ended with \(process.terminationStatus)")
      }
      return String(decoding: data, as: UTF8.self)
    }
  }
}

extension String {
  /// The numbers of a JSON object; its other members are left out.
  var numbers: [String: Double] {
    let object = (try? JSONSerialization.jsonObject(with: Data(utf8))) as? [String: Any] ?? [:]
    return object.compactMapValues { ($0 as? NSNumber)?.doubleValue }
  }
}
