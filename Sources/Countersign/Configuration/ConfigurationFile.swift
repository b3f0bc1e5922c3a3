import Configuration
import CountersignServer
import Files
import Yams

/// The YAML file, split by the keys of `ConfigurationKey`, with the line of every value.
///
/// Scalars and lists of scalars become a provider's values. Products and API keys stay trees: a product ID contains
/// dots, and providers do not support lists of objects.
struct ConfigurationFile {
  static let sizeLimit = 256 << 10
  /// Aliases multiply: ten lines of nine aliases each would expand to a billion nodes. No configuration needs more than
  /// a few.
  static let aliasLimit = 8

  /// The file's name in messages.
  let name: String
  private(set) var values: [AbsoluteConfigKey: ConfigValue] = [:]
  private(set) var products: Node.Mapping?
  private(set) var apiKeys: Node.Sequence?
  /// Keys that are present but malformed. The form is reported; reporting them as missing would be wrong.
  private(set) var misshapen: Set<String> = []
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

  func origin(of key: String, line: Int?) -> String {
    "\(key) in \(name)" + (line.map { " line \($0)" } ?? "")
  }

  // MARK: - The tree

  private mutating func parse(_ bytes: [UInt8], findings: inout ConfigurationFindings) {
    do throws(BadValue) {
      for (key, value) in try Self.sections(of: bytes) { readSection(key, value, findings: &findings) }
    } catch {
      isUnreadable = true
      findings.problem(name, error.sentence)
    }
  }

  private static func sections(of bytes: [UInt8]) throws(BadValue) -> Node.Mapping {
    let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]
    guard
      let text = String(validating: bytes.starts(with: byteOrderMark) ? bytes.dropFirst(3) : bytes[...], as: UTF8.self)
    else { throw BadValue(sentence: "the configuration file is not text in UTF-8") }
    guard aliases(in: text) <= aliasLimit else {
      throw BadValue(
        sentence:
          "the configuration file has more than \(aliasLimit) asterisks outside of comment lines, where each may be an alias"
      )
    }
    let root: Node?
    do {
      root = try Parser(yaml: text, encoding: .utf8).singleRoot()
    } catch {
      throw BadValue(sentence: sentence(for: error))
    }
    guard let root, !root.isNull else { throw BadValue(sentence: "the configuration file is empty") }
    guard case .mapping(let sections) = root else {
      throw BadValue(sentence: "the configuration file must be a mapping of sections such as server: and app_store:")
    }
    return sections
  }

  private mutating func readSection(_ keyNode: Node, _ node: Node, findings: inout ConfigurationFindings) {
    let section = keyNode.plainKey
    let line = keyNode.mark?.line
    guard let section, ConfigurationKey.sections.contains(section) else {
      return reportUnknown(section, line, among: ConfigurationKey.sections, findings: &findings)
    }
    readMembers(of: section, node, line: line, findings: &findings)
  }

  private mutating func readMembers(
    of path: String, _ node: Node, line: Int?, findings: inout ConfigurationFindings
  ) {
    guard !node.isNull else { return }
    guard case .mapping(let members) = node else {
      return findings.problem(origin(of: path, line: line), "must be a mapping of keys to values")
    }
    for (memberKey, member) in members {
      let line = memberKey.mark?.line
      let key = memberKey.plainKey.map { "\(path).\($0)" }
      // A dot in the name would look like nesting.
      if let key, memberKey.plainKey?.contains(".") == false {
        if ConfigurationKey.groups.contains(key) {
          readMembers(of: key, member, line: line, findings: &findings)
          continue
        }
        if ConfigurationKey.fileKeys.contains(key) {
          readValue(key, member, line: line, findings: &findings)
          continue
        }
      }
      reportUnknown(key, line, among: ConfigurationKey.fileKeys, findings: &findings)
    }
  }

  private mutating func readValue(_ key: String, _ node: Node, line: Int?, findings: inout ConfigurationFindings) {
    lines[key] = line
    // `key:` without a value, and `key: null`, leave the default.
    guard !node.isNull else { return }
    do throws(BadValue) {
      try readShape(key, node)
    } catch {
      misshapen.insert(key)
      findings.problem(origin(of: key), error.sentence)
    }
  }

  private mutating func readShape(_ key: String, _ node: Node) throws(BadValue) {
    switch ConfigurationKey(rawValue: key)?.entry.kind {
    case .products:
      guard case .mapping(let mapping) = node else {
        throw BadValue(sentence: "must be a mapping from product ID to {tier: …}")
      }
      products = mapping
    case .apiKeys:
      guard case .sequence(let sequence) = node else {
        throw BadValue(sentence: "must be a list of {name, role, sha256}")
      }
      apiKeys = sequence
    case .list, .fileList:
      guard case .sequence(let sequence) = node else { throw BadValue(sentence: "must be a list") }
      var items: [String] = []
      for item in sequence {
        guard let text = item.scalar?.string else { throw BadValue(sentence: "must be a list of single values") }
        items.append(item.isNull ? "" : text)
      }
      values[AbsoluteConfigKey(ConfigKey(key))] = ConfigValue(.stringArray(items), isSecret: false)
    case .text, .integer, .size, .duration, .choice, .url, .keySetURL, .baseURL, .name, .file, .secret, .privateKey,
      nil:
      // `nil` is the `_file` form of a secret. All values are marked secret: no provider may print one.
      guard let text = node.scalar?.string else { throw BadValue(sentence: "must be a single value") }
      values[AbsoluteConfigKey(ConfigKey(key))] = ConfigValue(.string(text), isSecret: true)
    }
  }

  private func reportUnknown(_ key: String?, _ line: Int?, among known: [String], findings: inout ConfigurationFindings)
  {
    let place = line.map { "\(name) line \($0)" } ?? name
    guard let key, key.first?.isLetter == true else { return findings.problem(place, "a key must be a plain word") }
    if let nested = ConfigurationKey.fileKeys.first(where: { $0 == key }), let dot = nested.lastIndex(of: ".") {
      let member = nested[nested.index(after: dot)...]
      return findings.problem(place, "write \(nested) as the key \(member) under \(nested[..<dot]):")
    }
    findings.problem(
      place, "unknown key \(ConfigurationValue.quoted(key: key))" + Suggestion.clause(for: key, among: known))
  }

  // MARK: - YAML

  /// Counts every `*` outside of comment lines: an upper bound of the aliases. It has to be known before parsing, since
  /// the parser already expands aliases when it compares keys.
  private static func aliases(in text: String) -> Int {
    var count = 0
    for line in text.utf8.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
      let content = line.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
      guard content.first != UInt8(ascii: "#") else { continue }
      count += content.count { $0 == UInt8(ascii: "*") }
    }
    return count
  }

  /// Only the position and the cause are passed on: the parser's own description quotes the faulty line, which may
  /// contain a secret.
  private static func sentence(for error: any Error) -> String {
    func sentence(_ mark: Mark, _ problem: String) -> String {
      // The cause is nearly always a tab, which is invisible in most editors.
      let hint = problem.contains("cannot start any token") ? "; is it a tab? YAML is indented by spaces" : ""
      return "line \(mark.line), column \(mark.column) is not YAML: \(problem)\(hint)"
    }
    switch error {
    case YamlError.scanner(_, let problem, let mark, _), YamlError.parser(_, let problem, let mark, _):
      return sentence(mark, problem)
    case YamlError.composer(let context, let problem, let mark, _):
      return sentence(mark, [context?.text, problem].compactMap(\.self).joined(separator: ", "))
    case YamlError.reader(let problem, _, _, _):
      return "the configuration file is not YAML: \(problem)"
    case YamlError.duplicatedKeysInMapping(let keys, let context):
      let names = keys.prefix(5).map { ConfigurationValue.quoted(key: $0) }.joined(separator: ", ")
      return "line \(context.mark.line): given twice in one mapping: \(names)"
    default:
      return "the configuration file is not YAML"
    }
  }
}

extension Node {
  /// An unquoted `null`, `~` or an empty value.
  var isNull: Bool {
    guard let scalar, scalar.style == .plain || scalar.style == .any else { return false }
    return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
  }

  /// The text of a key; `nil` if the key is a mapping or a list.
  var plainKey: String? { scalar?.string }
}
