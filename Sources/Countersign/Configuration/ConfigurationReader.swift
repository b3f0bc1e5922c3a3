import CountersignServer
import Files
import HTTPTransport
import YAML

/// Reads values: environment before file before default.
///
/// Each call declares the key that it reads. Read every key unconditionally, and consider what depends on what afterwards:
/// `ConfigurationKey.all` is what a reader without any value is asked for.
struct ConfigurationReader {
  static let secretFileLimit = 64 << 10
  static let certificateFileLimit = 1 << 20

  let file: ConfigurationFile
  var findings: ConfigurationFindings
  /// The keys that were read.
  private(set) var keys: [ConfigurationKey] = []
  private let environment: [String: String]
  private var origins: [String: String] = [:]
  /// Secrets given in the file itself.
  private var secretsInFile: [String] = []

  /// A value with its source for error messages.
  private struct Found<Value> {
    let value: Value
    let origin: String
  }

  init(file: ConfigurationFile, environment: [String: String], findings: ConfigurationFindings) {
    self.file = file
    self.environment = environment
    self.findings = findings
  }

  // MARK: - Single values

  /// A value with a default, which also stands in for a value that cannot be read: that is reported, and no configuration
  /// with a problem is used.
  mutating func read<Value>(
    _ name: String, _ form: ValueForm<Value>, default standard: Value, _ summary: String
  ) -> Value {
    declare(name, form.name, standard: "`\(form.write(standard))`", summary)
    return given(name, form) ?? standard
  }

  /// A value without a default.
  ///
  /// - Returns: `nil` if it is not given, and if it cannot be read, which is reported.
  mutating func read<Value>(_ name: String, _ form: ValueForm<Value>, _ summary: String) -> Value? {
    declare(name, form.name, standard: "none", summary)
    return given(name, form)
  }

  private mutating func given<Value>(_ name: String, _ form: ValueForm<Value>) -> Value? {
    // Looked up in any case, so that its form is checked.
    let inFile = textInFile(name)
    guard let found = textInEnvironment(name) ?? inFile else { return nil }
    origins[name] = found.origin
    return parsed(found, as: form)
  }

  private mutating func parsed<Value>(_ found: Found<String>, as form: ValueForm<Value>) -> Value? {
    do throws(BadValue) {
      try Self.checkText(found.value)
      return try form.read(found.value)
    } catch {
      findings.problem(found.origin, error.sentence)
      return nil
    }
  }

  /// Non-empty text without characters that could split a log line or a path.
  private static func checkText(_ text: String) throws(BadValue) {
    guard !text.isEmpty else { throw BadValue("must not be empty") }
    guard text.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control }) else {
      throw BadValue("must not contain control characters or line breaks")
    }
  }

  // MARK: - Secrets

  /// A secret, from its value or from its file; an error if one layer has both.
  ///
  /// - Returns: `nil` if it is not given, and if it cannot be read, which is reported.
  mutating func secret(_ name: String, _ form: ValueForm<Secret>, _ summary: String) -> Secret? {
    declare(name, form.name, standard: "none", place: .anywhereOrOwnFile, summary)
    let inFile = (textInFile(name), textInFile(name + "_file"))
    let layers = [(textInEnvironment(name), textInEnvironment(name + "_file")), inFile]
    for (index, layer) in layers.enumerated() {
      switch layer {
      case (nil, nil): continue
      case (let value?, nil):
        origins[name] = value.origin
        if index == 1 { secretsInFile.append(name) }
        do throws(BadValue) { return try form.read(value.value) } catch {
          findings.problem(value.origin, error.sentence)
        }
      case (nil, let path?):
        origins[name] = path.origin
        return secret(inFile: path, form)
      case (let value?, let path?):
        findings.problem(value.origin, "is given as a value and as a file (\(path.origin)); give one of them")
      }
      return nil
    }
    return nil
  }

  /// Secrets in files of their own: one, or two while one takes the place of the other.
  ///
  /// - Parameter name: of the key with the paths.
  mutating func secretFiles(_ name: String, _ form: ValueForm<Secret>, _ summary: String) -> [Secret] {
    declare(name, "path, or list of two", standard: "none", summary)
    let inFile =
      file.values[name]?.scalar == nil
      ? listInFile(name) : textInFile(name).map { Found(value: [$0.value], origin: $0.origin) }
    guard let found = listInEnvironment(name) ?? inFile else { return [] }
    origins[name] = found.origin
    guard (1...2).contains(found.value.count), !found.value.contains("") else {
      findings.problem(found.origin, "must be the path of a file, or a list of two")
      return []
    }
    return found.value.compactMap { secret(inFile: Found(value: $0, origin: found.origin), form) }
  }

  /// The same for a member of a mapping.
  mutating func secretFiles(_ node: Node, _ form: ValueForm<Secret>, origin: String) -> [Secret] {
    let paths = node.scalar.map { [$0.string] } ?? node.sequence?.map { $0.scalar?.string ?? "" } ?? []
    guard (1...2).contains(paths.count), !paths.contains("") else {
      findings.problem(origin, "secret_file must be the path of a file, or a list of two")
      return []
    }
    return paths.compactMap { secret(inFile: Found(value: $0, origin: "\(origin): secret_file"), form) }
  }

  /// The path is not quoted: a secret in place of its file's path is a common mistake.
  private mutating func secret(inFile path: Found<String>, _ form: ValueForm<Secret>) -> Secret? {
    let file: BoundedFile
    do throws(BoundedFile.Unusable) {
      file = try BoundedFile(path: path.value, limit: Self.secretFileLimit)
    } catch {
      findings.problem(path.origin, "the file that it names \(error.reason)")
      return nil
    }
    if file.isWorldReadable {
      findings.warning(
        path.origin, "every user of this machine may read the file that it names; chmod 0400 keeps it to its owner")
    }
    guard var text = String(validating: file.bytes, as: UTF8.self) else {
      findings.problem(path.origin, "the file that it names is not text in UTF-8")
      return nil
    }
    // Editors and `echo` end a file with a line break; "\r\n" is one character.
    if text.last?.isNewline == true { text.removeLast() }
    do throws(BadValue) { return try form.read(text) } catch {
      findings.problem(path.origin, "the text in the file that it names \(error.sentence)")
      return nil
    }
  }

  /// Adds one warning for all secrets in a world-readable file; call it after all were read.
  mutating func warnOfReadableSecrets() {
    guard file.isWorldReadable, !secretsInFile.isEmpty else { return }
    findings.warning(
      file.name,
      "every user of this machine may read it, and \(Wording.list(secretsInFile)) with it; "
        + "chmod 600 keeps it to its owner")
  }

  // MARK: - Lists

  /// A list without duplicates; commas separate its items in the environment.
  ///
  /// - Parameter item: the name of an item, where the list must be given and have one. Otherwise it is empty by default.
  mutating func list<Value>(
    _ name: String, of form: ValueForm<Value>, atLeastOne item: String? = nil, _ summary: String
  ) -> [Value] {
    declare(
      name, form.name == "text" ? "list" : "list of \(form.name)s", standard: item == nil ? "`[]`" : "required", summary
    )
    let inFile = listInFile(name)
    guard let found = listInEnvironment(name) ?? inFile else {
      if item != nil { reportMissing(name) }
      return []
    }
    origins[name] = found.origin
    if let item, found.value.isEmpty { problem(name, "must list at least one \(item)") }
    return distinct(found.value.map { NamedItem(name: $0, members: nil, origin: found.origin) }, as: form).map(\.value)
  }

  /// The items that are neither empty, nor there before, nor unreadable, each of which is reported.
  private mutating func distinct<Value>(
    _ items: [NamedItem], as form: ValueForm<Value>
  ) -> [(item: NamedItem, value: Value)] {
    var seen: Set<String> = []
    return items.compactMap { item in
      if item.name.isEmpty {
        findings.problem(item.origin, "must not have empty items")
      } else if !seen.insert(item.name).inserted {
        findings.problem(item.origin, "lists \(Quotation.of(item.name)) twice")
      } else {
        return parsed(Found(value: item.name, origin: item.origin), as: form).map { (item, $0) }
      }
      return nil
    }
  }

  /// A list of words, where each may have members in the file: `- pro: {name: …}`. Commas separate words in the environment.
  ///
  /// - Parameter item: the name of an item; there has to be one.
  mutating func namedList(_ name: String, atLeastOne item: String, _ summary: String) -> [NamedItem] {
    declare(name, "list", standard: "required", summary)
    let inFile = namedListInFile(name)
    let given = listInEnvironment(name).map { found in
      found.value.map { NamedItem(name: $0, members: nil, origin: found.origin) }
    }
    guard let items = given ?? inFile else {
      reportMissing(name)
      return []
    }
    origins[name] = given == nil ? file.origin(of: name) : ConfigurationKey.variable(of: name)
    if items.isEmpty { problem(name, "must list at least one \(item)") }
    return distinct(items, as: .text).map(\.item)
  }

  /// An item of a list with a name.
  struct NamedItem {
    let name: String
    /// A mapping; `nil` for a plain word.
    let members: Node?
    let origin: String
  }

  private mutating func namedListInFile(_ name: String) -> [NamedItem]? {
    guard let node = file.values[name] else { return nil }
    let items = node.sequence?.map { item -> NamedItem? in
      let origin = file.origin(of: name, line: item.line)
      if item.isNull { return NamedItem(name: "", members: nil, origin: origin) }
      if let word = item.scalar?.string { return NamedItem(name: word, members: nil, origin: origin) }
      guard let mapping = item.mapping, mapping.count == 1, let (key, value) = mapping.first, let word = key.plainKey
      else { return nil }
      return NamedItem(name: word, members: value.isNull ? nil : value, origin: origin)
    }
    guard let items, !items.contains(where: { $0 == nil }) else {
      findings.problem(
        file.origin(of: name),
        items == nil ? "must be a list" : "must be a list of words, or of one word each with its mapping")
      return nil
    }
    return items.compactMap(\.self)
  }

  // MARK: - Trees

  /// A mapping, which only the file can hold; without an item if it is not given.
  ///
  /// - Parameter content: its content in words, for a problem.
  mutating func mapping(_ name: String, _ content: String, _ summary: String) -> [Node.Mapping.Element] {
    declare(name, "mapping", standard: "none", place: .configurationFile, summary)
    guard let node = file.values[name] else { return [] }
    if node.mapping == nil { findings.problem(file.origin(of: name), "must be a mapping \(content)") }
    return node.mapping ?? []
  }

  /// A list of mappings, which only the file can hold; empty if it is not given.
  mutating func mappings(_ name: String, _ content: String, _ summary: String) -> [Node] {
    declare(name, "list of mappings", standard: "none", place: .configurationFile, summary)
    guard let node = file.values[name] else { return [] }
    if node.sequence == nil { findings.problem(file.origin(of: name), "must be a list \(content)") }
    return node.sequence ?? []
  }

  /// The members of a small mapping of single values; a `null` counts as absent.
  ///
  /// - Returns: `nil` if anything is invalid, which is reported.
  mutating func fields(
    of node: Node, known: [String], required: [String], what: String, origin: String
  ) -> [String: String]? {
    guard let members = members(of: node, known: known, required: required, what: what, origin: origin) else {
      return nil
    }
    let problemsBefore = findings.problems.count
    let fields = members.compactMapValues { $0.scalar?.string }
    for key in known where members[key] != nil && fields[key] == nil {
      findings.problem(origin, "\(what): \(key) must be a single value")
    }
    return findings.problems.count == problemsBefore ? fields : nil
  }

  /// The members of a small mapping; a `null` counts as absent.
  ///
  /// - Returns: `nil` if a member is unknown or missing, which is reported.
  mutating func members(
    of node: Node, known: [String], required: [String] = [], what: String, origin: String
  ) -> [String: Node]? {
    guard let mapping = node.mapping else {
      findings.problem(origin, "\(what) must be a mapping {\(known.joined(separator: ", "))}")
      return nil
    }
    let problemsBefore = findings.problems.count
    var members: [String: Node] = [:]
    for (keyNode, value) in mapping {
      guard let key = keyNode.plainKey, known.contains(key) else {
        // The name is not quoted: in an API key's mapping it may be the key.
        let suggestion = Suggestion.clause(for: keyNode.plainKey ?? "", among: known)
        findings.problem(origin, "\(what) has a key that is none of \(known.joined(separator: ", "))" + suggestion)
        continue
      }
      if !value.isNull { members[key] = value }
    }
    for key in required where findings.problems.count == problemsBefore && members[key] == nil {
      findings.problem(origin, "\(what) lacks \(key)")
    }
    return findings.problems.count == problemsBefore ? members : nil
  }

  /// The value of one field.
  mutating func field<Value>(_ text: String, _ form: ValueForm<Value>, _ what: String, origin: String) -> Value? {
    do throws(BadValue) { return try form.read(text) } catch {
      findings.problem(origin, "\(what) \(error.sentence)")
      return nil
    }
  }

  // MARK: - Findings

  /// The source of a value that was read, as named in messages.
  func origin(of name: String) -> String {
    assert(keys.contains { $0.name == name }, "\(name) is no key that was read")
    return origins[name] ?? name
  }

  mutating func problem(_ name: String, _ sentence: String) { findings.problem(origin(of: name), sentence) }

  mutating func warning(_ name: String, _ sentence: String) { findings.warning(origin(of: name), sentence) }

  /// Whether a key has a value, or a file, in any layer; readable or not.
  func isGiven(_ name: String) -> Bool {
    [name, name + "_file"].contains { file.values[$0] != nil || environment[ConfigurationKey.variable(of: $0)] != nil }
  }

  /// Reports a key without a value that it needs. A file that cannot be read may have it.
  ///
  /// - Parameter alternative: what to do instead of setting it.
  mutating func reportMissing(_ name: String, unless alternative: String? = nil) {
    guard !file.isUnreadable, !isGiven(name), let key = keys.first(where: { $0.name == name }) else { return }
    let ways = zip(key.fileNames, key.variables).flatMap { name, variable in
      name == key.name ? ["\(name) in the file", variable] : ["\(name) (a path)", "\(variable) (a path)"]
    }
    findings.problem(name, "is missing; set \(Wording.alternatives(ways))" + (alternative.map { ", or \($0)" } ?? ""))
  }

  // MARK: - Parts

  private mutating func declare(
    _ name: String, _ form: String, standard: String, place: ConfigurationKey.Place = .anywhere, _ summary: String
  ) {
    keys.append(ConfigurationKey(name: name, form: form, standard: standard, place: place, summary: summary))
  }

  private func textInEnvironment(_ name: String) -> Found<String>? {
    let variable = ConfigurationKey.variable(of: name)
    return environment[variable].map { Found(value: $0, origin: variable) }
  }

  private func listInEnvironment(_ name: String) -> Found<[String]>? {
    textInEnvironment(name).map { found in
      // An empty variable is an empty list, not a list of one empty item.
      let items = found.value.split(separator: ",", omittingEmptySubsequences: false).map { $0.trimmed }
      return Found(value: items == [""] ? [] : items, origin: found.origin)
    }
  }

  private mutating func textInFile(_ name: String) -> Found<String>? {
    guard let node = file.values[name] else { return nil }
    guard let text = node.scalar?.string else {
      findings.problem(file.origin(of: name), "must be a single value")
      return nil
    }
    return Found(value: text, origin: file.origin(of: name))
  }

  private mutating func listInFile(_ name: String) -> Found<[String]>? {
    guard let node = file.values[name] else { return nil }
    let items = node.sequence?.map { $0.isNull ? "" : $0.scalar?.string }
    guard let items, !items.contains(nil) else {
      findings.problem(file.origin(of: name), items == nil ? "must be a list" : "must be a list of single values")
      return nil
    }
    return Found(value: items.compactMap(\.self), origin: file.origin(of: name))
  }
}

extension StringProtocol {
  /// The text without white space around it.
  var trimmed: String { String(drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed()) }
}
