/// One sentence about one place of the configuration. It never holds a secret's value.
struct ConfigurationFinding: Hashable, Sendable, CustomStringConvertible {
  /// The key and where it came from: `server.port in countersign.yaml line 3`, `COUNTERSIGN_SERVER_PORT`.
  let origin: String
  let sentence: String

  var description: String { "\(origin): \(sentence)" }
}

/// The service cannot start as configured: everything that was found wrong, not only the first.
struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
  let problems: [ConfigurationFinding]

  var description: String { problems.map(\.description).joined(separator: "\n") }
}

/// Collects what is wrong while reading goes on.
struct ConfigurationFindings {
  /// A file full of nonsense is not worth more lines than these.
  static let limit = 50

  private(set) var problems: [ConfigurationFinding] = []
  private(set) var warnings: [ConfigurationFinding] = []

  /// - Parameter sentence: is not evaluated once there are too many.
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
