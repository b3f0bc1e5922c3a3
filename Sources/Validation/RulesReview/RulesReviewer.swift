package import Entitlements
package import Ledger
package import Logging
import Resilience
import ServiceLifecycle

package import struct FoundationEssentials.Date

/// Judges all users anew, once, when the rules are not those by which they were judged last: so that the app's rows say what
/// reads say.
///
/// What the rules raise is recorded. What time has ended is recorded where the downgrade brake lets it. What only the rules
/// would lower is withheld, and counted, until somebody releases it or Apple's next answer about the purchase decides.
///
/// It asks Apple nothing. Users are looked at in pages, in the order of their IDs; each that changes is a transaction of its
/// own. How far it is, is kept now and then, so that a restart goes on there.
package struct RulesReviewer: Service {
  package var review: RulesReview
  package var rules: EntitlementRules
  package var ledger: any Ledger
  package var brake: DowngradeBrakeService
  package var logger: Logger
  package var now: @Sendable () -> Date
  /// The pause when there is nothing to do.
  package var pause: Duration = .seconds(1)
  /// Users looked at in one turn.
  var batch = 100
  /// Spaces out the pages.
  var pages = Pacer(rate: 20)
  /// Spaces out the verdicts that are recorded.
  var writes = Pacer(rate: 100)

  package init(
    review: RulesReview, rules: EntitlementRules, ledger: any Ledger, brake: DowngradeBrakeService, logger: Logger,
    now: @escaping @Sendable () -> Date, pause: Duration = .seconds(1), batch: Int = 100,
    pages: Pacer = Pacer(rate: 20), writes: Pacer = Pacer(rate: 100)
  ) {
    self.review = review
    self.rules = rules
    self.ledger = ledger
    self.brake = brake
    self.logger = logger
    self.now = now
    self.pause = pause
    self.batch = batch
    self.pages = pages
    self.writes = writes
  }

  /// Pages after which it is written down how far it is.
  static let pagesKept = 20

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      announce()
      var tally = Tally()
      await repeatUntilCancelled { await advance(&tally) ? nil : pause }
    }
  }

  /// The result of a pass in this process, for the log.
  struct Tally {
    var pages = 0
    var users = 0
    var changed = 0
    var heldBack = 0
  }

  private enum Outcome {
    case unchanged
    case changed
    /// The downgrade brake holds.
    case heldBack
    /// The rules alone would lower the user, who has more by this product.
    case withheld(ProductID)
  }

  /// Judges one page.
  /// - Returns: whether there is more to do at once.
  func advance(_ tally: inout Tally) async -> Bool {
    guard let place = review.place(at: now()), await pages.turn() else { return false }
    do throws(LedgerError) {
      let page = try await ledger.profiles(after: place.after, limit: batch)
      var withheld: [String: Int] = [:]
      var changed = 0
      for user in page where !Task.isCancelled {
        switch try await evaluate(user, isReleased: place.isReleased) {
        case .unchanged: break
        case .changed: changed += 1
        case .heldBack: tally.heldBack += 1
        case .withheld(let product): withheld[product.rawValue, default: 0] += 1
        }
      }
      guard !Task.isCancelled else { return false }
      tally.pages += 1
      tally.users += page.count
      tally.changed += changed
      let isLast = page.count < batch
      let isOver = review.passed(place, to: isLast ? nil : page.last?.user, withheld: withheld, at: now())
      if isOver || changed > 0 || tally.pages.isMultiple(of: Self.pagesKept) { await review.keep(logger) }
      if changed > 0 { await brake.keep(logger) }
      if isOver { finish(&tally) }
      return !isOver
    } catch {
      logger.warning("users cannot be re-evaluated", metadata: ["error": "\(error)"])
      return false
    }
  }

  private func evaluate(_ user: UserProfile, isReleased: Bool) async throws(LedgerError) -> Outcome {
    let id = user.user
    let now = now()
    let recorded = user.profile.entitlement
    let verdict = rules.evaluate(id, user.profile.evidence, at: now)
    if !isReleased, rules.withholds(verdict, from: id, user.profile.evidence, recorded: recorded, at: now) {
      return recorded.productID.map(Outcome.withheld) ?? .unchanged
    }
    // Reads compute the rest, which the row does not hold.
    guard verdict.profileRow != recorded.profileRow, await writes.turn() else { return .unchanged }
    // Something may have been recorded since the page was read.
    let successor: Reevaluation.Successor = { [rules] evidence, recorded, now in
      let verdict = rules.evaluate(id, evidence, at: now)
      guard isReleased || !rules.withholds(verdict, from: id, evidence, recorded: recorded, at: now) else { return nil }
      return verdict
    }
    let brakeAdmits = brake.approval(of: rules)
    // Somebody has looked into what is released.
    let approves: Approval = { before, after in isReleased || brakeAdmits(before, after) }
    let reevaluation = Reevaluation(evaluatedAt: now, recordedAt: now, successor: successor, approves: approves)
    let outcome = try await ledger.reevaluate(id, requestID: "rules-\(review.name)", reevaluation)
    switch outcome {
    case .recorded: return .changed
    case .unchanged: return .unchanged
    case .heldBack:
      await brake.announce(logger)
      return .heldBack
    }
  }

  private func finish(_ tally: inout Tally) {
    if tally.changed > 0 || tally.heldBack > 0 {
      logger.notice(
        "the catalog or a policy changed: users are re-evaluated",
        metadata: ["users": "\(tally.users)", "changed": "\(tally.changed)", "held_back": "\(tally.heldBack)"])
    }
    tally = Tally()
    announce()
  }

  /// Says from whom something is withheld: once after each pass and each start.
  private func announce() {
    let withheld = review.withheldProducts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
    guard !withheld.isEmpty else { return }
    let named = withheld.prefix(5).map { "\($0.value) of \($0.key)" }.joined(separator: ", ")
    logger.warning(
      "the catalog or a policy would lower subscribers: they keep their tier until the brake is released",
      metadata: ["withheld": "\(review.withheld)", "products": "\(named)\(withheld.count > 5 ? ", …" : "")"])
  }
}
