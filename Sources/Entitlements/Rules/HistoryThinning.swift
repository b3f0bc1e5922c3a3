/// The lines that retention may take out of a user's history (`retention.history`): those that are not needed to say which
/// tier the user had, since when, and why.
///
/// These lines stay:
/// - each verdict that changed the tier, the status, the reason or the product, and the first one;
/// - the last verdict: it counts when the span that is kept whole begins;
/// - each change of owner;
/// - each note that a line which stays names as its reason.
///
/// So the history still has tier, status, reason and product at every moment. Repetition is removed: renewals, checks
/// that found the same, and notes about them.
package struct HistoryThinning {
  package struct Line: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
      case verdict(Standing)
      case ownership
      /// - Parameter namedBy: the lines that name the note as their reason, of every user.
      case note(namedBy: Set<Int64>)
    }

    package var id: Int64
    package var content: Content

    package init(id: Int64, _ content: Content) {
      self.id = id
      self.content = content
    }
  }

  /// The facts of a verdict that no other line has.
  package struct Standing: Hashable, Sendable {
    var tier: Tier
    var status: SubscriptionStatus
    var reason: EntitlementReason
    var product: ProductID?

    package init(_ entitlement: Entitlement) {
      tier = entitlement.tier
      status = entitlement.status
      reason = entitlement.reason
      product = entitlement.productID
    }
  }

  /// The lines that nobody needs.
  ///
  /// - Parameters:
  ///   - lines: the lines that are old enough, the oldest first. Those that were taken out before may be missing.
  ///   - isWhole: whether they begin with the user's first line. Where older ones were left out, the first stays.
  ///   - newest: the user's newest line, which stays.
  package static func needless(in lines: [Line], isWhole: Bool, newest: Int64) -> Set<Int64> {
    var needless: Set<Int64> = []
    var before: (id: Int64, standing: Standing, changes: Bool)?
    for line in lines {
      guard case .verdict(let standing) = line.content else { continue }
      if let before, !before.changes { needless.insert(before.id) }
      before = (line.id, standing, before.map { $0.standing != standing } ?? true)
    }
    let kept = isWhole ? [newest] : [newest] + lines.prefix(1).map(\.id)
    needless.subtract(kept)
    for line in lines where !kept.contains(line.id) {
      guard case .note(let names) = line.content, names.isSubset(of: needless) else { continue }
      needless.insert(line.id)
    }
    return needless
  }
}
