/// The body of `POST /v1/trials`.
public struct TrialRequest: Codable, Hashable, Sendable {
  /// A name of `trials`; need not be said where there is one.
  public var trial: String?
  /// A UUID that the app keeps where it outlives the app, in the keychain.
  public var deviceID: String
  public var device: DeviceInformation?
  /// The user; a user's token names its own.
  public var userID: String?
  public var pushToken: String?
  /// From `DCDevice`, in base64.
  public var deviceToken: String?
  /// Another one, as each is for one request to Apple.
  public var secondDeviceToken: String?
  /// The tokens are those of a development build.
  public var isDevelopment: Bool?

  public init(
    trial: String? = nil, deviceID: String, device: DeviceInformation? = nil, userID: String? = nil,
    pushToken: String? = nil, deviceToken: String? = nil, secondDeviceToken: String? = nil,
    isDevelopment: Bool? = nil
  ) {
    self.trial = trial
    self.deviceID = deviceID
    self.device = device
    self.userID = userID
    self.pushToken = pushToken
    self.deviceToken = deviceToken
    self.secondDeviceToken = secondDeviceToken
    self.isDevelopment = isDevelopment
  }

  public enum CodingKeys: String, CodingKey, CaseIterable {
    case trial
    case deviceID = "device_id"
    case device
    case userID = "user_id"
    case pushToken = "push_token"
    case deviceToken = "device_token"
    case secondDeviceToken = "second_device_token"
    case isDevelopment = "development"
  }
}

/// A device as the app describes it. Nothing is decided by it.
public struct DeviceInformation: Codable, Hashable, Sendable {
  public var model: String?
  public var iosVersion: String?
  public var appVersion: String?

  public init(model: String? = nil, iosVersion: String? = nil, appVersion: String? = nil) {
    self.model = model
    self.iosVersion = iosVersion
    self.appVersion = appVersion
  }

  public enum CodingKeys: String, CodingKey, CaseIterable {
    case model
    case iosVersion = "ios_version"
    case appVersion = "app_version"
  }
}

/// The body of `POST /v1/trials/{device_id}/sessions`, which may be left out, and of `PUT /v1/devices/{device_id}`.
public struct DeviceRequest: Codable, Hashable, Sendable {
  public var device: DeviceInformation?
  public var pushToken: String?
  /// From `DCDevice`, in base64: with it Apple is told what could not be told at the start.
  public var deviceToken: String?
  /// Another one, as each is for one request to Apple.
  public var secondDeviceToken: String?
  /// The tokens are those of a development build.
  public var isDevelopment: Bool?

  public init(
    device: DeviceInformation? = nil, pushToken: String? = nil, deviceToken: String? = nil,
    secondDeviceToken: String? = nil, isDevelopment: Bool? = nil
  ) {
    self.device = device
    self.pushToken = pushToken
    self.deviceToken = deviceToken
    self.secondDeviceToken = secondDeviceToken
    self.isDevelopment = isDevelopment
  }

  public enum CodingKeys: String, CodingKey, CaseIterable {
    case device
    case pushToken = "push_token"
    case deviceToken = "device_token"
    case secondDeviceToken = "second_device_token"
    case isDevelopment = "development"
  }
}

/// A trial of the app's own.
public struct TrialResponse: Codable, Hashable, Sendable {
  public var trial: String
  public var userID: String
  /// The device on which it began, in small letters.
  public var deviceID: String
  public var tier: String
  public var startedAt: Date
  /// The first moment that is no longer part of it; where it ended early, that moment.
  public var expiresAt: Date
  /// `nil`: only its time ends it.
  @Nullable public var sessionsTotal: Int?
  public var sessionsUsed: Int
  @Nullable public var sessionsRemaining: Int?
  public var state: State

  public init(
    trial: String, userID: String, deviceID: String, tier: String, startedAt: Date, expiresAt: Date,
    sessionsTotal: Int?, sessionsUsed: Int, sessionsRemaining: Int?, state: State
  ) {
    self.trial = trial
    self.userID = userID
    self.deviceID = deviceID
    self.tier = tier
    self.startedAt = startedAt
    self.expiresAt = expiresAt
    self.sessionsTotal = sessionsTotal
    self.sessionsUsed = sessionsUsed
    self.sessionsRemaining = sessionsRemaining
    self.state = state
  }

  enum CodingKeys: String, CodingKey {
    case trial
    case userID = "user_id"
    case deviceID = "device_id"
    case tier
    case startedAt = "started_at"
    case expiresAt = "expires_at"
    case sessionsTotal = "sessions_total"
    case sessionsUsed = "sessions_used"
    case sessionsRemaining = "sessions_remaining"
    case state
  }

  /// The state of a trial.
  public struct State: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    public static let running: Self = "running"
    /// Its sessions were used.
    public static let usedUp: Self = "used_up"
    public static let over: Self = "over"
    /// The user has bought access since.
    public static let converted: Self = "converted"
  }
}

/// The answer of `GET /v1/profiles/{user_id}/trials`, the newest first.
public struct TrialsResponse: Codable, Hashable, Sendable {
  public var trials: [TrialResponse]

  public init(trials: [TrialResponse]) { self.trials = trials }
}

/// The answer of `PUT /v1/devices/{device_id}`.
public struct DeviceResponse: Codable, Hashable, Sendable {
  public var deviceID: String
  /// The trial that the device shares.
  @Nullable public var trial: TrialResponse?

  public init(deviceID: String, trial: TrialResponse? = nil) {
    self.deviceID = deviceID
    self.trial = trial
  }

  enum CodingKeys: String, CodingKey {
    case deviceID = "device_id"
    case trial
  }
}
