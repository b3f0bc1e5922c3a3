import Logging

extension ServiceConfiguration.Log {
  /// Makes every logger of the process write as configured. Call it once, first thing.
  func bootstrap() {
    let level = Logger.Level(rawValue: level.rawValue) ?? .info
    switch format {
    case .json: LoggingSystem.bootstrap { JSONLogHandler(label: $0, level: level, output: .standardError) }
    case .text: LoggingSystem.bootstrap { _ in TextLogHandler(level: level, output: .standardError) }
    }
  }
}
