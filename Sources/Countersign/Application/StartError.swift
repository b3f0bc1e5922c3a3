/// Why the service cannot be put together: one sentence for an operator.
struct StartError: Error, CustomStringConvertible {
  var description: String
  /// To start again is of no use before somebody has mended the configuration.
  var isConfiguration = false
}
