import Access
import CountersignServer
import Entitlements
import Files
import FoundationEssentials
import HTTPTransport
import Ledger
import Profiles
import Webhooks

/// The text of a value is invalid; the sentence says what is valid. It never contains a secret.
struct BadValue: Error, Hashable {
  let sentence: String

  init(_ sentence: String) { self.sentence = sentence }
}

/// A form of values: its name in the reference, and how a value is read from a text.
struct ValueForm<Value> {
  let name: String
  let read: (String) throws(BadValue) -> Value
  /// The text of a value, as an operator writes it.
  var write: (Value) -> String = { "\($0)" }
}

extension ValueForm {
  /// - Parameter complaint: what is wrong with a text that cannot be read.
  init(name: String, _ parse: @escaping (String) -> Value?, or complaint: @escaping (String) -> String) {
    self.init(name: name) { text throws(BadValue) in
      guard let value = parse(text) else { throw BadValue(complaint(text)) }
      return value
    }
  }
}

extension ValueForm<Int> {
  static func integer(_ range: ClosedRange<Int>) -> Self {
    Self(name: "\(range.lowerBound) to \(range.upperBound)") { text throws(BadValue) in
      guard let number = number(text[...]) else {
        throw BadValue("must be a whole number, not \(Quotation.of(text))")
      }
      guard range.contains(number) else {
        throw BadValue("must be from \(range.lowerBound) to \(range.upperBound), not \(Quotation.of(text))")
      }
      return number
    }
  }

  /// A number of bytes: `4MiB`, `512KiB`, `1GiB`, or plain bytes.
  static func size(_ range: ClosedRange<Int>) -> Self {
    let bounds = "\(Wording.size(range.lowerBound)) to \(Wording.size(range.upperBound))"
    return Self(name: "size, \(bounds)") { text throws(BadValue) in
      let digits = text.prefix { $0.isASCII && $0.isNumber }
      let scales = ["": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30]
      guard let count = number(digits), let scale = scales[String(text[digits.endIndex...])] else {
        throw BadValue("must be a size such as 4MiB, 512KiB or 65536 (bytes), not \(Quotation.of(text))")
      }
      let (bytes, overflow) = count.multipliedReportingOverflow(by: scale)
      guard !overflow, range.contains(bytes) else {
        throw BadValue("must be from \(bounds), not \(Quotation.of(text))")
      }
      return bytes
    } write: {
      Wording.size($0)
    }
  }

  /// ASCII digits only: `Int` would also take a sign.
  private static func number(_ digits: Substring) -> Int? {
    digits.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(digits) : nil
  }
}

extension ValueForm<Duration> {
  /// `250ms`, `10s`, `5m`, `24h`, `60d`, or `0`.
  static func duration(_ range: ClosedRange<Duration>) -> Self {
    let bounds = "\(range.lowerBound.configurationText) to \(range.upperBound.configurationText)"
    return Self(name: "duration, \(bounds)") { text throws(BadValue) in
      do throws(Duration.TextError) { return try Duration(configurationText: text, in: range) } catch {
        throw BadValue("\(error.sentence(in: range)), not \(Quotation.of(text))")
      }
    } write: {
      // One day is usually called 24 hours.
      $0 == .days(1) ? "24h" : $0.configurationText
    }
  }
}

extension ValueForm<Zone> {
  /// A zone by its IANA name, or UTC.
  static var timeZone: Self {
    Self(name: "time zone") { text throws(BadValue) in
      if let zone = Zone(named: text) { return zone }
      let names = Zone.suggestions
      throw BadValue(
        "must be an IANA name such as Europe/Berlin, or UTC, not \(Quotation.of(text))"
          + (names.isEmpty ? "; this machine has no tzdata" : Suggestion.clause(for: text, among: names)))
    } write: {
      $0.name
    }
  }
}

extension Duration {
  static func minutes(_ count: Int) -> Duration { .seconds(count * 60) }
  static func days(_ count: Int) -> Duration { .seconds(count * 86_400) }
}

extension ValueForm where Value: CaseIterable & RawRepresentable<String> {
  /// One of the cases of an enumeration.
  static var choice: Self {
    let choices = Value.allCases.map(\.rawValue)
    return Self(name: choices.map { "`\($0)`" }.joined(separator: ", ")) { text throws(BadValue) in
      guard let value = Value(rawValue: text) else {
        throw BadValue(
          "must be \(Wording.alternatives(choices)), not \(Quotation.of(text))"
            + Suggestion.clause(for: text, among: choices))
      }
      return value
    } write: {
      $0.rawValue
    }
  }
}

extension ValueForm<String> {
  static var text: Self { Self(name: "text") { $0 } }

  /// An address or the name of a host.
  static var host: Self {
    Self(name: "text") { text in
      text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "/") } ? text : nil
    } or: {
      "must be an address or a host name, not \(Quotation.of($0))"
    }
  }

  /// A file that has to exist. It is opened now, so that a wrong path fails at the start and not at the first use.
  static var file: Self {
    Self(name: "file") { path throws(BadValue) in
      do throws(BoundedFile.Unusable) {
        guard try !BoundedFile(path: path, limit: ConfigurationReader.certificateFileLimit).bytes.isEmpty else {
          throw BoundedFile.Unusable(reason: "is empty")
        }
        return path
      } catch { throw BadValue("the file \(Quotation.of(path, length: 4_096)) \(error.reason)") }
    }
  }

  /// The file of a database. SQLite reads the texts that are refused as an in-memory database and as a URI with options;
  /// both could lose acknowledged data.
  static var databaseFile: Self {
    Self(name: "file") {
      $0 != ":memory:" && !$0.hasPrefix("file:") && !isDatabase($0) ? $0 : nil
    } or: {
      // Not quoted: a password may be in it.
      isDatabase($0)
        ? "is a URL: set ledger.url or ledger.url_file" : "must be the path of a file: what is recorded has to last"
    }
  }

  private static func isDatabase(_ text: String) -> Bool {
    ["postgresql", "postgres"].contains(text.prefix { $0 != ":" }.lowercased()) && text.contains("://")
  }

  /// An absolute https URL without user part and fragment.
  static var url: Self {
    Self(name: "https URL") { text throws(BadValue) in
      guard let rest = text.dropping(prefix: "https://") else {
        throw BadValue("must be an https:// URL: receipts and the shared secret are sent there")
      }
      try checkURL(rest)
      return text
    }
  }

  /// An absolute https URL, or an http one whose host is this machine: anybody who can change the response can forge
  /// tokens of any user.
  static var keySetURL: Self {
    Self(name: "https URL") { text throws(BadValue) in
      let plain = text.dropping(prefix: "http://")
      guard plain == nil || Loopback.contains(url: text) else {
        throw BadValue("must be an https:// URL: keys that are believed come from there")
      }
      guard let rest = plain ?? text.dropping(prefix: "https://") else {
        throw BadValue("must be an https:// URL such as https://project.supabase.co/auth/v1/.well-known/jwks.json")
      }
      try checkURL(rest)
      return text
    }
  }

  /// The URL of a receiver of events: http only where the receiver may be at a private address.
  static func webhookURL(isPrivate: Bool) -> Self {
    Self(name: "https URL") { text throws(BadValue) in
      let plain = text.dropping(prefix: "http://")
      guard plain == nil || isPrivate else {
        throw BadValue("must be an https:// URL; http is for a receiver with private: true")
      }
      guard let rest = plain ?? text.dropping(prefix: "https://") else { throw BadValue("must be an https:// URL") }
      try checkURL(rest)
      return text
    }
  }

  /// An absolute https or http URL to which paths are added: without user part, query and fragment.
  static var baseURL: Self {
    Self(name: "https or http URL") { text throws(BadValue) in
      guard let rest = text.dropping(prefix: "https://") ?? text.dropping(prefix: "http://") else {
        throw BadValue("must be an https:// URL, or an http:// one for a store on the same machine")
      }
      guard !text.contains("?") else { throw BadValue("must not contain a query (?…): paths are added to it") }
      try checkURL(rest)
      return text
    }
  }

  /// Checks the part of a URL after `//`.
  ///
  /// Its authority is limited to characters on which every URL parser agrees, so that the host checked here is the host
  /// that is called. The text is not quoted: a URL that contains a password is a common mistake.
  private static func checkURL(_ rest: Substring) throws(BadValue) {
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    guard !authority.contains("@") else { throw BadValue("must not contain a user name or password") }
    guard !rest.contains("#") else { throw BadValue("must not contain a fragment (#…)") }
    guard rest.utf8.allSatisfy({ (0x21...0x7e).contains($0) && !#""<>\^`{|}"#.utf8.contains($0) }),
      authority.wholeMatch(of: /(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/)
        .map({ $0.1.map { (1...65_535).contains(Int($0) ?? 0) } ?? true }) == true
    else { throw BadValue("is not a well-formed URL") }
  }
}

extension ValueForm<Bool> {
  static var flag: Self {
    Self(name: "true or false", Bool.init) { "must be true or false, not \(Quotation.of($0))" }
  }
}

extension ValueForm<PostgRESTName> {
  /// The name of a PostgreSQL schema, table or column.
  static var name: Self {
    Self(name: "name", PostgRESTName.init) {
      "must be a plain name of up to \(PostgRESTName.lengthLimit) letters, digits and _, and no word that "
        + "PostgREST keeps for itself (select, order, limit, …), not \(Quotation.of($0))"
    }
  }
}

/// Forms of secrets, whose texts are never quoted.
extension ValueForm<Secret> {
  /// A connection URI of libpq's ("Connection URIs" in PostgreSQL's manual, 34.1.1). It may hold a password.
  static var databaseURL: Self {
    Self(name: "secret") { text in
      let isOurs = text.hasPrefix("postgresql://") || text.hasPrefix("postgres://")
      return isOurs && LedgerPlace.isURL(text) ? Secret(text) : nil
    } or: { _ in
      "must be a URL that PostgreSQL understands: postgresql://user:password@host/database"
    }
  }

  /// Printable ASCII without spaces, so that a second line or a stray blank is reported here and not by Apple's refusal.
  static var word: Self {
    Self(name: "secret") { text throws(BadValue) in
      guard !text.isEmpty else { throw BadValue("must not be empty") }
      guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
        throw BadValue("must be one word of printable ASCII: no spaces, no second line")
      }
      guard text.utf8.count <= 1_024 else { throw BadValue("must not be longer than 1024 characters") }
      return Secret(text)
    }
  }

  /// The value of a header: printable ASCII, with spaces inside only.
  static var header: Self {
    Self(name: "secret") { text throws(BadValue) in
      guard !text.isEmpty else { throw BadValue("must not be empty") }
      guard text.utf8.allSatisfy({ (0x20...0x7e).contains($0) }), !text.hasPrefix(" "), !text.hasSuffix(" ") else {
        throw BadValue("must be one line of printable ASCII without spaces around it")
      }
      guard text.utf8.count <= 1_024 else { throw BadValue("must not be longer than 1024 characters") }
      return Secret(text)
    }
  }

  /// A secret of Standard Webhooks.
  static var webhookSecret: Self {
    Self(name: "secret") { text in
      WebhookSecret(text) == nil ? nil : Secret(text)
    } or: { _ in
      "must be whsec_ and the base64 of 24 to 64 random bytes; printf whsec_%s $(openssl rand -base64 32) makes one"
    }
  }

  /// A private key in PEM (RFC 7468). Only its outer form is checked; its user parses the content.
  static var privateKey: Self {
    Self(name: "private key (PEM)") { text throws(BadValue) in
      guard !text.isEmpty else { throw BadValue("must not be empty") }
      guard text.utf8.count <= 16_384 else { throw BadValue("must not be longer than 16384 characters") }
      let lines = text.split(whereSeparator: \.isNewline)
      guard let first = lines.first, first.hasPrefix("-----BEGIN "), first.hasSuffix("PRIVATE KEY-----") else {
        throw BadValue("must be a private key in PEM, from -----BEGIN PRIVATE KEY----- on")
      }
      guard let last = lines.last, lines.count > 2, last.hasPrefix("-----END "), last.hasSuffix("PRIVATE KEY-----")
      else { throw BadValue("must be a private key in PEM to its end, -----END PRIVATE KEY-----") }
      return Secret(text)
    }
  }
}

extension String {
  /// The rest of a text that begins with an ASCII prefix, in capitals or not.
  fileprivate func dropping(prefix: String) -> Substring? {
    self.prefix(prefix.count).lowercased() == prefix ? dropFirst(prefix.count) : nil
  }
}

extension ValueForm<Dialect> {
  /// The name of a dialect. Its list is too long for the form of one value.
  static var dialect: Self { Self(name: "dialect", read: ValueForm<Dialect>.choice.read) }
}
