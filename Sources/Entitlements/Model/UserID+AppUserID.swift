@_spi(_Unicode) import Swift

extension UserID {
  /// A user ID from outside: one of this service's, or of RevenueCat's SDKs, which may have other signs.
  package init?(fromOutside text: String) {
    guard let id = UserID(valid: text) ?? UserID(appUserID: text) else { return nil }
    self = id
  }

  /// An app user ID of RevenueCat's: 1 to 100 characters, any but `/`, spaces and controls, and none of the words that a
  /// program writes where it has no ID; nor `me`, which names the caller in our own paths.
  /// https://www.revenuecat.com/docs/customers/user-ids
  ///
  /// It is kept in Unicode's Normalization Form C (UAX #15): Apple's systems decompose `é` at times, and the user is the same.
  package init?(appUserID text: String) {
    // No text is shorter than a third of what it is decomposed.
    guard text.utf8.count <= 1_200 else { return nil }
    let id = text.utf8.allSatisfy { $0 < 0x80 } ? text : Self.composed(text)
    let isPlain = id.unicodeScalars.allSatisfy { scalar in
      scalar != "/" && !scalar.properties.isWhitespace && scalar.properties.generalCategory != .control
    }
    guard isPlain, (1...100).contains(id.count), id.utf8.count <= 400, !Self.placeholders.contains(id), id != "me"
    else { return nil }
    self.init(id)
  }

  /// The standard library's own, by which it compares texts: the public function for it is full Foundation's.
  private static func composed(_ text: String) -> String {
    var scalars = String.UnicodeScalarView()
    scalars.append(contentsOf: text._nfc)
    return String(scalars)
  }

  /// RevenueCat's list of blocked IDs. The last is the name of erased users where users are shown.
  static let placeholders: Set<String> = [
    "no_user", "null", "none", "nil", "(null)", "NaN", "unidentified", "undefined", "unknown", "anonymous", "guest",
    "-1", "0", "[]", "{}", "[object Object]", "(erased)",
  ]
}
