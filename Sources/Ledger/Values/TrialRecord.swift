package import Access
package import Entitlements
package import struct FoundationEssentials.Date

/// A device's ID, a UUID by the app: compared without case (RFC 9562, section 4).
package struct DeviceID: Identifier {
  package let rawValue: String
  package init(rawValue: String) { self.rawValue = rawValue.lowercased() }
}

/// A device as the app describes it. Nothing is decided by it.
package struct Device: Hashable, Sendable {
  package var id: DeviceID
  package var model: String?
  package var iosVersion: String?
  package var appVersion: String?
  package var pushToken: String?

  package init(
    id: DeviceID, model: String? = nil, iosVersion: String? = nil, appVersion: String? = nil, pushToken: String? = nil
  ) {
    self.id = id
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
}

/// A request to begin a trial.
package struct TrialStart: Sendable {
  package var terms: TrialTerms
  package var user: UserID
  package var device: Device
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

/// The result of a start.
package enum TrialStartOutcome: Hashable, Sendable {
  case started(TrialRecord)
  /// The user has had it: on this device or, once per user, on any.
  case known(TrialRecord)
  /// Somebody else, or a free period at Apple, has used it up.
  case used(TrialKey)
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
