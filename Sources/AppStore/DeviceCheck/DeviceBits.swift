import JSON

/// The two bits that Apple keeps for each device and developer team. They outlive the app, an erased device and its
/// sale.
package struct DeviceBits: Hashable, Sendable {
  package var bit0: Bool
  package var bit1: Bool
  /// The month of the last update, `YYYY-MM`, if Apple names it.
  package var lastUpdate: String?

  package init(bit0: Bool, bit1: Bool, lastUpdate: String? = nil) {
    self.bit0 = bit0
    self.bit1 = bit1
    self.lastUpdate = lastUpdate
  }

  /// - Returns: `nil` for bits that were never set. Apple says so in plain text, with HTTP 200.
  static func read(_ body: [UInt8]) async throws(JSONReader.Failure) -> DeviceBits? {
    let words = String(decoding: body.prefix(64), as: UTF8.self).lowercased().split(whereSeparator: \.isWhitespace)
    if neverSet.contains(words.joined(separator: " ")) { return nil }
    return try await JSONReader.shared.read(body) { root throws(JSONError) in try DeviceBits(root) }
  }

  private static let neverSet = ["failed to find bit state", "bit state not found"]

  private init(_ root: JSONValue) throws(JSONError) {
    guard let bit0 = try root.flag("bit0") else { throw root.missing("bit0") }
    guard let bit1 = try root.flag("bit1") else { throw root.missing("bit1") }
    self.init(bit0: bit0, bit1: bit1, lastUpdate: try root.text("last_update_time"))
  }
}
