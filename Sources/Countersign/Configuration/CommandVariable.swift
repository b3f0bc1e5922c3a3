/// Variables that commands read and `serve` does not: they are no keys of the configuration.
enum CommandVariable {
  /// Where the running service is.
  static let url = "COUNTERSIGN_URL"
  /// With which key it is called.
  static let apiKey = "COUNTERSIGN_API_KEY"
}
