/// The two ways to read a text, each by itself, whose types are nobody's business elsewhere.
package enum JSONMeasured {
  /// - Returns: whether the text is plain.
  package static func index(_ text: [UInt8]) -> Bool {
    JSONDocument(plain: text, root: .object, limits: JSONLimits()) != nil
  }

  package static func parse(_ text: [UInt8]) throws(JSONError) { _ = try JSONDocument(parsing: text) }
}
