import Foundation
import YAML

@testable import Countersign
@testable import CountersignServer

/// `openapi.yaml` as what it promises: which operation answers what, in which form.
///
/// Of JSON Schema it knows what the document uses, and throws at the rest.
struct Contract: @unchecked Sendable {
  struct Operation: Hashable, CustomStringConvertible, Sendable {
    var method: String
    var path: String
    var description: String { "\(method) \(path)" }
  }

  struct Unsupported: Error, CustomStringConvertible {
    var description: String
  }

  /// Never changed after it was read.
  private let root: [String: Any]
  let allOperations: Set<Operation>
  private let templates: [(operation: Operation, parts: [Substring])]

  init() throws {
    let text = String(decoding: Resource.openAPI, as: UTF8.self)
    guard let root = try Node.value(of: text) as? [String: Any] else {
      throw Unsupported(description: "openapi.yaml is no mapping")
    }
    self.root = root
    let paths = root["paths"] as? [String: [String: Any]] ?? [:]
    allOperations = Set(
      paths.flatMap { path, item in item.keys.map { Operation(method: $0.uppercased(), path: path) } })
    templates = allOperations.map { ($0, $0.path.split(separator: "/")) }
  }

  static let shared = Result { try Contract() }

  // MARK: Operations

  private var paths: [String: [String: Any]] { root["paths"] as? [String: [String: Any]] ?? [:] }

  /// The operations of the service's own interface.
  var operations: Set<Operation> { allOperations.filter { dialect(of: $0) == nil } }

  /// The operations of dialects, which are off by default and answer in shapes of their own.
  var dialectOperations: Set<Operation> { allOperations.filter { dialect(of: $0) != nil } }

  /// The operation that a request is of.
  func operation(_ method: String, _ target: String) -> Operation? {
    let parts = target.prefix { $0 != "?" }.split(separator: "/")
    return templates.first { operation, template in
      operation.method == method && template.count == parts.count
        && zip(template, parts).allSatisfy { $0.hasPrefix("{") || $0 == $1 }
    }?.operation
  }

  /// The dialect that an operation is of; `nil` for our own.
  func dialect(of operation: Operation) -> String? {
    (paths[operation.path]?[operation.method.lowercased()] as? [String: Any])?["x-dialect"] as? String
  }

  /// The credentials that may be shown, any one of them; empty: none is asked for.
  func credentials(of operation: Operation) -> Set<String> {
    let own = (paths[operation.path]?[operation.method.lowercased()] as? [String: Any])?["security"]
    let choices = (own ?? root["security"]) as? [[String: Any]] ?? []
    return Set(choices.flatMap(\.keys))
  }

  func statuses(of operation: Operation) -> Set<Int> {
    Set(responses(of: operation).keys.compactMap(Int.init))
  }

  private func responses(of operation: Operation) -> [String: Any] {
    let item = paths[operation.path]?[operation.method.lowercased()] as? [String: Any]
    return item?["responses"] as? [String: Any] ?? [:]
  }

  /// The schema of the JSON that an operation asks for, as it stands there.
  func requestSchema(of operation: Operation) -> [String: Any]? {
    let item = paths[operation.path]?[operation.method.lowercased()] as? [String: Any]
    let content = (item?["requestBody"] as? [String: Any])?["content"] as? [String: [String: Any]]
    return content?["application/json"]?["schema"] as? [String: Any]
  }

  func schema(_ name: String) -> [String: Any] {
    let components = root["components"] as? [String: Any]
    let schemas = components?["schemas"] as? [String: Any]
    return schemas?[name] as? [String: Any] ?? [:]
  }

  func responseDescription(of operation: Operation, status: Int) throws -> String? {
    try responses(of: operation)["\(status)"].map(resolved)?["description"] as? String
  }

  /// Every example with the schema that it is of.
  func examples() throws -> [(place: String, schema: [String: Any], value: Any)] {
    var found: [(String, [String: Any], Any)] = []
    for operation in operations {
      let item = try resolved(paths[operation.path]?[operation.method.lowercased()] ?? [:])
      let bodies = try [item["requestBody"]].compactMap(\.self).map { ("request", try resolved($0)) }
      let answers = try responses(of: operation).map { ($0.key, try resolved($0.value)) }
      for (name, body) in bodies + answers {
        for case let content as [String: Any] in (body["content"] as? [String: Any] ?? [:]).values {
          for (title, example) in content["examples"] as? [String: Any] ?? [:] {
            guard let schema = content["schema"] as? [String: Any], let value = try resolved(example)["value"] else {
              throw Unsupported(description: "\(operation) \(name) \(title): no schema or no value")
            }
            found.append(("\(operation) \(name) \(title)", schema, value))
          }
        }
      }
    }
    return found
  }

  // MARK: Answers

  /// The faults of an answer, by the document. The answer to a request that is no operation has to be a problem.
  func findings(_ method: String, _ target: String, _ answer: Answer) throws -> [String] {
    if let operation = operation(method, target) {
      return try findings(
        operation, status: answer.status, contentType: answer.header("Content-Type"), body: answer.body)
    }
    guard answer.status >= 400 else { return ["\(method) \(target): \(answer.status), and it is not documented"] }
    let value = try JSONSerialization.jsonObject(with: Data(answer.body))
    return try violations(of: schema("Problem"), by: value, at: "\(method) \(target)")
  }

  /// The faults of an answer, by the document.
  func findings(_ operation: Operation, status: Int, contentType: String?, body: [UInt8]) throws -> [String] {
    let responses = responses(of: operation)
    guard let response = responses["\(status)"] ?? responses["\(status / 100)XX"] else {
      return ["\(operation): \(status) is not documented"]
    }
    let type = contentType.map { String($0.prefix { $0 != ";" }) } ?? ""
    let resolvedResponse = try resolved(response)
    guard let contents = resolvedResponse["content"] as? [String: Any] else {
      // A media type that client generators do not know is named in the description alone.
      let isDescribed = (resolvedResponse["description"] as? String)?.contains("`\(type)`") == true
      return body.isEmpty || isDescribed ? [] : ["\(operation): \(status) has no body by the document"]
    }
    guard let content = contents[type] as? [String: Any] else {
      return ["\(operation): \(status) comes as '\(type)', and is documented as \(contents.keys.sorted())"]
    }
    guard type.hasSuffix("json"), let schema = content["schema"] as? [String: Any] else { return [] }
    let value = try JSONSerialization.jsonObject(with: Data(body), options: .fragmentsAllowed)
    return try violations(of: schema, by: value, at: "\(operation) \(status)")
  }

  private func resolved(_ value: Any) throws -> [String: Any] {
    guard let object = value as? [String: Any] else { throw Unsupported(description: "not a mapping: \(value)") }
    guard let reference = object["$ref"] as? String else { return object }
    var target: Any = root
    for part in reference.dropFirst(2).split(separator: "/") {
      guard let next = (target as? [String: Any])?[String(part)] else {
        throw Unsupported(description: "nothing at \(reference)")
      }
      target = next
    }
    return try resolved(target)
  }

  /// The texts that an enumeration lists, open or not, `null` apart.
  func values(of schema: [String: Any]) -> [String]? {
    guard let schema = try? resolved(schema) else { return nil }
    if let values = schema["enum"] as? [Any] { return values.compactMap { $0 as? String } }
    let choices = (schema["anyOf"] ?? schema["oneOf"]) as? [[String: Any]]
    return choices?.lazy.compactMap { values(of: $0) }.first
  }

  private static let known: Set<String> = [
    "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "examples", "format", "items", "maxItems",
    "maxLength", "maximum", "minItems", "minLength", "minimum", "not", "oneOf", "pattern", "properties", "required",
    "summary", "type",
    "default",
  ]

  func violations(of schema: [String: Any], by value: Any, at place: String) throws -> [String] {
    let schema = try resolved(schema)
    if let strange = schema.keys.first(where: { !Self.known.contains($0) }) {
      throw Unsupported(description: "\(place): \(strange)")
    }
    var found: [String] = []
    if let type = schema["type"] {
      let types = type as? [String] ?? [type as? String ?? ""]
      if !types.contains(where: { Self.isOf($0, value) }) { found.append("\(place): \(value) is not of \(types)") }
    }
    if let choices = schema["oneOf"] as? [[String: Any]] {
      let fits = try choices.count { try violations(of: $0, by: value, at: place).isEmpty }
      if fits != 1 { found.append("\(place): fits \(fits) of \(choices.count) forms") }
    }
    // An open enumeration: a client takes any text, and this service answers with what is listed.
    if let choices = schema["anyOf"] as? [[String: Any]], let listed = choices.first {
      found += try violations(of: listed, by: value, at: place)
    }
    if let values = schema["enum"] as? [Any], !values.contains(where: { Self.isSame($0, value) }) {
      found.append("\(place): \(value) is not one of \(values)")
    }
    if let constant = schema["const"], !Self.isSame(constant, value) {
      found.append("\(place): \(value) is not \(constant)")
    }
    if let text = value as? String {
      if let pattern = schema["pattern"] as? String, try text.firstMatch(of: Regex(pattern)) == nil {
        found.append("\(place): '\(text)' is not \(pattern)")
      }
      if schema["format"] as? String == "date-time", (try? Date(text, strategy: .iso8601)) == nil {
        found.append("\(place): '\(text)' is no date")
      }
    }
    if let items = schema["items"] as? [String: Any], let elements = value as? [Any] {
      if let least = schema["minItems"] as? Int, elements.count < least {
        found.append("\(place): fewer than \(least)")
      }
      for (number, element) in elements.enumerated() {
        found += try violations(of: items, by: element, at: "\(place)[\(number)]")
      }
    }
    if let object = value as? [String: Any] {
      let properties = schema["properties"] as? [String: [String: Any]] ?? [:]
      for name in schema["required"] as? [String] ?? [] where object[name] == nil {
        found.append("\(place): '\(name)' is missing")
      }
      for (name, member) in object {
        if let property = properties[name] {
          found += try violations(of: property, by: member, at: "\(place).\(name)")
        } else if let others = schema["additionalProperties"] as? [String: Any] {
          found += try violations(of: others, by: member, at: "\(place).\(name)")
        } else if schema["additionalProperties"] as? Bool == false {
          found.append("\(place): '\(name)' is not documented")
        }
      }
    }
    return found
  }

  private static func isOf(_ type: String, _ value: Any) -> Bool {
    switch type {
    case "null": return value is NSNull
    case "string": return value is String
    case "array": return value is [Any]
    case "object": return value is [String: Any]
    case "boolean": return (value as? NSNumber).map(isBoolean) ?? false
    case "number": return (value as? NSNumber).map { !isBoolean($0) } ?? false
    case "integer":
      return (value as? NSNumber).map { !isBoolean($0) && $0.doubleValue.rounded() == $0.doubleValue } ?? false
    default: return false
    }
  }

  static func isBoolean(_ number: NSNumber) -> Bool { String(cString: number.objCType) == "c" }

  private static func isSame(_ one: Any, _ other: Any) -> Bool {
    switch (one, other) {
    case (is NSNull, is NSNull): true
    case (let one as String, let other as String): one == other
    case (let one as NSNumber, let other as NSNumber): one == other
    case (let one as Int, let other as NSNumber): one == other.intValue
    case (let one as Bool, let other as NSNumber): one == other.boolValue
    default: false
    }
  }
}
