import CountersignServer
import Entitlements
import Profiles

/// The text of a value is invalid; the sentence says what is valid. It never contains a secret.
struct BadValue: Error, Hashable {
  let sentence: String
}

/// Parsers of values: `8080`, `4MiB`, `60d`, `https://…`.
enum ConfigurationValue {
  /// Non-empty text without characters that could split a log line or a path.
  static func text(_ text: String) throws(BadValue) {
    guard !text.isEmpty else { throw BadValue(sentence: "must not be empty") }
    guard text.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control }) else {
      throw BadValue(sentence: "must not contain control characters or line breaks")
    }
  }

  static func integer(_ text: String, in range: ClosedRange<Int>) throws(BadValue) -> Int {
    guard let digits = number(text[...]) else {
      throw BadValue(sentence: "must be a whole number, not \(quoted(text))")
    }
    guard range.contains(digits) else {
      throw BadValue(sentence: "must be from \(range.lowerBound) to \(range.upperBound), not \(quoted(text))")
    }
    return digits
  }

  /// A number of bytes: `4MiB`, `512KiB`, `1GiB`, or plain bytes.
  static func size(_ text: String, in range: ClosedRange<Int>) throws(BadValue) -> Int {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    let scales = ["": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30]
    guard let count = number(digits), let scale = scales[String(text[digits.endIndex...])] else {
      throw BadValue(sentence: "must be a size such as 4MiB, 512KiB or 65536 (bytes), not \(quoted(text))")
    }
    let (bytes, overflow) = count.multipliedReportingOverflow(by: scale)
    guard !overflow, range.contains(bytes) else {
      throw BadValue(
        sentence: "must be from \(describe(size: range.lowerBound)) to \(describe(size: range.upperBound)), "
          + "not \(quoted(text))")
    }
    return bytes
  }

  /// `250ms`, `10s`, `5m`, `24h`, `60d`, or `0`.
  static func duration(_ text: String, in range: ClosedRange<Duration>) throws(BadValue) -> Duration {
    do throws(Duration.TextError) { return try Duration(configurationText: text, in: range) } catch {
      throw BadValue(sentence: "\(error.sentence(in: range)), not \(quoted(text))")
    }
  }

  static func choice(_ text: String, of choices: [String]) throws(BadValue) {
    guard !choices.contains(text) else { return }
    throw BadValue(
      sentence: "must be \(alternatives(choices)), not \(quoted(text))" + Suggestion.clause(for: text, among: choices))
  }

  /// An absolute https URL without user part and fragment.
  ///
  /// Its authority is limited to characters on which every URL parser agrees, so that the host checked here is the host
  /// that is called. The text is not quoted: a URL that contains a password is a common mistake.
  static func url(_ text: String) throws(BadValue) {
    let scheme = "https://"
    guard text.prefix(scheme.count).lowercased() == scheme else {
      throw BadValue(sentence: "must be an https:// URL: receipts and the shared secret are sent there")
    }
    try wellFormed(text.dropFirst(scheme.count))
  }

  /// An absolute https URL, or an http one whose host is this machine: anybody who can change the response can forge
  /// tokens of any user.
  static func keySetURL(_ text: String) throws(BadValue) {
    if text.prefix(7).lowercased() == "http://" {
      guard isLoopback(text) else {
        throw BadValue(sentence: "must be an https:// URL: keys that are believed come from there")
      }
      return try wellFormed(text.dropFirst(7))
    }
    guard text.prefix(8).lowercased() == "https://" else {
      throw BadValue(
        sentence: "must be an https:// URL such as https://project.supabase.co/auth/v1/.well-known/jwks.json")
    }
    try wellFormed(text.dropFirst(8))
  }

  /// Whether an http URL is of this machine.
  static func isLoopback(_ url: String) -> Bool {
    let authority = url.dropFirst("http://".count).prefix { $0 != "/" && $0 != "?" && $0 != "#" }.lowercased()
    return authority.wholeMatch(of: /(?:127\.[0-9.]+|localhost|\[::1\])(?::[0-9]+)?/) != nil
  }

  /// An absolute https or http URL to which paths are added: without user part, query and fragment.
  static func baseURL(_ text: String) throws(BadValue) {
    let schemes = ["https://", "http://"]
    guard let scheme = schemes.first(where: { text.prefix($0.count).lowercased() == $0 }) else {
      throw BadValue(sentence: "must be an https:// URL, or an http:// one for a store on the same machine")
    }
    guard !text.contains("?") else { throw BadValue(sentence: "must not contain a query (?…): paths are added to it") }
    try wellFormed(text.dropFirst(scheme.count))
  }

  /// The name of a PostgreSQL schema, table or column.
  static func name(_ text: String) throws(BadValue) -> PostgRESTName {
    guard let name = PostgRESTName(text) else {
      throw BadValue(
        sentence: "must be a plain name of up to \(PostgRESTName.lengthLimit) letters, digits and _, and no word that "
          + "PostgREST keeps for itself (select, order, limit, …), not \(quoted(text))")
    }
    return name
  }

  /// - Parameter rest: the part of a URL after `//`.
  private static func wellFormed(_ rest: Substring) throws(BadValue) {
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    guard !authority.contains("@") else { throw BadValue(sentence: "must not contain a user name or password") }
    guard !rest.contains("#") else { throw BadValue(sentence: "must not contain a fragment (#…)") }
    guard rest.utf8.allSatisfy({ (0x21...0x7e).contains($0) && !#""<>\^`{|}"#.utf8.contains($0) }),
      authority.wholeMatch(of: /(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/)
        .map({ $0.1.map { (1...65_535).contains(Int($0) ?? 0) } ?? true }) == true
    else { throw BadValue(sentence: "is not a well-formed URL") }
  }

  /// A shared secret: printable ASCII without spaces, so that a second line or a stray blank is reported here and not
  /// by Apple's refusal.
  static func secret(_ text: String) throws(BadValue) {
    guard !text.isEmpty else { throw BadValue(sentence: "must not be empty") }
    guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw BadValue(sentence: "must be one word of printable ASCII: no spaces, no second line")
    }
    guard text.utf8.count <= 1_024 else { throw BadValue(sentence: "must not be longer than 1024 characters") }
  }

  /// Checks the outer form of a private key in PEM (RFC 7468); its user parses the content.
  static func privateKey(_ text: String) throws(BadValue) {
    guard !text.isEmpty else { throw BadValue(sentence: "must not be empty") }
    guard text.utf8.count <= 16_384 else { throw BadValue(sentence: "must not be longer than 16384 characters") }
    let lines = text.split(whereSeparator: \.isNewline)
    guard let first = lines.first, first.hasPrefix("-----BEGIN "), first.hasSuffix("PRIVATE KEY-----") else {
      throw BadValue(sentence: "must be a private key in PEM, from -----BEGIN PRIVATE KEY----- on")
    }
    guard let last = lines.last, lines.count > 2, last.hasPrefix("-----END "), last.hasSuffix("PRIVATE KEY-----") else {
      throw BadValue(sentence: "must be a private key in PEM to its end, -----END PRIVATE KEY-----")
    }
  }

  /// An operator's text in quotes: short, on one line, in ASCII.
  static func quoted(_ text: String) -> String { Quotation.of(text) }

  /// A path in quotes: useful only when complete, but no longer than the system's limit.
  static func quoted(path: String) -> String { Quotation.of(path, length: 4_096) }

  /// A misspelt key, up to the first character that no key contains: without the blank, `shared_secret:…` is one word
  /// in YAML, and its rest is a secret.
  static func quoted(key: String) -> String {
    let word = key.unicodeScalars.prefix {
      ("a"..."z").contains($0) || ("A"..."Z").contains($0) || ("0"..."9").contains($0)
        || "_.-".unicodeScalars.contains($0)
    }
    return Quotation.of(String(word)) + (word.endIndex == key.unicodeScalars.endIndex ? "" : " (…)")
  }

  /// `accept, testers or reject`
  static func alternatives(_ words: [String]) -> String { joined(words, by: "or") }

  /// `name, role and sha256`
  static func list(_ words: [String]) -> String { joined(words, by: "and") }

  private static func joined(_ words: [String], by conjunction: String) -> String {
    guard let last = words.last, words.count > 1 else { return words.joined() }
    return words.dropLast().joined(separator: ", ") + " \(conjunction) " + last
  }

  static func describe(size: Int) -> String {
    for (name, scale) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] where size >= scale && size % scale == 0
    {
      return "\(size / scale)\(name)"
    }
    return "\(size)"
  }

  /// ASCII digits only: `Int` would also take a sign.
  private static func number(_ digits: Substring) -> Int? {
    guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int(digits)
  }
}
