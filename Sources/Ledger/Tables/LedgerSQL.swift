/// A statement's text with its values, as written in the code.
///
///     SELECT state FROM profile_update WHERE user_id = \(user.rawValue)
///     └──────────────── a literal ────────────────────┘ └─ a value ─┘
///
/// Values are bound, never part of the text. Literals are identified by their address in the program: a repeated
/// statement is found in the cache without assembling its text.
struct LedgerSQL: ExpressibleByStringInterpolation, Sendable {
  enum Value: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case blob([UInt8])
  }

  /// The literals of a statement, equal if they have the same addresses.
  struct Name: Hashable, Sendable {
    fileprivate(set) var literals: [StaticString]
    private(set) var mark: UInt = 0

    fileprivate mutating func append(_ literal: StaticString) {
      literals.append(literal)
      mark = (mark << 7 | mark >> 57) ^ UInt(bitPattern: literal.utf8Start)
    }

    static func == (one: Name, other: Name) -> Bool {
      one.mark == other.mark && one.literals.count == other.literals.count
        && zip(one.literals, other.literals).allSatisfy {
          $0.utf8Start == $1.utf8Start && $0.utf8CodeUnitCount == $1.utf8CodeUnitCount
        }
    }

    func hash(into hasher: inout Hasher) { hasher.combine(mark) }
  }

  struct StringInterpolation: StringInterpolationProtocol {
    typealias StringLiteralType = StaticString

    fileprivate var name = Name(literals: [])
    fileprivate var values: [Value] = []

    init(literalCapacity: Int, interpolationCount: Int) {
      name.literals.reserveCapacity(2 * interpolationCount + 1)
      values.reserveCapacity(interpolationCount)
    }

    mutating func appendLiteral(_ literal: StaticString) { name.append(literal) }

    mutating func appendInterpolation(_ value: String) { append(.text(value)) }
    mutating func appendInterpolation(_ value: String?) { append(value.map(Value.text) ?? .null) }
    mutating func appendInterpolation(_ value: Int64) { append(.integer(value)) }
    mutating func appendInterpolation(_ value: Int64?) { append(value.map(Value.integer) ?? .null) }
    mutating func appendInterpolation(_ value: Int) { append(.integer(Int64(value))) }
    mutating func appendInterpolation(_ value: Bool) { append(.integer(value ? 1 : 0)) }
    mutating func appendInterpolation(_ value: [UInt8]) { append(.blob(value)) }

    private mutating func append(_ value: Value) {
      name.append(LedgerSQL.mark)
      values.append(value)
    }
  }

  /// The placeholder for a value.
  fileprivate static let mark: StaticString = "?"

  let name: Name
  let values: [Value]

  init(stringLiteral literal: StaticString) {
    var name = Name(literals: [])
    name.append(literal)
    self.name = name
    values = []
  }

  init(stringInterpolation: StringInterpolation) {
    name = stringInterpolation.name
    values = stringInterpolation.values
  }

  /// The text as SQLite accepts it.
  var text: String { name.literals.map(\.description).joined() }
}
