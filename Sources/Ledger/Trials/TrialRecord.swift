package import Access
package import Entitlements
package import struct FoundationEssentials.Date

/// A device's ID, a UUID by the app: compared without case (RFC 9562, section 4).
package struct DeviceID: Identifier {
  package let rawValue: String
  package init(rawValue: String) { self.rawValue = rawValue.lowercased() }

  /// The user that the device is while nobody has signed in there.
  package var user: UserID { UserID(UserID.devicePrefix + rawValue) }
}

/// A device as the app describes it.
package struct Device: Hashable, Sendable {
  package var id: DeviceID
  /// The app that runs there; `nil` where that is not known.
  package var app: BundleID?
  package var model: String?
  package var iosVersion: String?
  package var appVersion: String?
  /// By it a device is known as the successor of another one.
  package var pushToken: String?

  package init(
    id: DeviceID, app: BundleID? = nil, model: String? = nil, iosVersion: String? = nil, appVersion: String? = nil,
    pushToken: String? = nil
  ) {
    self.id = id
    self.app = app
    self.model = model
    self.iosVersion = iosVersion
    self.appVersion = appVersion
    self.pushToken = pushToken
  }
}

/// A trial as the ledger keeps it.
package struct TrialRecord: Hashable, Sendable {
  /// The trial's name in the configuration.
  package var name: String
  package var user: UserID
  /// The device on which it was begun.
  package var device: DeviceID
  package var tier: Tier
  package var startedAt: Date
  /// The first moment that is no longer part of it.
  package var endsAt: Date
  /// Whether it ended before its time, as its sessions were used up or somebody ended it.
  package var isEndedEarly: Bool
  /// `nil`: only its time ends it.
  package var sessionsTotal: Int?
  package var sessionsUsed: Int
  /// Whether Apple does not know yet that the device had a trial.
  package var owesBit: Bool
  package var id: GivenPeriod.ID

  /// The sessions that are left; `nil` without a number of them.
  package var sessionsRemaining: Int? { sessionsTotal.map { max(0, $0 - sessionsUsed) } }

  /// Whether all its sessions were used.
  package var isUsedUp: Bool { sessionsUsed >= sessionsTotal ?? TrialTerms.mostSessions }

  package func isRunning(at now: Date) -> Bool { !isEndedEarly && now < endsAt }
}

/// A request to begin a trial.
package struct TrialStart: Sendable {
  package var terms: TrialTerms
  package var user: UserID
  package var device: Device
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
}

/// A trial as a former system kept it.
package struct FormerTrial: Hashable, Sendable {
  package var startedAt: Date
  package var endsAt: Date
  package var sessionsUsed: Int

  package init(startedAt: Date, endsAt: Date, sessionsUsed: Int) {
    self.startedAt = startedAt
    self.endsAt = endsAt
    self.sessionsUsed = sessionsUsed
  }
}

/// The result of a start.
package enum TrialStartOutcome: Hashable, Sendable {
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

/// A decision of a person's, or of the app's server, about a trial that was begun.
package struct TrialAmendment: Sendable {
  package var device: DeviceID
  /// `nil`: the user whose trial was begun on the device.
  package var user: UserID?
  /// `nil`: as it is.
  package var endsAt: Date?
  /// `nil`: as it is.
  package var sessionsTotal: Int?
  package var note: Note
  package var evaluationContext: EvaluationContext
  /// Until when the app's row is claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    device: DeviceID, user: UserID?, endsAt: Date?, sessionsTotal: Int?, note: Note,
    evaluationContext: EvaluationContext, rowsClaimedUntil: Date? = nil
  ) {
    self.device = device
    self.user = user
    self.endsAt = endsAt
    self.sessionsTotal = sessionsTotal
    self.note = note
    self.evaluationContext = evaluationContext
    self.rowsClaimedUntil = rowsClaimedUntil
  }
}

/// The result of a session.
package enum TrialSessionOutcome: Hashable, Sendable {
  /// It is counted, now or under the same key before.
  case counted(TrialRecord)
  /// The trial is over: nothing was counted.
  case over(TrialRecord)
  /// The user has no trial on this device.
  case unknown
}
