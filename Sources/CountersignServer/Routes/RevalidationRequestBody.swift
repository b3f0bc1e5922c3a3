import Entitlements
import Ledger

/// What `POST /v1/revalidations` takes.
///
/// A member that is misspelt would start a run over others than were meant, so there may be none that is not known.
struct RevalidationRequestBody: Decodable {
  var expiringWithin: String?
  var limit: Int?
  var dryRun: Bool?
  /// Members that nobody knows, in order.
  private var unknown: [String]

  enum CodingKeys: String, CodingKey, CaseIterable {
    case expiringWithin = "expiring_within"
    case limit
    case dryRun = "dry_run"
  }

  private struct Member: CodingKey {
    var stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  init(from decoder: any Decoder) throws {
    let known = Set(CodingKeys.allCases.map(\.stringValue))
    unknown = try decoder.container(keyedBy: Member.self).allKeys.map(\.stringValue).filter { !known.contains($0) }
      .sorted()
    let container = try decoder.container(keyedBy: CodingKeys.self)
    expiringWithin = try container.decodeIfPresent(String.self, forKey: .expiringWithin)
    limit = try container.decodeIfPresent(Int.self, forKey: .limit)
    dryRun = try container.decodeIfPresent(Bool.self, forKey: .dryRun)
  }

  /// - Throws: a 400 problem.
  func order() throws(Problem) -> RunOrder {
    if let member = unknown.first {
      let names = CodingKeys.allCases.map(\.stringValue)
      let help =
        Suggestion.nearest(to: member, among: names).map { "did you mean '\($0)'?" }
        ?? "it takes 'expiring_within', 'limit' and 'dry_run'."
      throw Problem(.malformedRequest, "\(Quotation.of(member)) is no member of this body; \(help)")
    }
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
        expiringWithin: try Duration(configurationText: expiringWithin, in: range), limit: limit ?? limits.upperBound)
    } catch {
      let given = Quotation.of(expiringWithin)
      throw Problem(.malformedRequest, "'expiring_within' \(error.sentence(in: range)), not \(given).")
    }
  }
}
