import Access
import AppStore
import CountersignAPI
import Entitlements
import Hummingbird
import Ledger
import Validation

import struct FoundationEssentials.Date
import struct FoundationEssentials.UUID

/// `/v1/trials` and `/v1/devices`: trials of the app's own, and the devices that share them.
///
/// Who calls with the public key of an app is the device that the request names.
struct TrialsController: Controller {
  var trials: Trials
  var body = JSONRequestBody(limit: BodyBudgets.trialLimit)
  var operatorBody = JSONRequestBody(limit: BodyBudgets.supportLimit)
  var budgets: BodyBudgets
  var limits: RequestLimits
  /// Requests to begin a trial, by trial and outcome.
  var starts: LabelledCounter
  var now: @Sendable () -> Date

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/profiles/{user_id}/trials", [.get: list])
    routes.serve("/v1/trials", [.get: page, .post: start])
    routes.serve("/v1/trials/import", [.post: importTrials])
    routes.serve("/v1/trials/{device_id}", [.get: trial, .patch: amend])
    routes.serve("/v1/trials/{device_id}/sessions", [.post: useSession])
    routes.serve("/v1/devices/{device_id}", [.put: register])
  }

  func start(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireUserOrAppOr(.service)
    let posted = try await body.decode(TrialRequest.self, from: request, loan(for: context)).value
    let id = try DeviceID(checking: posted.deviceID)
    let device = try device(id, by: caller, posted.device, pushToken: posted.pushToken)
    var author = "the app"
    let user: UserID
    if case .server(let server) = caller {
      (user, author) = (try UserID(required: posted.userID, as: "the trial's user"), server.name)
    } else {
      user = try self.user(on: device.id, by: caller, naming: posted.userID, context)
    }
    let terms = try terms(posted.trial)
    let tokens = try Self.tokens(posted.deviceToken, posted.secondDeviceToken, posted.isDevelopment)
    let (record, isNew) = try await begin(terms, for: user, on: device, tokens: tokens, author: author, context)
    return await respond(record, to: caller, on: device.id, status: isNew ? .created : .ok)
  }

  /// The user of a request without a server's key: the token's, or the device itself. Requests by a public key are counted.
  ///
  /// - Parameter name: the user whom the request names, if any; a token names its own.
  func user(
    on device: DeviceID, by caller: Caller, naming name: String? = nil, _ context: ServiceRequestContext
  ) throws(Problem) -> UserID {
    switch caller {
    case .user(let own): return own
    case .app:
      guard name == nil else {
        throw Problem(
          .forbidden, "A public key has the trial of the device: leave 'user_id' out, or send the user's token.")
      }
      try limits.admit(namedByApp: device.user, context)
      return device.user
    case .server: throw Problem(.forbidden, "Only a user's token or an app's public key may do this.")
    }
  }

  /// A device as a caller describes it.
  ///
  /// - Parameter member: the member that the description came as.
  /// - Throws: a 400 problem.
  func device(
    _ id: DeviceID, by caller: Caller, _ information: DeviceInformation?, named member: String = "device",
    pushToken: String?
  ) throws(Problem) -> Device {
    for (name, text) in [
      ("model", information?.model), ("ios_version", information?.iosVersion), ("app_version", information?.appVersion),
    ] {
      guard let text else { continue }
      guard (1...Self.longestWord).contains(text.utf8.count), text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else {
        throw Problem(.malformedRequest, "'\(member).\(name)' has to be 1 to \(Self.longestWord) bytes of plain text.")
      }
    }
    return Device(
      id: id, app: caller.app ?? trials.settings.soleApp, model: information?.model,
      iosVersion: information?.iosVersion, appVersion: information?.appVersion,
      pushToken: try Self.checked(pushToken: pushToken))
  }

  /// Counts a device that is not known yet for its address.
  private func admit(_ device: Device, of user: UserID, _ context: ServiceRequestContext) async throws(Problem) {
    let isKnown = try await context.reading(await trials.knows(device.id, of: user))
    guard !isKnown, let caller = context.caller else { return }
    try limits.admitNewcomer(by: caller, from: context.clientAddress)
  }

  /// Begins a trial, or finds the one that the user has.
  ///
  /// - Parameter keepsDevice: whether the app named the device.
  /// - Throws: a problem where there is none.
  func begin(
    _ terms: TrialTerms, for user: UserID, on device: Device, keepsDevice: Bool = true, tokens: Trials.DeviceTokens?,
    author: String = "the app", _ context: ServiceRequestContext
  ) async throws(Problem) -> (record: TrialRecord, isNew: Bool) {
    try await admit(device, of: user, context)
    let outcome: StartTrial.Outcome
    do throws(Trials.StartError) {
      outcome = try await trials.start(
        terms, for: user, on: device, keepsDevice: keepsDevice, tokens: tokens, author: author,
        requestID: context.requestID, logger: context.logger)
    } catch {
      switch error {
      case .ledgerUnavailable(let cause): throw context.unavailable(cause)
      case .tokenMissing: throw Problem(.malformedRequest, "'device_token' is missing: send a token of DCDevice.")
      case .tokenRefused:
        throw Problem(.deviceTokenRefused, "Apple refuses the device token; send a new one of this device.")
      case .appleAway:
        throw Problem(.appStoreUnavailable, "Apple's DeviceCheck could not be asked, so no trial has begun; try again.")
      }
    }
    switch outcome {
    case .started(let record):
      starts.increment(terms.name, "started")
      return (record, true)
    case .known(let record), .taken(let record):
      starts.increment(terms.name, "known")
      return (record, false)
    case .notNeeded:
      starts.increment(terms.name, "not_needed")
      throw Problem(
        .trialNotNeeded, "This user has a tier that is as high as the trial's, or higher; nothing was used up.")
    case .used(let key):
      starts.increment(terms.name, "refused")
      throw Problem(.trialUsed, Self.sentence(key))
    }
  }

  func trial(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireUserOrAppOr(.service, .support)
    let device = try Self.deviceID(context)
    let named = try request.parameter("user_id")
    let user: UserID? =
      if case .server = caller { try named.map { name throws(Problem) in try UserID(checking: name) } } else {
        try self.user(on: device, by: caller, naming: named, context)
      }
    let seen = try await context.reading(await trials.trial(on: device, of: user))
    guard let seen else { throw Self.unknown }
    return JSONBody.uncached(Self.shown(TrialResponse(seen), to: caller, on: device))
  }

  /// The trials of an answer. A user who begins one on each device has as many as devices.
  private static let listed = 50

  func list(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    let user = try context.checkedUserInPath()
    let seen = try await context.reading(await trials.list(of: user, limit: Self.listed))
    return JSONBody.uncached(TrialsResponse(trials: seen.map(TrialResponse.init)))
  }

  func useSession(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireUserOrAppOr(.service)
    let device = try Self.deviceID(context)
    let named = try request.parameter("user_id")
    let user: UserID
    if case .server = caller {
      let begun = try await context.reading(await trials.user(on: device))
      let name = try named.map { name throws(Problem) in try UserID(checking: name) }
      guard let found = name ?? begun else { throw Self.unknown }
      user = found
    } else {
      user = try self.user(on: device, by: caller, naming: named, context)
    }
    let key = try request.headers.idempotencyKey()
    let posted = try await sent(request, context)
    let tokens = try Self.tokens(posted.deviceToken, posted.secondDeviceToken, posted.isDevelopment)
    return await respond(
      try await countSession(of: user, on: device, idempotencyKey: key, tokens: tokens, context), to: caller,
      on: device)
  }

  /// Counts a session of a user's trial.
  /// - Throws: a problem where the trial is over, or there is none.
  func countSession(
    of user: UserID, on device: DeviceID, idempotencyKey key: String?, tokens: Trials.DeviceTokens?,
    _ context: ServiceRequestContext
  ) async throws(Problem) -> TrialRecord {
    let outcome = try await context.reading(
      await trials.countSession(
        of: user, on: device, idempotencyKey: key, tokens: tokens, requestID: context.requestID, logger: context.logger)
    )
    switch outcome {
    case .counted(let record): return record
    case .over: throw Problem(.trialOver, "The trial is over; nothing was counted.")
    case .unknown: throw Self.unknown
    }
  }

  func register(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireUserOrAppOr()
    let id = try Self.deviceID(context)
    let user = try user(on: id, by: caller, context)
    let posted = try await sent(request, context)
    let device = try device(id, by: caller, posted.device, pushToken: posted.pushToken)
    let tokens = try Self.tokens(posted.deviceToken, posted.secondDeviceToken, posted.isDevelopment)
    try await admit(device, of: user, context)
    try await context.reading(
      await trials.keep(device, of: user, tokens: tokens, requestID: context.requestID, logger: context.logger))
    let seen = try await context.reading(await trials.trial(on: id, of: user))
    return JSONBody.uncached(
      DeviceResponse(deviceID: id.rawValue, trial: seen.map { Self.shown(TrialResponse($0), to: caller, on: id) }))
  }

  // MARK: -

  private func respond(
    _ record: TrialRecord, to caller: Caller, on device: DeviceID, status: HTTPResponse.Status = .ok
  ) async -> Response {
    JSONBody.uncached(
      Self.shown(TrialResponse(await trials.recorded(record)), to: caller, on: device), status: status)
  }

  /// A trial as a caller may see it: an app with its public key does not learn who has signed in.
  private static func shown(_ trial: TrialResponse, to caller: Caller, on device: DeviceID) -> TrialResponse {
    guard case .app = caller else { return trial }
    var trial = trial
    (trial.userID, trial.deviceID) = (device.user.rawValue, device.rawValue)
    return trial
  }

  private func sent(_ request: Request, _ context: ServiceRequestContext) async throws -> DeviceRequest {
    try await body.decodeIfPresent(DeviceRequest.self, from: request, loan(for: context))?.value ?? DeviceRequest()
  }

  private func loan(for context: ServiceRequestContext) -> ByteBudget.Loan {
    budgets.access(by: context.caller, at: context.clientAddress)
  }

  func terms(_ name: String?) throws(Problem) -> TrialTerms {
    guard let first = trials.terms.first else {
      throw Problem(.malformedRequest, "This service offers no trial: none is in its configuration.")
    }
    if name == nil, trials.terms.count == 1 { return first }
    guard let terms = trials.terms.first(where: { $0.name == name }) else {
      throw Problem(.malformedRequest, "'trial' has to be one of: \(trials.terms.map(\.name).joined(separator: ", ")).")
    }
    return terms
  }

  static func sentence(_ key: TrialKey) -> String {
    switch key {
    case .device: "A trial was used on this device before."
    case .user: "This user has had a trial."
    case .storeAccount: "This user has had a free period at the App Store, which counts as a trial."
    }
  }

  static let unknown = Problem(.notFound, "There is no trial of this user on this device.")

  static func deviceID(_ context: ServiceRequestContext) throws(Problem) -> DeviceID {
    try DeviceID(checking: context.parameters["device_id"].flatMap(UserID.percentDecoded) ?? "")
  }

  /// The most bytes of what an app says of its device.
  private static let longestWord = 64
  /// Apple's push tokens have 64 characters today, and may grow.
  private static let longestPushToken = 512

  private static func checked(pushToken text: String?) throws(Problem) -> String? {
    guard let text else { return nil }
    guard (1...longestPushToken).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw Problem(.malformedRequest, "'push_token' has to be 1 to \(longestPushToken) printable ASCII characters.")
    }
    return text
  }

  static func tokens(
    _ first: String?, _ second: String?, _ isDevelopment: Bool?
  ) throws(Problem) -> Trials.DeviceTokens? {
    guard let first else { return nil }
    do throws(DeviceToken.Invalid) {
      let token = try DeviceToken(first)
      return Trials.DeviceTokens(
        query: token, update: try second.map { text throws(DeviceToken.Invalid) in try DeviceToken(text) } ?? token,
        server: isDevelopment == true ? .development : .production)
    } catch { throw Problem(.malformedRequest, error.description) }
  }
}

extension DeviceID {
  /// - Throws: a 400 problem.
  init(checking text: String) throws(Problem) {
    guard text.utf8.count == 36, UUID(uuidString: text) != nil else {
      throw Problem(.malformedRequest, "The device ID has to be a UUID.")
    }
    self.init(text)
  }
}

extension TrialResponse {
  init(_ seen: TrialWithState) {
    let record = seen.record
    self.init(
      trial: record.name, userID: record.user.shown, deviceID: record.device.rawValue, tier: record.tier.rawValue,
      startedAt: record.startedAt, expiresAt: record.endsAt, sessionsTotal: record.sessionsTotal,
      sessionsUsed: record.sessionsUsed, sessionsRemaining: record.sessionsRemaining,
      state: State(rawValue: seen.state.rawValue))
  }
}
