import Logging

extension ServiceConfiguration.Log {
  /// Configures every logger of the process. Call it once, before anything else.
  func bootstrap() {
    let level = Logger.Level(rawValue: level.rawValue) ?? .info
    switch format {
    case .json: LoggingSystem.bootstrap { JSONLogHandler(label: $0, level: level, output: .standardError) }
    case .text: LoggingSystem.bootstrap { _ in TextLogHandler(level: level, output: .standardError) }
    }
  }
}
