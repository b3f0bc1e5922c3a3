import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// The job that evaluates all users again, once, if the rules are not those of the last evaluation, so that the app's
/// rows say what reads say.
///
/// A gain by the rules is recorded. A loss by time is recorded if the downgrade brake approves. A loss by the rules alone is
/// withheld and counted, until a person releases it or Apple's next answer about the purchase decides.
///
/// The review does not ask Apple. Users are read in pages, in the order of their IDs; each that changes is a transaction of its
/// own. The progress is kept now and then, so that a restart continues there.
struct RulesReviewer: Service {
  var review: RulesReview
  var rules: EntitlementRules
  var ledger: Ledger
  var brake: DowngradeBrakeService
  var logger: Logger
  var now: @Sendable () -> Date
  var pause: Duration = .seconds(1)
  var batch = 100
  var pages = Pacer(rate: 20)
  /// The pace of the recorded verdicts.
  var writes = Pacer(rate: 100)

  /// The number of pages after which the progress is written down.
  static let pagesKept = 20

  func run() async throws {
    await cancelWhenGracefulShutdown {
      announce()
      var tally = Tally()
      await repeatUntilCancelled { await advance(&tally) ? nil : pause }
    }
  }

  struct Tally {
    var pages = 0
    var users = 0
    var changed = 0
    var heldBack = 0
  }

  private enum Outcome {
    case unchanged
    case changed
    /// The downgrade brake held the verdict back.
    case heldBack
    /// The rules alone would lower the user, to whom this product gives more.
    case withheld(ProductID)
  }

  /// Evaluates one page.
  ///
  /// - Returns: whether there is more to do at once.
  func advance(_ tally: inout Tally) async -> Bool {
    guard let place = review.place(at: now()), await pages.turn() else { return false }
    do throws(LedgerError) {
      let page = try await ledger.profiles(after: place.after, limit: batch)
      var withheld: [String: Int] = [:]
      var changed = 0
      if !page.unreadable.isEmpty { logUnreadable(page.unreadable) }
      for user in page.users where !Task.isCancelled {
        switch try await evaluate(user, isReleased: place.isReleased) {
        case .unchanged: break
        case .changed: changed += 1
        case .heldBack: tally.heldBack += 1
        case .withheld(let product): withheld[product.rawValue, default: 0] += 1
        }
      }
      guard !Task.isCancelled else { return false }
      tally.pages += 1
      tally.users += page.users.count
      tally.changed += changed
      let known = review.withheldProducts
      let isOver = review.passed(place, to: page.last, withheld: withheld, at: now())
      if isOver || changed > 0 || tally.pages.isMultiple(of: Self.pagesKept) { await review.keep(logger) }
      if changed > 0 { await brake.keep(logger) }
      if isOver { finish(&tally, isNews: review.withheldProducts != known) }
      return !isOver
    } catch {
      logger.warning("users cannot be re-evaluated", metadata: ["error": "\(error)"])
      return false
    }
  }

  private func logUnreadable(_ users: [UserID]) {
    logger.error(
      "users in the ledger cannot be read, and are not re-evaluated",
      metadata: ["users": "\(users.map(\.rawValue).joined(separator: " "))"])
  }

  private func evaluate(_ user: UserProfile, isReleased: Bool) async throws(LedgerError) -> Outcome {
    let id = user.user
    let now = now()
    let recorded = user.profile.entitlement
    let profile = user.profile
    let verdict = rules.evaluate(id, profile.evidence, given: profile.given, at: now)
    let isWithheld = rules.withholds(
      verdict, from: id, profile.evidence, given: profile.given, recorded: recorded, at: now)
    if !isReleased, isWithheld {
      return recorded.productID.map(Outcome.withheld) ?? .unchanged
    }
    // Reads compute everything that the row does not have.
    guard verdict.profileRow != recorded.profileRow, await writes.turn() else { return .unchanged }
    // Something may have been recorded since the page was read.
    let context = EvaluationContext(evaluatedAt: now, recordedAt: now, rules: rules)
    let withholds: Withholding = { [rules] verdict, evidence, given, recorded, now in
      !isReleased && rules.withholds(verdict, from: id, evidence, given: given, recorded: recorded, at: now)
    }
    let brakeAdmits = brake.approval(of: rules)
    // A person has decided about what is released.
    let approves: Approval = { before, after in isReleased || brakeAdmits(before, after) }
    let reevaluation = Reevaluate(
      id, requestID: "rules-\(review.name)", context, withholds: withholds, approves: approves)
    switch try await ledger.run(reevaluation) {
    case .recorded: return .changed
    case .unchanged: return .unchanged
    case .heldBack:
      await brake.announce(logger)
      return .heldBack
    }
  }

  private func finish(_ tally: inout Tally, isNews: Bool) {
    if tally.changed > 0 || tally.heldBack > 0 {
      logger.notice(
        "the catalog or a policy changed: users are re-evaluated",
        metadata: [
          "users": .stringConvertible(tally.users), "changed": .stringConvertible(tally.changed),
          "held_back": .stringConvertible(tally.heldBack),
        ])
    }
    tally = Tally()
    if isNews { announce() }
  }

  /// Logs what is withheld, once at each start and when a pass has counted otherwise.
  private func announce() {
    let withheld = review.withheldProducts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
    guard !withheld.isEmpty else { return }
    let named = withheld.prefix(5).map { "\($0.value) of \($0.key)" }.joined(separator: ", ")
    logger.warning(
      "the catalog or a policy would lower subscribers: they keep their tier until the brake is released",
      metadata: [
        "withheld": .stringConvertible(review.withheld), "products": "\(named)\(withheld.count > 5 ? ", …" : "")",
      ])
  }
}
