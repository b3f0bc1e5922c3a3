/// The text of a support note.
enum NoteText {
  /// The most characters (Unicode scalars) of a note.
  static let longest = 1000

  static let missing = Problem(.malformedRequest, "'note' is missing: give the reason, for readers of the history.")

  /// The note of a request, if any: of support there has to be one.
  static func checked(_ text: String?, by caller: ServerCaller) throws(Problem) -> String? {
    guard let text else {
      guard caller.roles.contains(.service) else { throw missing }
      return nil
    }
    return try checked(text)
  }

  /// A note as it is kept: without the white space around it, and with none of the characters that only terminals obey.
  static func checked(_ text: String) throws(Problem) -> String {
    let scalars = text.unicodeScalars
    let isBlank = { (scalar: Unicode.Scalar) in scalar.properties.isWhitespace }
    let trimmed = scalars.drop(while: isBlank).reversed().drop(while: isBlank).reversed()
    guard !trimmed.isEmpty else { throw missing }
    guard trimmed.count <= longest else {
      throw Problem(.malformedRequest, "'note' may have at most \(longest) characters.")
    }
    guard !trimmed.contains(where: { $0.properties.generalCategory == .control && $0 != "\n" && $0 != "\t" }) else {
      throw Problem(.malformedRequest, "'note' has control characters; write plain text.")
    }
    var note = String.UnicodeScalarView()
    note.append(contentsOf: trimmed)
    return String(note)
  }
}
