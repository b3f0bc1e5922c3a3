/// The reason why the service cannot start: one sentence for an operator.
struct StartError: Error, CustomStringConvertible {
  var description: String
  /// Whether the configuration has to be mended before another start.
  var isConfiguration = false
}
