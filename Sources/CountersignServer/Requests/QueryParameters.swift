import Access
import AppStore
import Entitlements
import Hummingbird

import struct FoundationEssentials.Date

extension Request {
  /// The zone in `?time_zone=`.
  func timeZone() throws(Problem) -> Zone? {
    try parameter("time_zone").map { text throws(Problem) in try Zone(checking: text) }
  }

  /// The value of a parameter in the query.
  /// - Throws: a 400 problem for one that is given twice.
  func parameter(_ name: Substring) throws(Problem) -> String? {
    let values = uri.queryParameters[values: name]
    guard values.count <= 1 else { throw Problem(.malformedRequest, "'\(name)' is given twice.") }
    return values.first.map(String.init)
  }

  /// A whole number in the query.
  func wholeNumber(_ name: Substring, in range: ClosedRange<Int>) throws(Problem) -> Int? {
    guard let text = try parameter(name) else { return nil }
    guard text.utf8.count <= 10, text.utf8.allSatisfy(\.isDigit), let number = Int(text), range.contains(number) else {
      throw Problem(
        .malformedRequest, "'\(name)' has to be a whole number from \(range.lowerBound) to \(range.upperBound).")
    }
    return number
  }

  /// The number after which a page begins: `after`, of the answer before.
  func pagePosition() throws(Problem) -> Int64 { try pagePosition("after", from: "next") ?? 0 }

  /// The number at which a page begins, as the answer before named it; `nil` without one.
  func pagePosition(_ name: Substring, from member: String) throws(Problem) -> Int64? {
    guard let text = try parameter(name) else { return nil }
    guard text.utf8.count <= 18, text.utf8.allSatisfy(\.isDigit), let position = Int64(text) else {
      throw Problem.unknownPlace(name, from: member)
    }
    return position
  }
}

extension Problem {
  static let inBothStores = Problem(
    .malformedRequest, "Both stores know this ID: add 'environment', which is 'production' or 'sandbox'.")

  /// A place in a list that no answer has named.
  static func unknownPlace(_ name: some StringProtocol, from member: String) -> Problem {
    Problem(.malformedRequest, "'\(name)' is unknown: take it from '\(member)' of the previous answer.")
  }
}

extension StoreEnvironment {
  /// A store from outside.
  /// - Throws: a 400 problem.
  static func checked(_ name: String) throws(Problem) -> StoreEnvironment {
    guard let environment = StoreEnvironment(rawValue: name) else {
      throw Problem(.malformedRequest, "'environment' has to be 'production' or 'sandbox'.")
    }
    return environment
  }
}

extension Zone {
  /// A zone from outside.
  /// - Throws: a 400 problem.
  init(checking name: String) throws(Problem) {
    guard let zone = Zone(named: name) else {
      throw Problem(
        .malformedRequest, "'time_zone' has to be an Area/City of the IANA database, such as Europe/Berlin, or UTC.")
    }
    self = zone
  }
}

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
