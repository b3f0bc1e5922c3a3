import CountersignAPI
import Entitlements
import Ledger

/// The body of `POST /v1/revalidations`.
///
/// A member that is misspelt would start a run over others than were meant, so there may be none that is not known.
struct RevalidationRequestBody: Decodable {
  var request: RunRequest
  /// Members that nobody knows, in order.
  private var unknown: [String]

  private static let known = RunRequest.CodingKeys.allCases.map(\.stringValue)

  private struct Member: CodingKey {
    var stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  init(from decoder: any Decoder) throws {
    request = try RunRequest(from: decoder)
    unknown = try decoder.container(keyedBy: Member.self).allKeys.map(\.stringValue)
      .filter { !Self.known.contains($0) }.sorted()
  }

  /// - Throws: a 400 problem.
  func order() throws(Problem) -> RunOrder {
    if let member = unknown.first {
      let help =
        Suggestion.nearest(to: member, among: Self.known).map { "did you mean '\($0)'?" }
        ?? "it takes 'expiring_within', 'limit' and 'dry_run'."
      throw Problem(.malformedRequest, "\(Quotation.of(member)) is no member of this body; \(help)")
    }
    guard let expiringWithin = request.expiringWithin else {
      throw Problem(
        .malformedRequest, "'expiring_within' is missing: say how far ahead an end may lie, for instance \"24h\".")
    }
    let limits = RevalidationsController.limit
    if let limit = request.limit, !limits.contains(limit) {
      throw Problem(.malformedRequest, "'limit' has to be from \(limits.lowerBound) to \(limits.upperBound).")
    }
    let range = RevalidationsController.expiringWithin
    do throws(Duration.TextError) {
      return RunOrder(
        expiringWithin: try Duration(configurationText: expiringWithin, in: range),
        limit: request.limit ?? limits.upperBound)
    } catch {
      let given = Quotation.of(expiringWithin)
      throw Problem(.malformedRequest, "'expiring_within' \(error.sentence(in: range)), not \(given).")
    }
  }
}
