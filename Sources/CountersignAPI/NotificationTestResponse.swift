/// The answer to `POST /v1/notifications/test`: how Apple's tests fared.
public struct NotificationTestResponse: Codable, Hashable, Sendable {
  /// The test of one app in one store.
  public struct Test: Codable, Hashable, Sendable {
    public var bundleID: String
    /// `production` or `sandbox`.
    public var environment: String
    /// `arrived`, `failed`, `no_url`, `key_rejected`, `unavailable` or `pending`.
    public var outcome: String
    /// Apple's word for the cause of a failure.
    @Nullable public var cause: String?

    public init(bundleID: String, environment: String, outcome: String, cause: String? = nil) {
      self.bundleID = bundleID
      self.environment = environment
      self.outcome = outcome
      self.cause = cause
    }

    enum CodingKeys: String, CodingKey {
      case bundleID = "bundle_id"
      case environment, outcome, cause
    }
  }

  /// Empty without a key of the Server API.
  public var tests: [Test]

  public init(tests: [Test]) { self.tests = tests }
}
