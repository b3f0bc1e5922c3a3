package import Access
package import Entitlements
package import struct FoundationEssentials.Date

/// Begins a trial, if nothing that allows one has been used: of many at once one begins.
package struct StartTrial: LedgerOperation {
  package enum Outcome: Hashable, Sendable {
    case started(TrialRecord)
    /// The user has had it: on this device or, once per user, on any.
    case known(TrialRecord)
    /// It was begun on this device before the user signed in, and is the user's now.
    case taken(TrialRecord)
    /// The user has as much without it. Nothing was used up.
    case notNeeded
    /// Somebody else, or a free period at Apple, has used it up.
    case used(TrialKey)
  }

  package var terms: TrialTerms
  package var user: UserID
  package var device: Device
  /// Whether the device is kept among the user's: one that the app did not name is not.
  package var keepsDevice = true
  /// Where the trial has run so far, at a former system; `nil`: it begins now.
  package var former: FormerTrial?
  /// Whether what the user has gives as much as the trial would.
  package var isCovered = false
  /// Whether Apple says that the device had a trial; `false` where it was not asked.
  package var isUsedByApple: Bool
  /// Whether Apple has to know once it has begun.
  package var owesBit: Bool
  package var author: String
  package var requestID: String
  package var evaluationContext: EvaluationContext
  /// Until when the app's row is claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    _ terms: TrialTerms, user: UserID, device: Device, isUsedByApple: Bool = false, owesBit: Bool = false,
    author: String, requestID: String, evaluationContext: EvaluationContext, rowsClaimedUntil: Date? = nil
  ) {
    self.terms = terms
    self.user = user
    self.device = device
    self.isUsedByApple = isUsedByApple
    self.owesBit = owesBit
    self.author = author
    self.requestID = requestID
    self.evaluationContext = evaluationContext
    self.rowsClaimedUntil = rowsClaimedUntil
  }

  package func run(_ tables: LedgerTables) throws -> Outcome {
    var arrival = KeepDevice(device, of: user, requestID: requestID, evaluationContext)
    arrival.takesSeveral = !terms.oncePer.contains(.user)
    let (user, hasTaken) =
      try keepsDevice ? arrival.arrive(tables) : (user: tables.accounts.name(of: user), hasTaken: false)
    var start = self
    start.user = user
    let outcome = try start.begin(hasTaken: hasTaken, tables)
    if case .used(let key) = outcome { try start.appendRefusal(by: key, tables) }
    return outcome
  }

  /// Appends the event of a refused trial, once a day of each user.
  private func appendRefusal(by key: TrialKey, _ tables: LedgerTables) throws {
    let now = evaluationContext.recordedAt
    guard
      try tables.changeEvents.admitsRefusalEvent(
        of: "trial \(terms.name)", to: user, at: now, until: now.advanced(by: RefusalEvents.trialPause))
    else { return }
    var detail = ChangeEvent.Detail()
    (detail.trial, detail.device, detail.refusedBy) = (terms.name, device.id.rawValue, key.rawValue)
    try tables.changeEvents.append(.trialRefused, of: user, at: now, detail)
  }

  private func begin(hasTaken: Bool, _ tables: LedgerTables) throws -> Outcome {
    let device = device.id
    let now = evaluationContext.recordedAt
    let there = try tables.trials.newest(on: device)
    let own = terms.oncePer.contains(.user) ? try tables.trials.newest(of: user) : nil
    if let known = own ?? there.flatMap({ $0.user == user ? $0 : nil }) {
      return hasTaken ? .taken(known) : .known(known)
    }
    // A trial that a former system began is a fact.
    if former == nil, isCovered { return .notNeeded }
    if terms.oncePer.contains(.device), there != nil || isUsedByApple { return .used(.device) }
    if former == nil, try hadTrialAtStore(user, tables) { return .used(.storeAccount) }
    if let used = try usedBefore(tables) { return .used(used) }
    let startsAt = former?.startedAt ?? evaluationContext.evaluatedAt
    let outcome = try Give(
      user: user, kind: .trial, tier: terms.tier, startsAt: startsAt,
      endsAt: former?.endsAt ?? startsAt.advanced(by: terms.length),
      author: author, requestID: requestID, evaluationContext: evaluationContext,
      rowsClaimedUntil: rowsClaimedUntil
    ).run(tables)
    guard case .given(let record) = outcome else { throw StoredForm.Unstorable() }
    try tables.trials.add(self, as: record.period.id)
    try tables.marks.markExposures(of: record.user.key)
    guard let trial = try tables.trials.trial(record.period.id) else { throw StoredForm.Unstorable() }
    try tables.trials.appendStart(of: trial, record, at: now)
    return .started(trial)
  }

  /// The former use that refuses a trial to a user who was erased and is back under the same ID.
  private func usedBefore(_ tables: LedgerTables) throws -> TrialKey? {
    for former in try tables.pseudonyms.formerSelves(of: user) {
      if terms.oncePer.contains(.user), try tables.trials.newest(of: former) != nil { return .user }
      if try hadTrialAtStore(former, tables) { return .storeAccount }
    }
    return nil
  }

  /// Whether a free period of the user's at a store refuses the trial, also one that was paid for since.
  private func hadTrialAtStore(_ user: UserID, _ tables: LedgerTables) throws -> Bool {
    guard terms.oncePer.contains(.storeAccount), let account = try tables.accounts.account(of: user) else {
      return false
    }
    return try tables.pastTransactions.wholeEvidence(of: account).contains { $0.purchases.contains(where: \.isTrial) }
  }
}
