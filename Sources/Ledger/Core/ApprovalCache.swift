internal import Entitlements
internal import Synchronization

/// Cache of approval decisions. A write runs again when another write of its batch fails, and an approval may count the
/// changes that it is asked about.
final class ApprovalCache: Sendable {
  private struct Decision {
    var before: Entitlement?
    var after: Entitlement
    var isAdmitted: Bool
  }

  private let approves: Approval
  private let last = Mutex<Decision?>(nil)

  private init(_ approves: @escaping Approval) { self.approves = approves }

  /// The same approval, called once per change.
  static func remembering(_ approves: @escaping Approval) -> Approval {
    let memory = ApprovalCache(approves)
    return { before, after in memory.isAdmitted(before, after) }
  }

  private func isAdmitted(_ before: Entitlement?, _ after: Entitlement) -> Bool {
    if let last = last.withLock({ $0 }), last.before == before, last.after == after { return last.isAdmitted }
    let isAdmitted = approves(before, after)
    last.withLock { $0 = Decision(before: before, after: after, isAdmitted: isAdmitted) }
    return isAdmitted
  }
}
