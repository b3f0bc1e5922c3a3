/// The body of `POST /v1/trials`.
public struct TrialRequest: Codable, Hashable, Sendable {
  /// A name of `trials`; optional if there is only one.
  public var trial: String?
  /// A UUID that the app keeps in the keychain, where it outlives the app.
  public var deviceID: String
  public var device: DeviceInformation?
  /// The user; a user's token names its own, and with the public key of an app the device is the user.
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

/// The body of `PATCH /v1/trials/{device_id}`. Omitted members stay unchanged.
public struct TrialAmendmentRequest: Codable, Hashable, Sendable {
  /// The first moment that is no longer part of it (RFC 3339, with a zone).
  public var expiresAt: String?
  /// The number of sessions; the number already used ends the trial now.
  public var sessionsTotal: Int?
  /// Why, for readers of the history; at most 1,000 characters. Support has to say it.
  public var note: String?

  public init(expiresAt: String? = nil, sessionsTotal: Int? = nil, note: String? = nil) {
    self.expiresAt = expiresAt
    self.sessionsTotal = sessionsTotal
    self.note = note
  }

  public enum CodingKeys: String, CodingKey, CaseIterable {
    case expiresAt = "expires_at"
    case sessionsTotal = "sessions_total"
    case note
  }
}

/// The body of `POST /v1/trials/import`.
public struct TrialImportRequest: Codable, Hashable, Sendable {
  public var trials: [ImportedTrial]

  public init(trials: [ImportedTrial]) { self.trials = trials }

  public enum CodingKeys: String, CodingKey, CaseIterable { case trials }
}

/// A running trial of a former system.
public struct ImportedTrial: Codable, Hashable, Sendable {
  /// A name of `trials`; optional if there is only one.
  public var trial: String?
  /// `nil`: the device is the user.
  public var userID: String?
  public var deviceID: String
  /// In RFC 3339, with a zone; so is `expiresAt`.
  public var startedAt: String
  public var expiresAt: String
  public var sessionsUsed: Int?

  public init(
    trial: String? = nil, userID: String? = nil, deviceID: String, startedAt: String, expiresAt: String,
    sessionsUsed: Int? = nil
  ) {
    self.trial = trial
    self.userID = userID
    self.deviceID = deviceID
    self.startedAt = startedAt
    self.expiresAt = expiresAt
    self.sessionsUsed = sessionsUsed
  }

  public enum CodingKeys: String, CodingKey, CaseIterable {
    case trial
    case userID = "user_id"
    case deviceID = "device_id"
    case startedAt = "started_at"
    case expiresAt = "expires_at"
    case sessionsUsed = "sessions_used"
  }
}

/// The answer of `POST /v1/trials/import`, in the order of the request.
public struct TrialImportResponse: Codable, Hashable, Sendable {
  public var trials: [Outcome]

  public init(trials: [Outcome]) { self.trials = trials }

  /// The outcome of one trial.
  public struct Outcome: Codable, Hashable, Sendable {
    /// The device's ID as it was posted.
    public var deviceID: String
    public var outcome: Word
    /// The code of the problem of a refused one.
    @Nullable public var code: String?
    @Nullable public var detail: String?
    /// The trial as it is kept; `nil` for a refused one.
    @Nullable public var trial: TrialResponse?

    public init(
      deviceID: String, outcome: Word, code: String? = nil, detail: String? = nil, trial: TrialResponse? = nil
    ) {
      self.deviceID = deviceID
      self.outcome = outcome
      _code = Nullable(wrappedValue: code)
      _detail = Nullable(wrappedValue: detail)
      _trial = Nullable(wrappedValue: trial)
    }

    enum CodingKeys: String, CodingKey {
      case deviceID = "device_id"
      case outcome, code, detail, trial
    }
  }

  public struct Word: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    public static let imported: Self = "imported"
    /// The user has this trial or another one already: nothing was changed.
    public static let known: Self = "known"
    public static let refused: Self = "refused"
  }
}

/// The app's description of a device, which has no effect.
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
  /// From `DCDevice`, in base64: sets the bits at Apple that could not be set at the start.
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
  /// `nil` without a limit of sessions.
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

/// The answer of `GET /v1/trials`, in the order in which they were recorded.
public struct TrialPageResponse: Codable, Hashable, Sendable {
  public var trials: [TrialResponse]
  /// `after` of the next page; `nil` on the last one.
  @Nullable public var next: String?

  public init(trials: [TrialResponse], next: String?) {
    self.trials = trials
    _next = Nullable(wrappedValue: next)
  }

  enum CodingKeys: String, CodingKey { case trials, next }
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
