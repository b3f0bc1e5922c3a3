import Configuration
import Files
import HTTPTransport
import Profiles
import Yams

/// Looks values up, environment before file before default, and checks each against the table.
///
/// The layers are swift-configuration's providers, called directly instead of through its `ConfigReader`, which does
/// not report the layer of a value, and uses the default if a value cannot be read.
struct ConfigurationReader {
  static let secretFileLimit = 64 << 10
  static let certificateFileLimit = 1 << 20

  let file: ConfigurationFile
  var findings: ConfigurationFindings
  /// Every key that was requested.
  private(set) var keysRead: Set<ConfigurationKey> = []
  private var origins: [ConfigurationKey: String] = [:]
  /// Secrets given in the file itself.
  private var secretsInFile: [ConfigurationKey] = []
  private let layers: [Layer]

  private struct Layer {
    enum Place { case environment, file, defaults }
    let place: Place
    let provider: any ConfigProvider
  }

  /// A value with its source for error messages.
  struct Found<Value> {
    let value: Value
    let origin: String
  }

  init(file: ConfigurationFile, environment: [String: String], findings: ConfigurationFindings) {
    self.file = file
    self.findings = findings
    let known = environment.filter { ConfigurationKey.environmentNames.contains($0.key) }
    let prefix = ConfigKey(["countersign"])
    layers = [
      // All values are marked secret: no provider may print one.
      Layer(
        place: .environment,
        provider: EnvironmentVariablesProvider(environmentVariables: known, secretsSpecifier: .all)
          .prefixKeys(with: prefix)),
      Layer(place: .file, provider: InMemoryProvider(name: "file", values: file.values)),
      Layer(place: .defaults, provider: InMemoryProvider(name: "defaults", values: Self.defaults)),
    ]
  }

  private static var defaults: [AbsoluteConfigKey: ConfigValue] {
    var values: [AbsoluteConfigKey: ConfigValue] = [:]
    for key in ConfigurationKey.allCases {
      switch key.entry.default {
      case .text(let text): values[key.path] = ConfigValue(.string(text), isSecret: false)
      case .emptyList: values[key.path] = ConfigValue(.stringArray([]), isSecret: false)
      case .required, .absent: break
      }
    }
    return values
  }

  // MARK: - Single values

  mutating func text(_ key: ConfigurationKey) -> String? {
    parsed(key) { text throws(BadValue) in text }
  }

  mutating func integer(_ key: ConfigurationKey) -> Int? {
    guard case .integer(let range) = key.entry.kind else { return nil }
    return parsed(key) { text throws(BadValue) in try ConfigurationValue.integer(text, in: range) }
  }

  mutating func size(_ key: ConfigurationKey) -> Int? {
    guard case .size(let range) = key.entry.kind else { return nil }
    return parsed(key) { text throws(BadValue) in try ConfigurationValue.size(text, in: range) }
  }

  mutating func duration(_ key: ConfigurationKey) -> Duration? {
    guard case .duration(let range) = key.entry.kind else { return nil }
    return parsed(key) { text throws(BadValue) in try ConfigurationValue.duration(text, in: range) }
  }

  mutating func choice<Choice: CaseIterable & RawRepresentable<String>>(
    _ key: ConfigurationKey, as _: Choice.Type = Choice.self
  ) -> Choice? {
    parsed(key) { text throws(BadValue) in
      try ConfigurationValue.choice(text, of: Choice.allCases.map(\.rawValue))
      return Choice(rawValue: text)
    } ?? nil
  }

  mutating func url(_ key: ConfigurationKey) -> String? {
    parsed(key) { text throws(BadValue) in
      try ConfigurationValue.url(text)
      return text
    }
  }

  mutating func keySetURL(_ key: ConfigurationKey) -> String? {
    parsed(key) { text throws(BadValue) in
      try ConfigurationValue.keySetURL(text)
      return text
    }
  }

  mutating func baseURL(_ key: ConfigurationKey) -> String? {
    parsed(key) { text throws(BadValue) in
      try ConfigurationValue.baseURL(text)
      return text
    }
  }

  mutating func name(_ key: ConfigurationKey) -> PostgRESTName? {
    parsed(key) { text throws(BadValue) in try ConfigurationValue.name(text) }
  }

  /// A file that has to exist. It is opened now, so that a wrong path fails at the start and not at the first use.
  mutating func existingFile(_ key: ConfigurationKey) -> String? {
    guard let path = text(key) else { return nil }
    return check(path, origin: origin(of: key)) ? path : nil
  }

  /// A secret, from its value or from its file; an error if one layer has both.
  mutating func secret(_ key: ConfigurationKey) -> Secret? {
    secret(key, checkedBy: ConfigurationValue.secret)
  }

  /// A private key: a secret of several lines.
  mutating func privateKey(_ key: ConfigurationKey) -> Secret? {
    secret(key, checkedBy: ConfigurationValue.privateKey)
  }

  private mutating func secret(
    _ key: ConfigurationKey, checkedBy check: (String) throws(BadValue) -> Void
  ) -> Secret? {
    keysRead.insert(key)
    guard let variant = key.fileVariant else { return nil }
    for layer in layers {
      let value = lookUp(key.rawValue, in: layer)
      let path = lookUp(variant, in: layer)
      switch (value, path) {
      case (nil, nil): continue
      case (let value?, nil):
        origins[key] = value.origin
        if layer.place == .file { secretsInFile.append(key) }
        return parse(value) { text throws(BadValue) in
          try check(text)
          return Secret(text)
        }
      case (nil, let path?):
        origins[key] = path.origin
        return secret(inFile: path, checkedBy: check)
      case (let value?, let path?):
        findings.problem(value.origin, "is given as a value and as a file (\(path.origin)); give one of them")
        return nil
      }
    }
    reportMissing(key)
    return nil
  }

  // MARK: - Lists

  mutating func list(_ key: ConfigurationKey) -> [String]? {
    keysRead.insert(key)
    guard let found = lookUpList(key) else {
      reportMissing(key)
      return nil
    }
    var seen: Set<String> = []
    for item in found.value {
      do throws(BadValue) {
        try ConfigurationValue.text(item)
        guard seen.insert(item).inserted else {
          throw BadValue(sentence: "lists \(ConfigurationValue.quoted(item)) twice")
        }
      } catch {
        findings.problem(found.origin, item.isEmpty ? "must not have empty items" : error.sentence)
        return nil
      }
    }
    return found.value
  }

  mutating func existingFiles(_ key: ConfigurationKey) -> [String]? {
    guard let paths = list(key) else { return nil }
    let origin = origin(of: key)
    // Every path is checked, so that all missing ones are reported.
    return paths.map { check($0, origin: origin) }.allSatisfy(\.self) ? paths : nil
  }

  /// The YAML tree of a key allowed only in a file.
  mutating func products() -> Node.Mapping? {
    keysRead.insert(.catalogProducts)
    return file.products
  }

  mutating func apiKeys() -> Node.Sequence? {
    keysRead.insert(.authAPIKeys)
    return file.apiKeys
  }

  /// The source of a value that was read, as named in messages.
  func origin(of key: ConfigurationKey) -> String { origins[key] ?? key.rawValue }

  // MARK: - Parts

  private mutating func parsed<Value>(
    _ key: ConfigurationKey, _ read: (String) throws(BadValue) -> Value
  ) -> Value? {
    keysRead.insert(key)
    for layer in layers {
      guard let found = lookUp(key.rawValue, in: layer) else { continue }
      origins[key] = found.origin
      return parse(found) { text throws(BadValue) in
        try ConfigurationValue.text(text)
        return try read(text)
      }
    }
    reportMissing(key)
    return nil
  }

  private mutating func parse<Value>(_ found: Found<String>, _ read: (String) throws(BadValue) -> Value) -> Value? {
    do throws(BadValue) {
      return try read(found.value)
    } catch {
      findings.problem(found.origin, error.sentence)
      return nil
    }
  }

  /// The path is not quoted: a secret in place of its file's path is a common mistake.
  private mutating func secret(
    inFile found: Found<String>, checkedBy check: (String) throws(BadValue) -> Void
  ) -> Secret? {
    let file: BoundedFile
    do throws(BoundedFile.Unusable) {
      file = try BoundedFile(path: found.value, limit: Self.secretFileLimit)
    } catch {
      findings.problem(found.origin, "the file that it names \(error.reason)")
      return nil
    }
    if file.isWorldReadable {
      findings.warning(
        found.origin, "every user of this machine may read the file that it names; chmod 0400 keeps it to its owner")
    }
    guard var text = String(validating: file.bytes, as: UTF8.self) else {
      findings.problem(found.origin, "the file that it names is not text in UTF-8")
      return nil
    }
    // Editors and `echo` end a file with a line break; "\r\n" is one character.
    if text.last?.isNewline == true { text.removeLast() }
    do throws(BadValue) {
      try check(text)
      return Secret(text)
    } catch {
      findings.problem(found.origin, "the text in the file that it names \(error.sentence)")
      return nil
    }
  }

  /// Adds one warning for all secrets in a world-readable file; call it after all were read.
  mutating func warnOfReadableSecrets() {
    guard file.isWorldReadable, !secretsInFile.isEmpty else { return }
    findings.warning(
      file.name,
      "every user of this machine may read it, and \(ConfigurationValue.list(secretsInFile.map(\.rawValue))) with it; "
        + "chmod 600 keeps it to its owner")
  }

  private mutating func check(_ path: String, origin: String) -> Bool {
    do throws(BoundedFile.Unusable) {
      guard try !BoundedFile(path: path, limit: Self.certificateFileLimit).bytes.isEmpty else {
        throw BoundedFile.Unusable(reason: "is empty")
      }
      return true
    } catch {
      findings.problem(origin, "the file \(ConfigurationValue.quoted(path: path)) \(error.reason)")
      return false
    }
  }

  private mutating func reportMissing(_ key: ConfigurationKey) {
    guard case .required = key.entry.default else { return }
    reportMissing(key, unless: nil)
  }

  /// Reports a key required by other keys.
  ///
  /// - Parameter alternative: what to do instead of setting it.
  mutating func reportMissing(_ key: ConfigurationKey, unless alternative: String?) {
    guard !isExcused(key) else { return }
    let ways = [
      "\(key.rawValue) in the file", key.environmentName, key.fileVariant.map { "\($0) (a path)" },
      key.fileVariant.map { "\(ConfigurationKey.environmentName(of: $0)) (a path)" },
    ]
    findings.problem(
      key.rawValue,
      "is missing; set \(ConfigurationValue.alternatives(ways.compactMap(\.self)))"
        + (alternative.map { ", or \($0)" } ?? ""))
  }

  /// Whether a key has a value, or a file, in any layer; readable or not.
  mutating func isGiven(_ key: ConfigurationKey) -> Bool {
    layers.contains { layer in
      [key.rawValue, key.fileVariant].compactMap(\.self).contains { lookUp($0, in: layer) != nil }
    }
  }

  /// Whether a missing value was already reported, as the file or the key's entry cannot be read.
  func isExcused(_ key: ConfigurationKey) -> Bool {
    file.isUnreadable || file.misshapen.contains(key.rawValue) || key.fileVariant.map(file.misshapen.contains) == true
  }

  private mutating func lookUp(_ key: String, in layer: Layer) -> Found<String>? {
    guard let content = content(of: key, type: .string, in: layer), case .string(let text) = content else { return nil }
    return Found(value: text, origin: origin(of: key, at: layer.place))
  }

  private mutating func lookUpList(_ key: ConfigurationKey) -> Found<[String]>? {
    for layer in layers {
      guard let content = content(of: key.rawValue, type: .stringArray, in: layer),
        case .stringArray(let items) = content
      else { continue }
      let origin = origin(of: key.rawValue, at: layer.place)
      origins[key] = origin
      // An empty variable is an empty list, not a list of one empty item.
      return Found(value: items == [""] && layer.place == .environment ? [] : items, origin: origin)
    }
    return nil
  }

  private mutating func content(of key: String, type: ConfigType, in layer: Layer) -> ConfigContent? {
    do {
      return try layer.provider.value(forKey: AbsoluteConfigKey(ConfigKey(key)), type: type).value?.content
    } catch {
      findings.problem(origin(of: key, at: layer.place), "cannot be read as a \(type)")
      return nil
    }
  }

  private func origin(of key: String, at place: Layer.Place) -> String {
    switch place {
    case .environment: ConfigurationKey.environmentName(of: key)
    case .file: file.origin(of: key)
    case .defaults: key
    }
  }
}

extension ConfigurationKey {
  /// The key in swift-configuration's form.
  var path: AbsoluteConfigKey { AbsoluteConfigKey(ConfigKey(rawValue)) }
}
