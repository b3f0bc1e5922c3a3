import CountersignAPI
import Entitlements
import Ledger

/// The body of `POST /v1/revalidations`.
extension RunRequest {
  /// - Throws: a 400 problem.
  func order() throws(Problem) -> RunOrder {
    guard let expiringWithin else {
      throw Problem(
        .malformedRequest, "'expiring_within' is missing: say how far ahead an end may lie, for instance \"24h\".")
    }
    let limits = RevalidationsController.limit
    if let limit, !limits.contains(limit) {
      throw Problem(.malformedRequest, "'limit' has to be from \(limits.lowerBound) to \(limits.upperBound).")
    }
    let range = RevalidationsController.expiringWithin
    do throws(Duration.TextError) {
      return RunOrder(
        expiringWithin: try Duration(configurationText: expiringWithin, in: range),
        limit: limit ?? limits.upperBound)
    } catch {
      let given = Quotation.of(expiringWithin)
      throw Problem(.malformedRequest, "'expiring_within' \(error.sentence(in: range)), not \(given).")
    }
  }
}
