package import Entitlements
import Ledger

import struct FoundationEssentials.Date

/// A page of a user's history: how the user stands now, what was bought, and what happened, newest first.
struct HistoryBody: Encodable {
  var user: UserID
  var now: Entitlement
  var periods: [PurchasePeriod]
  var events: [TimelineEvent]
  /// The path of the next page.
  var next: String?

  enum CodingKeys: String, CodingKey {
    case userID = "user_id"
    case now, periods, entries, next
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(user.rawValue, forKey: .userID)
    try container.encode(ExplainedEntitlement(now, after: nil), forKey: .now)
    try container.encode(periods, forKey: .periods)
    try container.encode(events.map { HistoryEntryBody(user: user, event: $0) }, forKey: .entries)
    try container.encode(next, forKey: .next)
  }
}

/// A verdict with the words for it, and how it was reached.
struct ExplainedEntitlement: Encodable {
  var entitlement: Entitlement
  var words: String

  init(_ entitlement: Entitlement, after before: Entitlement?) {
    self.entitlement = entitlement
    words = entitlement.words(after: before).joined(separator: " ")
  }

  enum CodingKeys: String, CodingKey {
    case explanation, decision
  }

  func encode(to encoder: any Encoder) throws {
    try EntitlementMembers(entitlement: entitlement).encode(to: encoder)
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(words, forKey: .explanation)
    try container.encode(DecisionBody(entitlement.explanation), forKey: .decision)
  }
}

/// How a verdict was reached, for machines and auditors.
private struct DecisionBody: Encodable {
  var line: Int?
  var transactionID: String?
  var policy: Policy?
  var passedOver: [PassedOver]
  var passedOverCount: Int
  var evaluatedAt: Date?

  struct Policy: Encodable {
    var key: String
    var value: String
  }

  struct PassedOver: Encodable {
    var transactionID: String
    var productID: String
    var cause: String

    enum CodingKeys: String, CodingKey {
      case transactionID = "transaction_id"
      case productID = "product_id"
      case cause
    }
  }

  init(_ explanation: Explanation) {
    line = explanation.line
    transactionID = explanation.decidedBy?.rawValue
    policy = explanation.policy.map { Policy(key: $0.key, value: $0.value) }
    passedOver = explanation.passedOver.map {
      PassedOver(
        transactionID: $0.transactionID.rawValue, productID: $0.productID.rawValue, cause: $0.cause.rawValue)
    }
    passedOverCount = explanation.passedOverCount
    evaluatedAt = explanation.evaluatedAt
  }

  enum CodingKeys: String, CodingKey {
    case line
    case transactionID = "transaction_id"
    case policy
    case passedOver = "passed_over"
    case passedOverCount = "passed_over_count"
    case evaluatedAt = "judged_at"
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(line, forKey: .line)
    try container.encode(transactionID, forKey: .transactionID)
    try container.encode(policy, forKey: .policy)
    try container.encode(passedOver, forKey: .passedOver)
    try container.encode(passedOverCount, forKey: .passedOverCount)
    try container.encode(evaluatedAt, forKey: .evaluatedAt)
  }
}

/// One thing that happened to a user. `kind` says which members there are; of these, every one is always there.
struct HistoryEntryBody: Encodable {
  /// Whose history it is told in.
  var user: UserID
  var event: TimelineEvent

  enum CodingKeys: String, CodingKey {
    case kind
    case recordedAt = "recorded_at"
    case requestID = "request_id"
    case explanation
    case askedBy = "asked_by"
    case note, changed, environment
    case originalTransactionID = "original_transaction_id"
    case fromUserID = "from_user_id"
    case toUserID = "to_user_id"
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(event.recordedAt, forKey: .recordedAt)
    switch event {
    case .verdict(let entry, let before, let note):
      try container.encode("verdict", forKey: .kind)
      try container.encode(entry.requestID, forKey: .requestID)
      try encode(note, in: &container)
      try container.encode(entry.changed, forKey: .changed)
      try ExplainedEntitlement(entry.entitlement, after: before).encode(to: encoder)
    case .ownership(let change):
      try container.encode("ownership_change", forKey: .kind)
      try container.encode(change.requestID, forKey: .requestID)
      try encode(change.note, in: &container)
      try container.encode(change.words(for: user), forKey: .explanation)
      try container.encode(change.key.environment.rawValue, forKey: .environment)
      try container.encode(change.key.originalTransactionID.rawValue, forKey: .originalTransactionID)
      try container.encode(change.from?.rawValue, forKey: .fromUserID)
      try container.encode(change.to.rawValue, forKey: .toUserID)
    case .inquiry(let note):
      try container.encode("revalidation", forKey: .kind)
      try container.encode(note.requestID, forKey: .requestID)
      try encode(note, in: &container)
      try container.encode("Apple was asked anew, on request.", forKey: .explanation)
    }
  }

  private func encode(_ note: Note?, in container: inout KeyedEncodingContainer<CodingKeys>) throws {
    try container.encode(note?.author, forKey: .askedBy)
    try container.encode(note?.text, forKey: .note)
  }
}

extension OwnershipChange {
  /// As the user is told whose history it is. The other user is none of their business: the machine's members name them.
  package func words(for user: UserID) -> String {
    guard from != nil else { return "The purchase \(key.originalTransactionID) was presented for the first time." }
    return user == to
      ? "The purchase \(key.originalTransactionID) came here from another user of the app."
      : "The purchase \(key.originalTransactionID) went to another user of the app."
  }
}
