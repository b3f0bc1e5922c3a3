internal import Access
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

  package func isRunning(at now: Date) -> Bool { !isEndedEarly && now.inWholeMilliseconds < endsAt }
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
