import FoundationEssentials

extension Date {
  /// A time from outside (RFC 3339, with a zone).
  ///
  /// - Parameter name: the member or parameter that it came as.
  /// - Throws: a 400 problem.
  init(checking text: String, named name: String) throws(Problem) {
    let formats = [Date.ISO8601FormatStyle(), Date.ISO8601FormatStyle(includingFractionalSeconds: true)]
    guard text.utf8.count <= 40, let moment = formats.lazy.compactMap({ try? $0.parse(text) }).first else {
      throw Problem(.malformedRequest, "'\(name)' has to be a time with a zone, such as 2026-12-31T23:00:00Z.")
    }
    self = moment
  }
}
