package import Entitlements
package import struct FoundationEssentials.Date

/// A customer of an SDK: a user, bought or not, under all the IDs by which the SDK knows them.
package struct Customer: Sendable {
  /// The user whom every ID of the customer means.
  package var user: UserID
  /// The oldest ID.
  package var originalID: UserID
  package var firstSeenAt: Date
  package var lastSeenAt: Date

  /// The time after which a customer is noted as seen again: a note of each read would cost an fsync each.
  package static let visit = Duration.seconds(86_400)
  /// The most anonymous IDs without an account that mean one user; older ones are forgotten.
  package static let mostAliases = 50
  /// The time for which a customer with nothing but an ID is kept, from when it was last named.
  package static let bareAge = Duration.seconds(30 * 86_400)
}

/// When a subscription's troubles were first seen.
package struct PurchaseTroubles: Hashable, Sendable {
  /// Renewal was first seen to be off; `nil`: it is on.
  package var renewalOffAt: Date?
  /// Billing first failed; `nil`: it works.
  package var billingFailedAt: Date?
}

/// An attribute that an app sets for a customer, under a name of the app's.
package struct CustomerAttribute: Hashable, Sendable {
  /// `nil` deletes the attribute.
  package var value: String?
  /// By the device's clock: the newest statement stands, whenever it arrives.
  package var updatedAtMilliseconds: Int64

  package init(value: String?, updatedAtMilliseconds: Int64) {
    self.value = value
    self.updatedAtMilliseconds = updatedAtMilliseconds
  }

  /// The most attributes of one customer; more are not kept.
  package static let most = 100
  /// The most bytes of UTF-8 of a name, of a value, and of all names and values of one customer.
  package static let longestName = 160
  package static let longestValue = 2_000
  package static let mostBytes = 64 * 1024

  /// The bytes that it takes under a name.
  func size(named name: String) -> Int { name.utf8.count + (value?.utf8.count ?? 0) }
}
