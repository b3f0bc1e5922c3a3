/// Environment variables of commands. `serve` does not read them, so they are not keys of the configuration.
enum CommandVariable {
  /// The URL of the running service.
  static let url = "COUNTERSIGN_URL"
  /// The API key for the running service.
  static let apiKey = "COUNTERSIGN_API_KEY"
}
