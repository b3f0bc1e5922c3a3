import FoundationEssentials
import Glibc
import Logging

/// Writes each event as one line.
struct LineLogHandler: LogHandler {
  let label: String
  var logLevel: Logger.Level
  let format: ServiceConfiguration.Log.Format
  let output: LogOutput
  var metadata: Logger.Metadata = [:]
  var metadataProvider: Logger.MetadataProvider?

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    // The event's own come first, then the provider's: they are the larger part, and what is known already is kept.
    var fields = event.metadata ?? [:]
    if let provided = metadataProvider?.get() { fields.merge(provided) { own, _ in own } }
    fields.merge(metadata) { own, _ in own }
    let line = LogLine(time: .now, level: event.level, label: label, message: event.message.description, fields: fields)
    output.write(format == .json ? line.json : line.text, isUrgent: event.level >= .warning)
  }
}

extension ServiceConfiguration.Log {
  /// Configures every logger of the process. Call it once, before anything else.
  func bootstrap() {
    atexit { LogOutput.standardError.flush() }
    LoggingSystem.bootstrap { LineLogHandler(label: $0, logLevel: level, format: format, output: .standardError) }
  }
}
