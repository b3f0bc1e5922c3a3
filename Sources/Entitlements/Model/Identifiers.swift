/// An identifier with a type of its own, so that a product ID cannot be passed as a transaction ID.
///
/// Identifiers are compared as strings: Apple's transaction IDs look like numbers, but no arithmetic holds for them.
package protocol Identifier: RawRepresentable, Hashable, Codable, Sendable, CustomStringConvertible,
  ExpressibleByStringLiteral
where RawValue == String {
  init(rawValue: String)
}

extension Identifier {
  package init(_ rawValue: String) { self.init(rawValue: rawValue) }
  package init(stringLiteral value: String) { self.init(rawValue: value) }
  package var description: String { rawValue }
}

/// A product's ID in App Store Connect, for example `com.example.app.pro.monthly`.
package struct ProductID: Identifier {
  package let rawValue: String
  package init(rawValue: String) { self.rawValue = rawValue }
}

/// One purchase or one renewal of it (`transaction_id`). Restoring the purchase changes it.
package struct TransactionID: Identifier {
  package let rawValue: String
  package init(rawValue: String) { self.rawValue = rawValue }
}

/// The first transaction of a purchase (`original_transaction_id`): the same for all renewals in production.
package struct OriginalTransactionID: Identifier {
  package let rawValue: String
  package init(rawValue: String) { self.rawValue = rawValue }
}

extension OriginalTransactionID {
  /// Whether it names another store than Apple's: Apple's IDs have no colon.
  package var isOfAnotherStore: Bool { rawValue.utf8.contains(UInt8(ascii: ":")) }

  /// The other store, in RevenueCat's word: `play_store`. `nil` for Apple's.
  package var store: String? { rawValue.utf8.firstIndex(of: UInt8(ascii: ":")).map { String(rawValue[..<$0]) } }
}

/// Apple's ID of a subscription group (`subscription_group_identifier`).
package struct SubscriptionGroupID: Identifier {
  package let rawValue: String
  package init(rawValue: String) { self.rawValue = rawValue }
}

/// The app's own user, by the ID in the profile store and in callers' tokens.
///
/// UUIDs are compared without case (RFC 9562, section 4): Swift writes capitals, most other languages do not. The text
/// is kept as given, as the app's own row may be found by it alone. Any other ID is compared octet by octet, as tables
/// compare it: text from outside is ASCII, or in Normalization Form C (`init(appUserID:)`).
package struct UserID: Identifier {
  package let rawValue: String
  /// The ID as a purchase would name it: in lower case, if it is a UUID. Kept, as every user is found by it.
  package let accountToken: String?

  package init(rawValue: String) {
    self.rawValue = rawValue
    accountToken = AppAccount(rawValue)?.text
  }

  /// A user ID from outside: 1 to 128 letters, digits and `. _ : @ | + = - $`, which covers UUIDs, the IDs of common
  /// identity providers, and the anonymous ones of RevenueCat.
  ///
  /// - Returns: `nil` for anything else, for `me`, which names the caller, and for words that a program writes where it has
  ///   no ID: they would make one customer of all.
  package init?(valid text: String) {
    let isPlain = text.utf8.allSatisfy { $0.isLetter || $0.isDigit || "._:@|+=-$".utf8.contains($0) }
    guard isPlain, (1...128).contains(text.utf8.count), text != "me", !Self.placeholders.contains(text) else {
      return nil
    }
    // The UUID of a device is compared without case.
    self.init(text.hasPrefix(Self.devicePrefix) ? text.lowercased() : text)
  }

  package static let nobody = UserID("")

  /// Whether the user has not signed in: a device, or an ID that RevenueCat's SDK made up: `$RCAnonymousID:` and, as a
  /// rule, 32 hexadecimal digits. No row of the app's has such a key.
  package var isAnonymous: Bool { rawValue.hasPrefix("$RCAnonymousID:") || isDevice }

  /// The beginning of the IDs of devices that stand for their users, in an app without accounts; the device's UUID follows.
  package static let devicePrefix = "$device:"

  package var isDevice: Bool { rawValue.hasPrefix(Self.devicePrefix) }

  /// The prefix of the pseudonyms of erased users in the ledger. A user ID from outside has no slash, so that nobody
  /// can have such a name, and no route can ask for it.
  package static let pseudonymPrefix = "erased/"

  package var isErased: Bool { rawValue.hasPrefix(Self.pseudonymPrefix) }

  /// Whether the app may have a row for this user: it has none for a customer who has not signed in, nor for a pseudonym.
  package var mayHaveRow: Bool { !isAnonymous && !isErased }

  /// The name in answers. An erased user has one name for all, so that it links no purchases.
  package var shown: String { isErased ? "(erased)" : rawValue }

  package static func == (one: UserID, other: UserID) -> Bool {
    // Swift compares texts by canonical equivalence, which is quick to deny and not enough.
    if let account = one.accountToken { return account == other.accountToken }
    return one.rawValue == other.rawValue && one.rawValue.utf8.elementsEqual(other.rawValue.utf8)
  }

  /// Written out, since `RawRepresentable` supplies a `!=` that compares the texts.
  package static func != (one: UserID, other: UserID) -> Bool { !(one == other) }

  package func hash(into hasher: inout Hasher) { hasher.combine(accountToken ?? rawValue) }
}

/// An app (`bundle_id`; `bid` in iOS 6-style answers).
package struct BundleID: Identifier {
  package let rawValue: String
  package init(rawValue: String) { self.rawValue = rawValue }
}

/// Apple's two stores. A purchase belongs to exactly one of them.
package enum StoreEnvironment: String, Hashable, Codable, Sendable, CaseIterable {
  case production, sandbox
}

/// A subscription's key: its environment and its original transaction ID.
///
/// The environment is part of the key because the two stores assign IDs independently.
package struct SubscriptionKey: Hashable, Codable, Sendable {
  package let environment: StoreEnvironment
  package let originalTransactionID: OriginalTransactionID

  package init(environment: StoreEnvironment, originalTransactionID: OriginalTransactionID) {
    self.environment = environment
    self.originalTransactionID = originalTransactionID
  }

  /// Whether the purchase was made at another store than Apple's, which cannot be asked: its ID names the store,
  /// `play_store:GPA.1234`.
  package var isOfAnotherStore: Bool { originalTransactionID.isOfAnotherStore }

  /// Whether the purchase is the app itself: see `OriginalPurchase`.
  package var isOfApp: Bool { originalTransactionID.isOfApp }

  /// Whether a product of the app was bought at the App Store.
  package var isOfAppStoreProduct: Bool { !isOfAnotherStore && !isOfApp }
}
