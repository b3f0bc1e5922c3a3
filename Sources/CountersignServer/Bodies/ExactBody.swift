/// A body that has known members alone.
///
/// A misspelt member would be left out, and the others do something else than was meant.
struct ExactBody<Value: Decodable>: Decodable {
  private var decoded: Value
  private var members: [String]

  private struct Member: CodingKey {
    var stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  init(from decoder: any Decoder) throws {
    decoded = try Value(from: decoder)
    members = try decoder.container(keyedBy: Member.self).allKeys.map(\.stringValue).sorted()
  }

  /// - Throws: a 400 problem that names a member that is none of the keys.
  func value<Key: CodingKey & CaseIterable>(of keys: Key.Type) throws(Problem) -> Value {
    let known = keys.allCases.map(\.stringValue)
    guard let member = members.first(where: { !known.contains($0) }) else { return decoded }
    let help =
      Suggestion.nearest(to: member, among: known).map { "did you mean '\($0)'?" }
      ?? "it takes \(known.map { "'\($0)'" }.joined(separator: ", "))."
    throw Problem(.malformedRequest, "\(Quotation.of(member)) is no member of this body; \(help)")
  }
}
