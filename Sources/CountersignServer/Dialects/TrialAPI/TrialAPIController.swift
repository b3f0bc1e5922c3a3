import Access
import CountersignAPI
import Entitlements
import Hummingbird
import Ledger
import Resilience
import Validation

import struct FoundationEssentials.Date

/// `/api/trial/…`: trials as an app knows them that keeps their state in the keychain and has it verified. The user is
/// the token's, or with the public key of an app the device, and the clock is ours.
struct TrialAPIController: DialectController {
  /// Calls of one user, of all three routes together; with a public key, of one device at one address.
  static let callsPerMinute = 10

  private let trials: TrialsController
  private let budgets: BodyBudgets
  private let body = JSONRequestBody(limit: BodyBudgets.trialLimit)
  private let calls = RateLimiter(rate: callsPerMinute, per: .seconds(60))
  private let now: @Sendable () -> Date

  init(_ common: DialectParts) {
    trials = common.trials
    budgets = common.budgets
    now = common.now
  }

  func addRoutes(to routes: Routes, authenticated: Routes) {
    authenticated.serve("/api/trial/verify", [.post: verify])
    authenticated.serve("/api/trial/start", [.post: start])
    authenticated.serve("/api/trial/session", [.post: useSession])
  }

  let errors = SuccessError.errors(at: "/api/trial")

  /// Tells of the user's trial, on any device of theirs. Of what the app says only a higher number of sessions counts.
  private func verify(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (user, device, posted) = try await posted(request, context)
    let sessions = posted.trialData?.sessionsUsed
    guard sessions.map((0...TrialTerms.mostSessions).contains) ?? true else {
      throw Problem(
        .malformedRequest,
        "'trial_data.sessions_used' has to be a whole number from 0 to \(TrialTerms.mostSessions).")
    }
    let record = try await context.reading(
      await trials.trials.verify(
        of: user, on: device, sessionsUsed: sessions, requestID: context.requestID, logger: context.logger))
    return JSONBody.uncached(
      TrialAPIVerification(
        valid: record.map { now() < $0.endsAt } ?? false, trialState: record.map(TrialAPIVerification.State.init)),
      keys: .convertToSnakeCase)
  }

  private func start(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (user, device, posted) = try await posted(request, context)
    let (record, _) = try await trials.begin(
      try trials.terms(posted.trial), for: user, on: device, tokens: try posted.tokens(), context)
    return JSONBody.uncached(TrialAPIStart(trial: TrialAPIStart.Trial(record)), keys: .convertToSnakeCase)
  }

  private func useSession(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let (user, device, posted) = try await posted(request, context)
    guard posted.action == nil || posted.action == "use" else {
      throw Problem(.malformedRequest, "'action' has to be 'use'.")
    }
    let record = try await trials.countSession(
      of: user, on: device.id, idempotencyKey: try request.headers.idempotencyKey(),
      tokens: try posted.tokens(), context)
    return JSONBody.uncached(TrialAPISession(sessionsRemaining: record.sessionsRemaining), keys: .convertToSnakeCase)
  }

  /// The user, who has not asked too often, the device, and the body.
  private func posted(
    _ request: Request, _ context: ServiceRequestContext
  ) async throws -> (user: UserID, device: Device, posted: TrialAPIRequest) {
    let caller = try context.requireUserOrAppOr()
    // A user is known before the body is read; a device is named in it.
    if case .user(let user) = caller { try admit(user.rawValue) }
    let posted = try await body.decode(
      TrialAPIRequest.self, from: request, budgets.access(by: caller, at: context.clientAddress)
    ).value
    let device = try trials.device(
      try DeviceID(checking: posted.deviceID), by: caller, posted.deviceInformation, named: "device_info",
      pushToken: posted.pushToken)
    let user = try trials.user(on: device.id, by: caller, context)
    // Anybody can name a device, and takes nothing from what it may ask elsewhere.
    if case .app = caller { try admit("\(context.clientAddress?.client ?? "") \(user.rawValue)") }
    return (user, device, posted)
  }

  private func admit(_ user: String) throws(Problem) {
    guard let seconds = calls.admit(user) else { return }
    throw Problem(
      .rateLimited, "A user may ask \(Self.callsPerMinute) times a minute; wait and try again.", retryAfter: seconds)
  }
}

/// The body of all three routes.
struct TrialAPIRequest: Decodable {
  /// The app's own record of its trial.
  struct TrialData: Decodable {
    var sessionsUsed: Int?

    enum CodingKeys: String, CodingKey {
      case sessionsUsed = "sessions_used"
    }
  }

  var deviceID: String
  var trialData: TrialData?
  var deviceInformation: DeviceInformation?
  var action: String?
  /// A name of `trials`; need not be said where there is one.
  var trial: String?
  var pushToken: String?
  var deviceToken: String?
  var secondDeviceToken: String?
  var isDevelopment: Bool?

  enum CodingKeys: String, CodingKey {
    case deviceID = "device_id"
    case trialData = "trial_data"
    case deviceInformation = "device_info"
    case action, trial
    case pushToken = "push_token"
    case deviceToken = "device_token"
    case secondDeviceToken = "second_device_token"
    case isDevelopment = "development"
  }

  func tokens() throws(Problem) -> Trials.DeviceTokens? {
    try TrialsController.tokens(deviceToken, secondDeviceToken, isDevelopment)
  }
}

/// The answer of `verify`.
struct TrialAPIVerification: Encodable {
  struct State: Codable, Hashable, Sendable {
    var startedAt: Date
    var expiresAt: Date
    var sessionsUsed: Int
    @Nullable var sessionsRemaining: Int?

    init(_ record: TrialRecord) {
      startedAt = record.startedAt
      expiresAt = record.endsAt
      sessionsUsed = record.sessionsUsed
      sessionsRemaining = record.sessionsRemaining
    }
  }

  /// Whether the trial is running.
  var valid: Bool
  /// `nil` for a user without a trial.
  @Nullable var trialState: State?
}

/// The answer of `start`, also of a repeated one.
struct TrialAPIStart: Encodable {
  struct Trial: Encodable {
    var startedAt: Date
    var expiresAt: Date
    /// `nil`: only its time ends it.
    @Nullable var sessionsTotal: Int?

    init(_ record: TrialRecord) {
      startedAt = record.startedAt
      expiresAt = record.endsAt
      sessionsTotal = record.sessionsTotal
    }
  }

  let success = true
  var trial: Trial
}

/// The answer of `session`.
struct TrialAPISession: Encodable {
  let success = true
  @Nullable var sessionsRemaining: Int?
}
