package import Access
package import AppStore
package import Entitlements
package import Ledger
package import Logging

package import struct FoundationEssentials.Date

/// Trials of the app's own: once per device, user and store account, by our clock alone.
package struct Trials: Sendable {
  /// The trials that a service offers, and Apple's memory of devices.
  package struct Settings: Sendable {
    package var terms: [TrialTerms]
    /// `nil` where it is not configured.
    package var deviceCheck: DeviceCheck?
    /// Whether nobody begins while Apple is away.
    package var requiresDeviceCheck: Bool
    package var deadline: Duration
    /// The app that the service is for, where it is one alone.
    package var soleApp: BundleID?

    package init(
      terms: [TrialTerms], deviceCheck: DeviceCheck? = nil, requiresDeviceCheck: Bool = false, deadline: Duration,
      soleApp: BundleID?
    ) {
      self.terms = terms
      self.deviceCheck = deviceCheck
      self.requiresDeviceCheck = requiresDeviceCheck
      self.deadline = deadline
      self.soleApp = soleApp
    }
  }

  package let settings: Settings
  let verdicts: VerdictContext
  let ledger: Ledger

  package var terms: [TrialTerms] { settings.terms }
  private var deviceCheck: DeviceCheck? { settings.deviceCheck }
  private var requiresDeviceCheck: Bool { settings.requiresDeviceCheck }
  private var deadline: Duration { settings.deadline }

  /// The tokens of a device that an app sends along: each is for one request to Apple.
  package struct DeviceTokens: Sendable {
    package var query: DeviceToken
    package var update: DeviceToken
    package var server: DeviceCheck.Server

    package init(query: DeviceToken, update: DeviceToken, server: DeviceCheck.Server) {
      self.query = query
      self.update = update
      self.server = server
    }
  }

  /// The reason why a trial was neither begun nor refused.
  package enum StartError: Error, Sendable {
    case ledgerUnavailable(LedgerError)
    /// DeviceCheck is required, and the app sent no token.
    case tokenMissing
    case tokenRefused
    /// DeviceCheck is required, and Apple is away.
    case appleAway
  }

  package enum State: String, Sendable {
    case running
    case usedUp = "used_up"
    case over
    /// The user has bought access since.
    case converted
  }

  /// Begins a trial for a user on a device.
  ///
  /// Apple is asked before, whether the device had a trial under another account or before it was erased, and told
  /// afterwards. While Apple is away a trial begins all the same, unless it is required: an outage must cost nobody a
  /// trial, and Apple is told later.
  package func start(
    _ terms: TrialTerms, for user: UserID, on device: Device, keepsDevice: Bool, tokens: DeviceTokens?, author: String,
    requestID: String, logger: Logger
  ) async throws(StartError) -> StartTrial.Outcome {
    var start = StartTrial(
      terms, user: user, device: device, author: author, requestID: requestID,
      evaluationContext: verdicts.evaluationContext, rowsClaimedUntil: verdicts.rowsClaim)
    start.keepsDevice = keepsDevice
    start.isCovered = try await consult(await isCovered(user, by: terms.tier), or: StartError.ledgerUnavailable)
    var other: Bool?
    if let deviceCheck, terms.oncePer.contains(.device), !start.isCovered, try await !isKnown(terms, user, device) {
      start.owesBit = true
      let answer = try await query(deviceCheck, tokens, logger)
      start.isUsedByApple = answer?.bit0 ?? false
      other = answer?.bit1
    }
    let outcome = try await consult(await ledger.run(start), or: StartError.ledgerUnavailable)
    switch outcome {
    case .started(let record):
      let isRefused = await settle(record, on: device.id, tokens, bit1: other, logger)
      if isRefused, requiresDeviceCheck {
        // A worthless token would otherwise buy a trial that Apple never hears of.
        try await consult(
          await ledger.withdraw(record, requestID: requestID, verdicts.evaluationContext),
          or: StartError.ledgerUnavailable)
        throw .tokenRefused
      }
      logger.notice(
        "a trial began",
        metadata: ["user_id": "\(record.user)", "trial": "\(record.name)", "ends_at": "\(record.endsAt.rfc3339)"])
      _ = await verdicts.write(record.user, .waiting, logger: logger)
    case .known(let record): await settle(record, on: device.id, tokens, bit1: other, logger)
    case .taken(let record):
      await settle(record, on: device.id, tokens, bit1: other, logger)
      logger.notice("a device's trial became a user's", metadata: ["user_id": "\(record.user)"])
      _ = await verdicts.write(record.user, .waiting, logger: logger)
    case .notNeeded: break
    case .used(let key):
      logger.notice("a second trial was refused", metadata: ["user_id": "\(user)", "once_per": "\(key.rawValue)"])
    }
    return outcome
  }

  /// Whether the ledger alone decides: Apple need not be asked.
  private func isKnown(_ terms: TrialTerms, _ user: UserID, _ device: Device) async throws(StartError) -> Bool {
    try await consult(
      await ledger.hasTrial(
        user, on: device, onAnyDevice: terms.oncePer.contains(.user), at: verdicts.evaluationContext.recordedAt),
      or: StartError.ledgerUnavailable)
  }

  /// Whether what a user has gives a tier or a higher one.
  private func isCovered(_ user: UserID, by tier: Tier) async throws(LedgerError) -> Bool {
    let rules = verdicts.rules
    let profile = try await ledger.profile(of: user)
    let standing = rules.standing(of: user, profile, at: verdicts.evaluationContext.evaluatedAt)
    // Grants count as purchases do.
    return standing.status != .expired && rules.catalog.rank(of: standing.tier) >= rules.catalog.rank(of: tier)
  }

  /// Takes over a running trial of a former system. Apple is told of the device with its next tokens.
  package func take(
    _ former: FormerTrial, _ terms: TrialTerms, of user: UserID, on device: DeviceID, author: String, requestID: String
  ) async throws(LedgerError) -> StartTrial.Outcome {
    var start = StartTrial(
      terms, user: user, device: Device(id: device), owesBit: deviceCheck != nil && terms.oncePer.contains(.device),
      author: author, requestID: requestID, evaluationContext: verdicts.evaluationContext)
    start.former = former
    return try await ledger.run(start)
  }

  /// Changes the end or the sessions of a trial, also of one that is over.
  ///
  /// - Parameters:
  ///   - user: `nil`: the one whose trial was begun on the device.
  ///   - endsAt: `nil`: as it is; so is `sessionsTotal`.
  /// - Returns: the trial; `nil` where there is none.
  package func amend(
    on device: DeviceID, of user: UserID?, endsAt: Date?, sessionsTotal: Int?, note: Note, logger: Logger
  ) async throws(LedgerError) -> TrialRecord? {
    let amended = try await ledger.run(
      AmendTrial(
        device: device, user: user, endsAt: endsAt, sessionsTotal: sessionsTotal, note: note,
        evaluationContext: verdicts.evaluationContext, rowsClaimedUntil: verdicts.rowsClaim))
    guard let amended else { return nil }
    logger.notice(
      "a trial was changed", metadata: ["user_id": "\(amended.user)", "ends_at": "\(amended.endsAt.rfc3339)"])
    _ = await verdicts.write(amended.user, .waiting, logger: logger)
    return amended
  }

  /// Apple's bits for a device before a start; `nil` where Apple is away or was not asked.
  private func query(
    _ deviceCheck: DeviceCheck, _ tokens: DeviceTokens?, _ logger: Logger
  ) async throws(StartError) -> DeviceBits? {
    guard let tokens else {
      if requiresDeviceCheck { throw .tokenMissing }
      return nil
    }
    do throws(DeviceCheckError) {
      return try await bits(deviceCheck, tokens)
    } catch {
      if case .tokenRefused = error { throw .tokenRefused }
      log(error, logger)
      if requiresDeviceCheck { throw .appleAway }
      return nil
    }
  }

  /// The bits of a device; those that were never set are off.
  private func bits(_ deviceCheck: DeviceCheck, _ tokens: DeviceTokens) async throws(DeviceCheckError) -> DeviceBits {
    try await deviceCheck.query(tokens.query, at: tokens.server, deadline: .now + deadline)
      ?? DeviceBits(bit0: false, bit1: false)
  }

  /// Tells Apple that a device had its trial, if that is owed and it is the device on which the trial began.
  ///
  /// - Parameter bit1: the team's other bit, which has to stay as it is; `nil`: Apple is asked.
  /// - Returns: whether Apple refused the tokens.
  @discardableResult private func settle(
    _ record: TrialRecord, on device: DeviceID, _ tokens: DeviceTokens?, bit1: Bool?, _ logger: Logger
  ) async -> Bool {
    guard record.owesBit, record.device == device, let deviceCheck, let tokens else { return false }
    do throws(DeviceCheckError) {
      let other = if let bit1 { bit1 } else { try await bits(deviceCheck, tokens).bit1 }
      do throws(DeviceCheckError) {
        try await deviceCheck.update(
          tokens.update, bit0: true, bit1: other, at: tokens.server, deadline: .now + deadline)
      } catch .tokenRefused where tokens.update != tokens.query {
        // Apple knows this one.
        try await deviceCheck.update(
          tokens.query, bit0: true, bit1: other, at: tokens.server, deadline: .now + deadline)
      }
    } catch {
      log(error, logger)
      if case .tokenRefused = error { return true }
      return false
    }
    // If this is lost, Apple's bit is set once more.
    try? await ledger.settleBit(of: record.id)
    return false
  }

  private func log(_ error: DeviceCheckError, _ logger: Logger) {
    switch error {
    case .keyRefused:
      let consequence = requiresDeviceCheck ? "no trial begins" : "trials begin unchecked"
      logger.error("Apple's DeviceCheck refuses the key: \(consequence) until device_check is set right")
    case .tokenRefused:
      logger.notice("Apple's DeviceCheck refuses a device token; the device is marked with the next one")
    case .away, .cancelled: logger.warning("Apple's DeviceCheck cannot be asked", metadata: ["cause": "\(error)"])
    }
  }

  package func knows(_ device: DeviceID, of user: UserID) async throws(LedgerError) -> Bool {
    try await ledger.knows(device, of: user)
  }

  /// The trial that a user has on a device; of no user in particular, the one that was begun there.
  package func trial(on device: DeviceID, of user: UserID?) async throws(LedgerError) -> TrialWithState? {
    guard let record = try await ledger.trial(on: device, of: user) else { return nil }
    return try await seen(record)
  }

  /// The trials that a user has begun, the newest first.
  package func list(of user: UserID, limit: Int) async throws(LedgerError) -> [TrialWithState] {
    var found: [TrialWithState] = []
    for record in try await ledger.trials(of: user, limit: limit) { found.append(try await seen(record)) }
    return found
  }

  /// A page of trials, in the order in which they were recorded.
  ///
  /// - Parameters:
  ///   - cursor: the last one of the page before.
  ///   - isRunning: leaves out what is over, and what was converted.
  /// - Returns: `next`: the last one that was looked at; `nil` at the end.
  package func page(
    after cursor: GivenPeriod.ID, isRunning: Bool, limit: Int
  ) async throws(LedgerError) -> (trials: [TrialWithState], next: GivenPeriod.ID?) {
    let records = try await ledger.trials(
      after: cursor, runningAt: isRunning ? verdicts.evaluationContext.evaluatedAt : nil, limit: limit)
    var found: [TrialWithState] = []
    for record in records {
      let seen = try await seen(record)
      if !isRunning || seen.state == .running { found.append(seen) }
    }
    return (found, records.count < limit ? nil : records.last?.id)
  }

  package func seen(_ record: TrialRecord) async throws(LedgerError) -> TrialWithState {
    TrialWithState(record: record, state: try await hasBought(record) ? .converted : state(of: record))
  }

  /// A trial that was just recorded: where what was bought cannot be read, its own dates say the state.
  package func recorded(_ record: TrialRecord) async -> TrialWithState {
    do throws(LedgerError) { return try await seen(record) } catch {
      return TrialWithState(record: record, state: state(of: record))
    }
  }

  private func hasBought(_ record: TrialRecord) async throws(LedgerError) -> Bool {
    let evidence = try await ledger.includingPast(
      ledger.profile(of: record.user)?.evidence ?? [], of: record.user)
    return verdicts.evaluationContext.hasBought(record.user, evidence, since: record.startedAt)
  }

  private func state(of record: TrialRecord) -> State {
    if record.isRunning(at: verdicts.evaluationContext.evaluatedAt) { return .running }
    return record.sessionsRemaining == 0 ? .usedUp : .over
  }

  package func countSession(
    of user: UserID, on device: DeviceID, idempotencyKey: String?, tokens: DeviceTokens?, requestID: String,
    logger: Logger
  ) async throws(LedgerError) -> CountSession.Outcome {
    let outcome = try await ledger.run(
      CountSession(
        of: user, on: device, idempotencyKey: idempotencyKey, requestID: requestID, verdicts.evaluationContext))
    if case .counted(let record) = outcome {
      if record.isEndedEarly { _ = await verdicts.write(record.user, .waiting, logger: logger) }
      await settle(record, on: device, tokens, bit1: nil, logger)
    }
    return outcome
  }

  /// The trial of a user, on a device that shares it from now on; `nil` for a user without one.
  ///
  /// - Parameter sessionsUsed: how many the app says were used: a higher number than is known counts, as nobody is
  ///   better off for it.
  package func verify(
    of user: UserID, on device: Device, sessionsUsed: Int?, requestID: String, logger: Logger
  ) async throws(LedgerError) -> TrialRecord? {
    var known = try await ledger.trial(on: device.id, of: user)
    let context = verdicts.evaluationContext
    if known == nil, try await ledger.hasTrial(user, on: device, onAnyDevice: true, at: context.recordedAt) {
      try await arrive(device, of: user, requestID: requestID, logger: logger)
      known = try await ledger.trial(on: device.id, of: user)
    }
    guard let known, let sessionsUsed, sessionsUsed > known.sessionsUsed else { return known }
    let record = try await ledger.run(
      RaiseSessions(
        of: known, to: sessionsUsed, requestID: requestID, verdicts.evaluationContext))
    if record.isEndedEarly, !known.isEndedEarly { _ = await verdicts.write(user, .waiting, logger: logger) }
    return record
  }

  /// Keeps what an app says of a user's device, which then shares the user's trial.
  package func keep(
    _ device: Device, of user: UserID, tokens: DeviceTokens?, requestID: String, logger: Logger
  ) async throws(LedgerError) {
    try await arrive(device, of: user, requestID: requestID, logger: logger)
    if let record = try await ledger.trial(on: device.id, of: user) {
      await settle(record, on: device.id, tokens, bit1: nil, logger)
    }
  }

  private func arrive(_ device: Device, of user: UserID, requestID: String, logger: Logger) async throws(LedgerError) {
    guard try await ledger.run(KeepDevice(device, of: user, requestID: requestID, verdicts.evaluationContext)) else {
      return
    }
    logger.notice("a device's trial became a user's", metadata: ["user_id": "\(user)"])
    _ = await verdicts.write(user, .waiting, logger: logger)
  }

  package func user(on device: DeviceID) async throws(LedgerError) -> UserID? {
    try await ledger.trial(on: device, of: nil)?.user
  }
}

package struct TrialWithState: Sendable {
  package var record: TrialRecord
  package var state: Trials.State
}
