import Logging

/// One sentence about one entry of the configuration. It never contains a secret's value.
struct ConfigurationFinding: Hashable, Sendable, CustomStringConvertible {
  /// The key and its source: `server.port in countersign.yaml line 3`, `COUNTERSIGN_SERVER_PORT`.
  let origin: String
  let sentence: String

  var description: String { "\(origin): \(sentence)" }

  func log(_ logger: Logger) {
    logger.warning("the configuration has a finding", metadata: ["key": "\(origin)", "finding": "\(sentence)"])
  }
}

/// The configuration is invalid: every problem that was found, not only the first.
struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
  let problems: [ConfigurationFinding]

  var description: String { problems.map(\.description).joined(separator: "\n") }
}

/// The problems found so far while reading.
struct ConfigurationFindings {
  /// The most problems reported for one file.
  static let limit = 50

  private(set) var problems: [ConfigurationFinding] = []
  private(set) var warnings: [ConfigurationFinding] = []

  /// - Parameter sentence: not evaluated beyond the limit.
  mutating func problem(_ origin: String, _ sentence: @autoclosure () -> String) {
    guard problems.count <= Self.limit else { return }
    guard problems.count < Self.limit else {
      problems.append(ConfigurationFinding(origin: "configuration", sentence: "there are more problems than these"))
      return
    }
    problems.append(ConfigurationFinding(origin: origin, sentence: sentence()))
  }

  mutating func warning(_ origin: String, _ sentence: String) {
    warnings.append(ConfigurationFinding(origin: origin, sentence: sentence))
  }
}
