import CountersignAPI
import Entitlements
import Ledger

import struct FoundationEssentials.Date

extension ExplainedEntitlement {
  init(_ entitlement: Entitlement, after before: Entitlement?) {
    self.init(
      entitlement: EntitlementState(entitlement),
      explanation: entitlement.words(after: before).joined(separator: " "),
      decision: Decision(entitlement.explanation, of: entitlement.reason))
  }
}

extension Decision {
  fileprivate init(_ explanation: Explanation, of reason: EntitlementReason) {
    self.init(
      reason: EntitlementState.Reason(rawValue: reason.rawValue), transactionID: explanation.decidedBy?.rawValue,
      grantID: explanation.givenBy.map { String($0) },
      policy: explanation.policy.map { Policy(key: $0.key, value: $0.value) },
      passedOver: explanation.passedOver.map {
        PassedOver(
          transactionID: $0.transactionID.rawValue, productID: $0.productID.rawValue, cause: $0.cause.rawValue)
      },
      passedOverCount: explanation.passedOverCount, evaluatedAt: explanation.evaluatedAt)
  }
}

extension HistoryEvent {
  /// - Parameter user: the user whose history it stands in.
  init(_ event: TimelineEvent, for user: UserID) {
    switch event {
    case .verdict(let entry, let before, let note):
      self.init(
        recordedAt: event.recordedAt, requestID: entry.requestID, askedBy: note?.author, note: note?.text,
        detail: .verdict(ExplainedEntitlement(entry.entitlement, after: before), isChanged: entry.changed))
    case .ownership(let change): self.init(change, for: user)
    case .inquiry(let note):
      self.init(
        recordedAt: event.recordedAt, requestID: note.requestID, askedBy: note.author, note: note.text,
        detail: .revalidation(explanation: "Apple was asked anew, on request."))
    case .removed(let stretch):
      self.init(
        recordedAt: stretch.lastAt, requestID: "retention",
        detail: .removed(lines: stretch.events, firstAt: stretch.firstAt, explanation: stretch.words))
    }
  }

  init(_ change: OwnershipChange, for user: UserID) {
    self.init(
      recordedAt: change.recordedAt, requestID: change.requestID, askedBy: change.note?.author,
      note: change.note?.text,
      detail: .ownerChange(
        OwnerChange(
          environment: EntitlementState.Environment(change.key.environment),
          originalTransactionID: change.key.originalTransactionID.rawValue, fromUserID: change.from?.shown,
          toUserID: change.to.shown),
        explanation: change.words(for: user)))
  }
}

extension ThinnedHistory {
  fileprivate var words: String {
    let (first, last) = (firstAt.dayInWords, lastAt.dayInWords)
    let span = first == last ? "of \(last)" : "from \(first) to \(last)"
    return events == 1
      ? "A line \(span) that changed nothing was removed by retention."
      : "\(events) lines \(span) that changed nothing were removed by retention."
  }
}

extension OwnershipChange {
  /// The change in words for one of the two users. The other is not named: the members for machines name both.
  func words(for user: UserID) -> String {
    guard from != nil else { return "The purchase \(key.originalTransactionID) was presented for the first time." }
    return user == to
      ? "The purchase \(key.originalTransactionID) came here from another user of the app."
      : "The purchase \(key.originalTransactionID) went to another user of the app."
  }
}

/// A position in a user's history as a caller carries it from page to page: opaque, and of bounded size.
///
///     h2-1c      version, then the position in base 36
extension TimelinePosition {
  private static let version = "h2-"

  var cursor: String { Self.version + String(sequence, radix: 36) }

  /// - Returns: `nil` for a text that `cursor` never wrote: each position has one spelling.
  init?(cursor: String) {
    guard cursor.utf8.count <= 64, cursor.hasPrefix(Self.version),
      let sequence = Int64(cursor.dropFirst(Self.version.count), radix: 36), sequence >= 0
    else { return nil }
    self.init(sequence)
    guard self.cursor == cursor else { return nil }
  }
}
