import AppStore

import struct FoundationEssentials.Date

extension Date {
  /// A time from outside (RFC 3339, with a zone).
  ///
  /// - Parameter name: the member or parameter that it came as.
  /// - Throws: a 400 problem.
  init(checking text: String, named name: String) throws(Problem) {
    guard text.utf8.count <= 40, let moment = ReceiptDate.parse(rfc3339: Array(text.utf8)[...]) else {
      throw Problem(.malformedRequest, "'\(name)' has to be a time with a zone, such as 2026-12-31T23:00:00Z.")
    }
    self = moment
  }
}
