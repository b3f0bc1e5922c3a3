import Entitlements
import Files
import Synchronization

/// A time zone of the IANA database.
///
/// The system's copy of the database has the rules; the file of a zone is read once, and its rules are kept.
package struct Zone: Hashable, Sendable {
  /// `Europe/Berlin`, or `UTC`.
  package let name: String
  private let rules: ZoneRules

  package static let utc = Zone(name: "UTC", rules: ZoneRules())

  private init(name: String, rules: ZoneRules) {
    self.name = name
    self.rules = rules
  }

  /// A zone by its name in the IANA database, or UTC, which Foundation calls GMT.
  ///
  /// - Returns: `nil` for anything else, and for a zone that the system lacks or whose file is damaged. Abbreviations are
  ///   refused: `EST` has no summer time, `IST` names three zones.
  package init?(named name: String) {
    let name = name == "GMT" ? Self.utc.name : name
    guard Self.isWellFormed(name), let rules = Self.rules(of: name) else { return nil }
    self.init(name: name, rules: rules)
  }

  /// The offset from UTC.
  ///
  /// - Parameter time: in milliseconds since 1970.
  /// - Returns: milliseconds, negative west of Greenwich.
  package func offset(at time: Int64) -> Int64 { rules.offset(at: time.floored(by: 1000)) * 1000 }

  package static func == (one: Zone, other: Zone) -> Bool { one.name == other.name }

  package func hash(into hasher: inout Hasher) { hasher.combine(name) }

  // MARK: - The database

  private static let folder = "/usr/share/zoneinfo"
  /// The largest file of a zone has some 4 KiB.
  private static let sizeLimit = 64 << 10
  /// The rules of the zones that were asked for. There are as many as the database has files, some 600.
  private static let known = Mutex<[String: ZoneRules]>([:])

  /// Whether a name may become a path: `UTC`, or words of letters, digits, `_`, `+` and `-` with slashes between them.
  private static func isWellFormed(_ name: String) -> Bool {
    guard name != "UTC" else { return true }
    let isPlain = name.utf8.allSatisfy { $0.isLetter || $0.isDigit || "/_+-".utf8.contains($0) }
    guard isPlain, name.utf8.count <= 64 else { return false }
    let words = name.split(separator: "/", omittingEmptySubsequences: false)
    // The database once more, in two folders: as it is, and with leap seconds.
    return words.count > 1 && !words.contains("") && words[0] != "posix" && words[0] != "right"
  }

  private static func rules(of name: String) -> ZoneRules? {
    // No database is needed for UTC.
    guard !["UTC", "Etc/UTC", "Etc/GMT"].contains(name) else { return ZoneRules() }
    if let rules = known.withLock({ $0[name] }) { return rules }
    guard let file = try? BoundedFile(path: "\(folder)/\(name)", limit: sizeLimit),
      let rules = ZoneRules(tzif: file.bytes)
    else { return nil }
    known.withLock { $0[name] = rules }
    return rules
  }

  /// The names that people choose from, for suggestions; read anew each time, and empty without the database.
  package static var suggestions: [String] {
    // Lines of `DE⇥+5230+01322⇥Europe/Berlin⇥most of Germany`: some 20 KiB.
    guard let file = try? BoundedFile(path: "\(folder)/zone.tab", limit: sizeLimit) else { return [] }
    return String(decoding: file.bytes, as: UTF8.self).split(separator: "\n").compactMap { line in
      let fields = line.split(separator: "\t")
      return line.hasPrefix("#") || fields.count < 3 ? nil : String(fields[2])
    }
  }
}

extension Int64 {
  /// Divided, and rounded down.
  func floored(by divisor: Int64) -> Int64 {
    let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? quotient - 1 : quotient
  }
}
