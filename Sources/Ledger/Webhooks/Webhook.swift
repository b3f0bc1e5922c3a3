package import Entitlements
package import struct FoundationEssentials.Date

/// The events that are to be delivered to a receiver now.
package struct WebhookWork: Sendable {
  /// Whether the receiver is enabled.
  package var isEnabled = false
  /// Events that wait and are due, each the first of its user that waits.
  package var due: [Due] = []
  /// The next events that nobody has looked at for this receiver, in their order.
  package var fresh: [ChangeEvent] = []
  /// Users with an undelivered event: their newer events wait for it.
  package var blocked: Set<UserID> = []
  /// The attributes of their customers as they are now, where they were asked for.
  package var attributes: [UserID: [String: CustomerAttribute]] = [:]

  package struct Due: Sendable {
    package var event: ChangeEvent
    /// Attempts that failed.
    package var attempts: Int
  }
}

/// The result of delivering an event to a receiver.
package struct WebhookResult: Hashable, Sendable {
  package enum Outcome: Hashable, Sendable {
    case delivered
    /// The receiver's format has no such event: nothing was sent, and nothing waits any more.
    case untold
    /// Nobody tried: something of the user's waits before it.
    case waits
    /// To be sent again.
    case failed(attempts: Int, due: Date, problem: String)
    /// Given up.
    case dead(attempts: Int, problem: String)
  }

  package var sequence: Int64
  package var user: UserID
  package var outcome: Outcome

  package init(of event: ChangeEvent, _ outcome: Outcome) {
    (sequence, user, self.outcome) = (event.sequence, event.user, outcome)
  }
}

/// The state of a receiver.
package struct WebhookStatus: Hashable, Sendable {
  package var isEnabled = true
  /// Events that are to be delivered: tried before, behind one that was, or not looked at yet. `mostWaiting` stands for that
  /// many or more.
  package var waiting = 0
  package var dead = 0
  /// The oldest event that was not delivered and not given up.
  package var oldest: Date?
  /// The newest trouble.
  package var problem: String?
  package var problemAt: Date?

  /// Nobody needs the exact number of more, and a metric must not count for long.
  package static let mostWaiting = 1_000

  package init() {}
}

/// An event that was given up.
package struct DeadLetter: Hashable, Sendable {
  package var webhook: String
  package var event: ChangeEvent
  package var attempts: Int
  package var problem: String?
  package var failedAt: Date?
}

/// A request about the events of a receiver.
package enum Redelivery: Hashable, Sendable {
  /// One event, given up or not.
  case event(ChangeEvent.Place)
  /// Everything that was given up.
  case dead
  /// Nothing: the receiver is only enabled again.
  case nothing
  /// An event that was given up is forgotten for the receiver; nothing is delivered.
  case discard(ChangeEvent.Place)

  package enum Outcome: Hashable, Sendable {
    /// So many events are delivered again.
    case begun(Int)
    /// The event is not kept, or is to be discarded and was not given up. Nothing was changed.
    case unknown
    /// The receiver takes no events of this type. Nothing was changed.
    case untaken(type: String)
  }
}
