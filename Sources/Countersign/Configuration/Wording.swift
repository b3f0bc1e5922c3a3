/// Parts of sentences.
enum Wording {
  /// `accept, testers or reject`
  static func alternatives(_ words: [String]) -> String { joined(words, by: "or") }

  /// `name, role and sha256`
  static func list(_ words: [String]) -> String { joined(words, by: "and") }

  private static func joined(_ words: [String], by conjunction: String) -> String {
    guard let last = words.last, words.count > 1 else { return words.joined() }
    return words.dropLast().joined(separator: ", ") + " \(conjunction) " + last
  }

  /// An exact size: `4MiB`.
  static func size(_ bytes: Int) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
    for (name, scale) in units where bytes >= scale && bytes.isMultiple(of: scale) { return "\(bytes / scale)\(name)" }
    return "\(bytes)"
  }

  /// A rounded size: `12.3 GiB`.
  static func roughSize(_ bytes: UInt64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    var value = Double(bytes)
    var unit = 0
    while value >= 1024, unit < units.count - 1 {
      value /= 1024
      unit += 1
    }
    let text = value >= 100 || unit == 0 ? "\(Int(value))" : "\((value * 10).rounded() / 10)"
    return "\(text) \(units[unit])"
  }
}
