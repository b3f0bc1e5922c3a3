import Entitlements
import Foundation
import Ledger

/// All that a ledger answers, in words: the same before and after an upgrade.
struct FormerAnswers {
  static let small = "abcdef01-2345-4678-9abc-def012345678"
  static let other = "abcdef01-2345-4678-9abc-def012345679"
  static let users: [UserID] = [
    "anna", "ben", "cleo", "dora", "emil", "fred", "gina", "hugo", "noted", UserID(small),
    UserID(small.uppercased()), UserID(other), UserID(annasAccount), "nobody",
  ]
  static let ids: [OriginalTransactionID] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "60", "61", "99"]

  static func all(of ledger: Ledger) async throws -> [String] {
    var lines: [String] = []
    func time(_ date: Date?) -> String { date.map { "\($0.millisecondsSince1970)" } ?? "-" }
    func words(_ verdict: Entitlement?) -> String {
      guard let verdict else { return "-" }
      return """
        \(verdict.tier) \(verdict.status) \(verdict.reason) until \(time(verdict.accessUntil)) \
        of \(time(verdict.evidenceTime)) \(verdict.originalTransactionID?.rawValue ?? "-") \
        at \(time(verdict.explanation.evaluatedAt))
        """
    }
    /// Without what evidence has come to have since, of which a former ledger knows nothing.
    func asBefore(_ evidence: SubscriptionEvidence) -> String {
      [", unlocks: [:]", ", sale: nil", ", grace: nil", ", status: nil", ", isGraceOver: nil", ", appVersion: nil"]
        .reduce("\(evidence)") { $0.replacing($1, with: "") }
    }
    func words(_ note: Note?) -> String {
      note.map { "\($0.author): \($0.text) (\($0.requestID) \(time($0.recordedAt)))" } ?? "-"
    }
    func words(_ change: OwnershipChange) -> String {
      "\(change.key) \(change.from?.rawValue ?? "-") > \(change.to) \(time(change.recordedAt)) \(change.requestID) "
        + words(change.note)
    }
    lines.append("backlog \(try await ledger.backlog(at: at(0)))")
    lines.append("backlog \(try await ledger.backlog(at: at(10_000)))")
    for user in users {
      lines.append("# \(user) \(try await ledger.isKnown(user))")
      if let profile = try await ledger.profile(of: user) {
        lines.append("profile \(profile.version) \(words(profile.entitlement)) \(profile.write)")
        for evidence in profile.evidence { lines.append("evidence \(asBefore(evidence))") }
      }
      for line in try await ledger.history(of: user, before: nil, limit: 1_000) {
        lines.append("line \(time(line.recordedAt)) \(line.requestID) \(line.changed) \(words(line.entitlement))")
      }
      var place: TimelinePosition?
      repeat {
        let page = try await ledger.timeline(of: user, before: place, limit: 3)
        for event in page.events {
          switch event {
          case .verdict(let line, let before, let note):
            lines.append(
              "verdict \(time(line.recordedAt)) \(words(line.entitlement)) after \(words(before)) because \(words(note))"
            )
          case .ownership(let change): lines.append("change " + words(change))
          case .inquiry(let note): lines.append("inquiry " + words(note))
          case .removed(let stretch): lines.append("removed \(stretch.events)")
          }
        }
        place = page.next
      } while place != nil
      if let update = try await ledger.waitingUpdate(of: user) {
        lines.append(
          "update \(update.user) \(update.version) \(update.state) \(update.attempts) \(time(update.waitingSince)) "
            + words(update.entitlement))
      }
      for receipt in try await ledger.receipts(of: user, limit: 9) {
        lines.append("receipt \(receipt.key) \(receipt.receipt.base64) \(receipt.receipt.bundleID)")
      }
      for id in ids {
        let knowledge = try await ledger.knowledge(of: "receipt-\(id)", for: user)
        if knowledge.wasEvaluated || !knowledge.proves.isEmpty {
          lines.append("knows receipt-\(id): \(knowledge.wasEvaluated) \(knowledge.proves.map { "\($0)" }.sorted())")
        }
      }
    }
    for id in ids {
      for receipt in try await ledger.receipts(mentioning: id) {
        lines.append(
          "mentioned \(id) \(receipt.base64) \(receipt.environment) \(receipt.owner?.rawValue ?? "-") \(receipt.isOwnedByName)"
        )
      }
      for purchase in try await ledger.ownedPurchases(id) {
        lines.append("owned \(id) \(purchase.owner) \(asBefore(purchase.evidence))")
        for change in purchase.changes { lines.append("  " + words(change)) }
      }
      for evidence in try await ledger.unclaimedPurchases(id) { lines.append("unclaimed \(id) \(asBefore(evidence))") }
      for line in try await ledger.notifications(of: key(id.rawValue), limit: 9) {
        lines.append("notification \(line)")
      }
      lines.append(
        "found \(id) \(try await ledger.purchases(with: TransactionID("9\(id)"), until: .now + .seconds(9)).keys)")
    }
    lines.append("pending \(try await ledger.pendingReceipts(dueAt: at(1e6), limit: 50))")
    lines.append("run \(String(describing: try await ledger.activeRun()))")
    lines.append("due \(try await ledger.countDue(RunOrder(expiringWithin: .seconds(86_400), limit: 100), at: at(0)))")
    lines.append("overdue \(try await ledger.usersOverdue(since: at(2_000), limit: 50).map(\.rawValue).sorted())")
    lines.append("memo \(try await ledger.memo("name") ?? "-")")
    for recheck in try await ledger.claimRechecks(dueAt: at(1e6), limit: 50).sorted(by: { "\($0)" < "\($1)" }) {
      lines.append("recheck \(recheck)")
    }
    for update in try await ledger.claimUpdates(dueAt: at(1e6), until: at(2e6), limit: 50) {
      lines.append("claimed \(update.user) \(update.version) \(update.state) \(update.attempts)")
    }
    return lines
  }
}
