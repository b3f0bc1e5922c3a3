internal import Entitlements
internal import struct FoundationEssentials.Data
internal import struct FoundationEssentials.Date
internal import class FoundationEssentials.JSONDecoder
internal import class FoundationEssentials.JSONEncoder
internal import JSON

/// The stored form of values: JSON with sorted keys, dates as integer milliseconds since 1970.
///
/// Equal values have equal texts, so texts can be compared without decoding.
package enum StoredForm {
  /// A value that has no exact stored form.
  package struct Unstorable: Error {
    package init() {}
  }

  /// A value stored as JSON. `Codable` defines the text; the other two functions do the same in a fraction of the time.
  protocol Value: Codable {
    func write(to writer: inout JSONWriter) throws
    init(from reader: inout StoredTextReader) throws(StoredTextReader.Unfamiliar)
  }

  static func text(_ value: some Value) throws -> String {
    var writer = JSONWriter()
    try value.write(to: &writer)
    return String(decoding: writer.bytes, as: UTF8.self)
  }

  static func value<Stored: Value>(_ type: Stored.Type, _ text: String) throws -> Stored {
    do throws(StoredTextReader.Unfamiliar) {
      return try StoredTextReader.value(of: text, Stored.init(from:))
    } catch {
      return try decoded(type, text)
    }
  }

  /// The text as Foundation writes it: the reference for the writer above.
  package static func encoded(_ value: some Encodable) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    encoder.dateEncodingStrategy = .custom { date, encoder in
      var container = encoder.singleValueContainer()
      try container.encode(milliseconds(date))
    }
    return String(decoding: try encoder.encode(value), as: UTF8.self)
  }

  /// The value as Foundation reads it: accepts any JSON writer.
  package static func decoded<Value: Decodable>(_ type: Value.Type, _ text: String) throws -> Value {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .custom { decoder in
      date(try decoder.singleValueContainer().decode(Int64.self))
    }
    return try decoder.decode(type, from: Data(text.utf8))
  }

  /// - Throws: `Unstorable` for a date that no 64-bit count of milliseconds holds.
  static func milliseconds(_ date: Date) throws -> Int64 {
    guard let exact = Int64(exactly: (date.timeIntervalSince1970 * 1000).rounded()) else { throw Unstorable() }
    return exact
  }

  /// A JSON array of integers.
  static func text(_ integers: [Int64]) -> String { "[" + integers.map(String.init).joined(separator: ",") + "]" }

  static func integers(_ text: String) throws -> [Int64] {
    guard text.hasPrefix("["), text.hasSuffix("]") else { throw Unstorable() }
    return try text.dropFirst().dropLast().split(separator: ",").map { digits in
      guard let integer = Int64(digits) else { throw Unstorable() }
      return integer
    }
  }

  static func date(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }
}

extension Entitlement {
  /// The verdict as it will be read.
  var inWholeMilliseconds: Entitlement {
    var copy = self
    copy.expiresAt = expiresAt?.inWholeMilliseconds
    copy.accessUntil = accessUntil?.inWholeMilliseconds
    copy.commitmentExpiresAt = commitmentExpiresAt?.inWholeMilliseconds
    copy.evidenceTime = evidenceTime?.inWholeMilliseconds
    copy.explanation.evaluatedAt = explanation.evaluatedAt?.inWholeMilliseconds
    return copy
  }

  /// The verdict without its evaluation time: a difference in the rest is worth a history line.
  var apartFromMoment: Entitlement {
    var copy = self
    copy.explanation.evaluatedAt = nil
    return copy
  }

  /// The verdict without its evidence and evaluation times.
  var apartFromTimes: Entitlement {
    var copy = apartFromMoment
    copy.evidenceTime = nil
    return copy
  }

  /// The verdict without evidence time and explanation: a difference in the rest counts as a change.
  var apartFromEvidence: Entitlement {
    var copy = self
    copy.evidenceTime = nil
    copy.explanation = Explanation(decidedBy: nil, passedOver: [], evaluatedAt: nil)
    return copy
  }

  /// Whether the verdict gives its user nothing that a transfer could take away.
  ///
  /// `unproven` does not count: it means that newer evidence is due, and an undetermined subscription has not ended.
  var isInactive: Bool {
    switch reason {
    case .unproven: false
    case .noPurchases, .noKnownProduct, .accountGone: true
    case .lifetime, .renewing, .renewalOff, .refunded, .revoked, .billingGrace, .billingRetry, .renewalDue,
      .nonRenewing, .periodOver, .voluntary, .billingError, .priceIncrease, .productUnavailable, .unknown, .granted,
      .trial, .originalPurchase:
      status == .expired
    }
  }
}
