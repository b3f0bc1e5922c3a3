package import struct FoundationEssentials.Date

/// Apple's report on the app itself: a customer's first download, and its version.
///
/// https://developer.apple.com/documentation/storekit/apptransaction
package struct OriginalPurchase: Hashable, Sendable {
  /// On iOS the build number, `CFBundleVersion`; on macOS `CFBundleShortVersionString`. The sandbox says "1.0" of
  /// everybody.
  package var version: String?
  package var date: Date?
  /// Apple's ID of the customer's download, one for each Apple account; an app receipt has none.
  package var appTransactionID: String?
  /// When Apple signed it: it never changes, so that an answer says nothing newer.
  package var signedAt: Date

  package init(version: String?, date: Date?, appTransactionID: String? = nil, signedAt: Date) {
    self.version = version
    self.date = date
    self.appTransactionID = appTransactionID
    self.signedAt = signedAt
  }
}

extension OriginalTransactionID {
  private static let appPrefix = "app-"

  /// The ID under which the purchase of the app itself is kept. Apple's are digits, so that none has this form.
  ///
  /// - Parameter name: Apple's ID of the download; else one of our own, of the receipt that showed it first.
  package init(ofApp name: String) { self.init(Self.appPrefix + name) }

  /// Apple's ID of the download; `nil` for any other purchase, and where Apple did not name it.
  package var appTransactionID: String? {
    let id = rawValue.dropFirst(Self.appPrefix.count)
    return isOfApp && !id.isEmpty && id.utf8.allSatisfy { (0x30...0x39).contains($0) } ? String(id) : nil
  }

  package var isOfApp: Bool { rawValue.hasPrefix(Self.appPrefix) }
}

/// The tier of customers who had the app early enough (`catalog.original_purchase`).
package struct OriginalPurchaseRule: Hashable, Sendable {
  package enum Bound: Hashable, Sendable {
    case version(AppVersion)
    case date(Date)
  }

  /// The first version, or moment, that is no longer early enough.
  package let before: Bound
  package let tier: Tier

  package init(before: Bound, tier: Tier) {
    self.before = before
    self.tier = tier
  }

  /// Whether a purchase of the app was early enough. A version that is none of dotted numbers is not.
  func covers(_ purchase: Purchase) -> Bool {
    switch before {
    case .version(let bound): purchase.appVersion.flatMap { AppVersion($0) }.map { $0 < bound } ?? false
    case .date(let bound): purchase.purchaseDate?.isBefore(bound) ?? false
    }
  }
}

/// A version of dotted numbers, compared number by number: 9.9 is before 10, and 3 is 3.0.
package struct AppVersion: Hashable, Comparable, Sendable {
  /// Without leading zeros, and without zeros at the end.
  private let numbers: [String]

  /// - Returns: `nil` for anything but 1 to 64 digits and dots, with a number on both sides of each dot.
  package init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard (1...64).contains(text.utf8.count),
      parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } })
    else { return nil }
    var numbers = parts.map { String($0.drop { $0 == "0" }) }
    while numbers.last?.isEmpty == true { numbers.removeLast() }
    self.numbers = numbers
  }

  package static func < (one: Self, other: Self) -> Bool {
    // A build number may be longer than an `Int`.
    one.numbers.lexicographicallyPrecedes(other.numbers) { one, other in
      one.utf8.count == other.utf8.count ? one < other : one.utf8.count < other.utf8.count
    }
  }

  /// `3.0.1`; "0" stands for a version of zeros.
  package var text: String { numbers.isEmpty ? "0" : numbers.map { $0.isEmpty ? "0" : $0 }.joined(separator: ".") }
}
