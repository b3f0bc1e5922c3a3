import CountersignServer
import Files
import YAML

/// The YAML file, split by the names of `ConfigurationKey`. `ConfigurationReader` checks the form of the values.
struct ConfigurationFile {
  static let sizeLimit = 256 << 10
  /// Aliases multiply: ten lines of nine aliases each would expand to a billion nodes. No configuration needs more than
  /// a few.
  static let aliasLimit = 8

  /// The file's name in messages.
  let name: String
  /// The values that are given, by the dotted names of their keys.
  private(set) var values: [String: Node] = [:]
  /// The file cannot be read. Its keys are then not reported as missing.
  private(set) var isUnreadable = false
  /// Whether every user of the machine may read it.
  private(set) var isWorldReadable = false
  private var lines: [String: Int] = [:]

  /// No file: everything comes from the environment and the defaults.
  init() { name = "the configuration file" }

  /// Reads a file. Each error becomes a problem; the readable rest is still used.
  init(path: String, findings: inout ConfigurationFindings) {
    name =
      path.isEmpty
      ? ConfigurationKey.fileVariable : path.unicodeScalars.prefix(4_096).map { $0.escaped(asASCII: true) }.joined()
    let bytes: [UInt8]
    do throws(BoundedFile.Unusable) {
      let file = try BoundedFile(path: path, limit: Self.sizeLimit)
      bytes = file.bytes
      isWorldReadable = file.isWorldReadable
    } catch {
      isUnreadable = true
      findings.problem(name, "the configuration file \(error.reason)")
      return
    }
    parse(bytes, findings: &findings)
  }

  /// Parses a text; `name` is its name in messages.
  init(bytes: [UInt8], name: String, findings: inout ConfigurationFindings) {
    self.name = name
    parse(bytes, findings: &findings)
  }

  /// `server.port in countersign.yaml line 3`
  func origin(of key: String) -> String { origin(of: key, line: lines[key]) }

  func origin(of key: String, line: Int?) -> String { "\(key) in \(name)" + (line.map { " line \($0)" } ?? "") }

  // MARK: - The tree

  private mutating func parse(_ bytes: [UInt8], findings: inout ConfigurationFindings) {
    do throws(BadValue) {
      readMembers(of: nil, try Self.sections(of: bytes), findings: &findings)
    } catch {
      isUnreadable = true
      findings.problem(name, error.sentence)
    }
  }

  private static func sections(of bytes: [UInt8]) throws(BadValue) -> Node.Mapping {
    let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]
    guard
      let text = String(validating: bytes.starts(with: byteOrderMark) ? bytes.dropFirst(3) : bytes[...], as: UTF8.self)
    else { throw BadValue("the configuration file is not text in UTF-8") }
    guard aliases(in: text) <= aliasLimit else {
      throw BadValue(
        "the configuration file has more than \(aliasLimit) asterisks outside of comment lines, where each may be an alias"
      )
    }
    let root: Node?
    do throws(YAMLError) { root = try Node.document(in: Array(text.utf8)) } catch {
      throw BadValue(sentence(for: error))
    }
    guard let root, !root.isNull else { throw BadValue("the configuration file is empty") }
    guard let sections = root.mapping else {
      throw BadValue("the configuration file must be a mapping of sections such as server: and app_store:")
    }
    return sections
  }

  /// - Parameter path: the name of the group that they are in; `nil` at the top.
  private mutating func readMembers(of path: String?, _ members: Node.Mapping, findings: inout ConfigurationFindings) {
    for (keyNode, node) in members {
      let line = keyNode.line
      let member = keyNode.plainKey
      let key = member.map { member in path.map { "\($0).\(member)" } ?? member }
      // A dot in the name would look like nesting.
      guard let key, let member, !member.contains("."),
        ConfigurationKey.groups.contains(key) || ConfigurationKey.allFileNames.contains(key)
      else {
        let known = path == nil ? ConfigurationKey.groups.filter { !$0.contains(".") } : ConfigurationKey.allFileNames
        reportUnknown(key, line, among: known, findings: &findings)
        continue
      }
      lines[key] = line
      // `key:` without a value, and `key: null`, leave the default.
      guard !node.isNull else { continue }
      if !ConfigurationKey.groups.contains(key) {
        values[key] = node
      } else if let members = node.mapping {
        readMembers(of: key, members, findings: &findings)
      } else {
        findings.problem(origin(of: key), "must be a mapping of keys to values")
      }
    }
  }

  private func reportUnknown(_ key: String?, _ line: Int?, among known: [String], findings: inout ConfigurationFindings)
  {
    let place = line.map { "\(name) line \($0)" } ?? name
    guard let key, key.first?.isLetter == true else { return findings.problem(place, "a key must be a plain word") }
    if ConfigurationKey.allFileNames.contains(key), let dot = key.lastIndex(of: ".") {
      let member = key[key.index(after: dot)...]
      return findings.problem(place, "write \(key) as the key \(member) under \(key[..<dot]):")
    }
    findings.problem(place, "unknown key \(Self.quoted(key: key))" + Suggestion.clause(for: key, among: known))
  }

  /// A misspelt key, up to the first character that no key contains: without the blank, `shared_secret:…` is one word
  /// in YAML, and its rest is a secret.
  private static func quoted(key: String) -> String {
    let word = key.unicodeScalars.prefix {
      ("a"..."z").contains($0) || ("A"..."Z").contains($0) || ("0"..."9").contains($0)
        || "_.-".unicodeScalars.contains($0)
    }
    return Quotation.of(String(word)) + (word.endIndex == key.unicodeScalars.endIndex ? "" : " (…)")
  }

  // MARK: - YAML

  /// Counts every `*` outside of comment lines: an upper bound of the aliases.
  private static func aliases(in text: String) -> Int {
    var count = 0
    for line in text.utf8.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
      let content = line.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
      guard content.first != UInt8(ascii: "#") else { continue }
      count += content.count { $0 == UInt8(ascii: "*") }
    }
    return count
  }

  /// The position and the cause. A key is quoted, but no value: it may be a secret.
  private static func sentence(for error: YAMLError) -> String {
    switch error {
    case .syntax(let line, let column, let problem):
      // The cause is nearly always a tab, which is invisible in most editors.
      let hint = problem.contains("cannot start any token") ? "; is it a tab? YAML is indented by spaces" : ""
      return "line \(line), column \(column) is not YAML: \(problem)\(hint)"
    case .text(let problem): return "the configuration file is not YAML: \(problem)"
    case .duplicateKeys(let keys, let line):
      let names = keys.prefix(5).map { quoted(key: $0) }.joined(separator: ", ")
      return "line \(line): given twice in one mapping: \(names)"
    case .outOfMemory: return "the configuration file cannot be read: there is no memory"
    }
  }
}

extension Node {
  /// An unquoted `null`, `~` or an empty value.
  var isNull: Bool {
    guard let scalar, scalar.isPlain else { return false }
    return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
  }

  /// The text of a key; `nil` if the key is a mapping or a list.
  var plainKey: String? { scalar?.string }
}
