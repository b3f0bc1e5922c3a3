import Access
import CountersignAPI
import Entitlements
import Hummingbird
import Ledger
import Validation

import struct FoundationEssentials.Date

/// Trials for servers and support: list them, change them, and import those of a former system.
extension TrialsController {
  // MARK: GET /v1/trials

  static let defaultLimit = 50
  static let largestLimit = 200

  func page(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    let state = try request.parameter("state")
    guard state == nil || state == "running" else {
      throw Problem(.malformedRequest, "'state' has to be 'running', or be left out for all trials.")
    }
    let limit = try request.wholeNumber("limit", in: 1...Self.largestLimit) ?? Self.defaultLimit
    let after = try request.pagePosition()
    let page = try await context.reading(await trials.page(after: after, isRunning: state != nil, limit: limit))
    return JSONBody.uncached(
      TrialPageResponse(trials: page.trials.map(TrialResponse.init), next: page.next.map(String.init)))
  }

  // MARK: PATCH /v1/trials/{device_id}

  /// Seconds from now on in which a trial may end.
  private static let ends = TrialTerms.lengthRange

  func amend(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.service, .support)
    let device = try Self.deviceID(context)
    let user = try request.parameter("user_id").map { name throws(Problem) in try UserID(checking: name) }
    guard !request.headers.isBodiless else {
      throw caller.roles.contains(.service) ? Self.nothingToChange : NoteText.missing
    }
    let posted = try await operatorBody.decode(TrialAmendmentRequest.self, from: request, budgets.support.loan()).value
    let note = try NoteText.checked(posted.note, by: caller)
    guard posted.expiresAt != nil || posted.sessionsTotal != nil else { throw Self.nothingToChange }
    let now = now()
    let endsAt = try posted.expiresAt.map { text throws(Problem) in
      try Date(checking: text, named: "expires_at").inWholeMilliseconds
    }
    guard endsAt.map({ $0 > now && $0 <= now.advanced(by: Self.ends.upperBound) }) ?? true else {
      throw Problem(.malformedRequest, "'expires_at' has to be in the future, and within 366 days.")
    }
    guard posted.sessionsTotal.map((1...TrialTerms.mostSessions).contains) ?? true else {
      throw Problem(
        .malformedRequest, "'sessions_total' has to be a whole number from 1 to \(TrialTerms.mostSessions).")
    }
    let amended = try await context.reading(
      await trials.amend(
        on: device, of: user, endsAt: endsAt, sessionsTotal: posted.sessionsTotal,
        note: Note(
          author: caller.name, text: note ?? "A trial was changed.", requestID: context.requestID, recordedAt: now),
        logger: context.logger))
    guard let amended else { throw Self.unknown }
    return JSONBody.uncached(TrialResponse(await trials.recorded(amended)))
  }

  private static let nothingToChange = Problem(.malformedRequest, "Give 'expires_at', 'sessions_total' or both.")

  // MARK: POST /v1/trials/import

  /// The most trials of a request: each is a write of its own.
  static let mostImported = 100

  func importTrials(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.service)
    let posted = try await operatorBody.decode(TrialImportRequest.self, from: request, budgets.support.loan())
    defer { withExtendedLifetime(posted.loan) {} }
    guard (1...Self.mostImported).contains(posted.value.trials.count) else {
      throw Problem(.malformedRequest, "'trials' has to list 1 to \(Self.mostImported) trials.")
    }
    var outcomes: [TrialImportResponse.Outcome] = []
    for one in posted.value.trials {
      var outcome = TrialImportResponse.Outcome(deviceID: one.deviceID, outcome: .refused)
      do throws(Problem) {
        let (record, isNew) = try await take(one, by: caller, context)
        outcome.outcome = isNew ? .imported : .known
        outcome.trial = TrialResponse(await trials.recorded(record))
      } catch {
        // Those before are recorded; a repeated request finds them.
        guard !error.code.isRetryable else { throw error }
        (outcome.code, outcome.detail) = (error.code.rawValue, error.detail)
      }
      outcomes.append(outcome)
    }
    return JSONBody.uncached(TrialImportResponse(trials: outcomes))
  }

  /// - Throws: a problem with this trial.
  private func take(
    _ posted: ImportedTrial, by caller: ServerCaller, _ context: ServiceRequestContext
  ) async throws(Problem) -> (record: TrialRecord, isNew: Bool) {
    let terms = try terms(posted.trial)
    let device = try DeviceID(checking: posted.deviceID)
    let user = try posted.userID.map { name throws(Problem) in try UserID(checking: name) } ?? device.user
    let former = FormerTrial(
      startedAt: try Date(checking: posted.startedAt, named: "started_at").inWholeMilliseconds,
      endsAt: try Date(checking: posted.expiresAt, named: "expires_at").inWholeMilliseconds,
      sessionsUsed: posted.sessionsUsed ?? 0)
    let now = now()
    guard former.startedAt <= now, now < former.endsAt else {
      throw Problem(.trialOver, "The trial is not running: it has to have started, and to end in the future.")
    }
    guard former.endsAt <= former.startedAt.advanced(by: terms.length) else {
      throw Problem(.malformedRequest, "The trial is longer than '\(terms.name)' of the configuration.")
    }
    guard (0..<(terms.sessions ?? TrialTerms.mostSessions)).contains(former.sessionsUsed) else {
      throw Problem(
        .trialOver, "The sessions of the trial are used up, or 'sessions_used' is no whole number from 0 on.")
    }
    let outcome = try await context.reading(
      await trials.take(former, terms, of: user, on: device, author: caller.name, requestID: context.requestID))
    switch outcome {
    case .started(let record): return (record, true)
    case .known(let record), .taken(let record): return (record, false)
    case .used(let key): throw Problem(.trialUsed, Self.sentence(key))
    case .notNeeded: throw Problem(.trialNotNeeded, "This user has as high a tier without the trial.")
    }
  }
}
