import Entitlements
import Hummingbird

extension ServiceRequestContext {
  /// The user in the path of a route for keys alone.
  /// - Throws: a 400 problem, or 403 for `me`.
  func checkedUserInPath() throws(Problem) -> UserID {
    guard let name = parameters["user_id"].flatMap(UserID.percentDecoded) else {
      throw Problem(.malformedRequest, "The user ID in the path is not percent-encoded UTF-8.")
    }
    guard name != "me" else { throw Problem(.forbidden, "'me' is for users; a key has to name the user.") }
    return try UserID(checking: name)
  }

  /// The original transaction ID in a path.
  /// - Throws: a 400 problem.
  func originalTransactionIDInPath() throws(Problem) -> OriginalTransactionID {
    guard let id = parameters["original_transaction_id"].flatMap(UserID.percentDecoded), id.isStoreID else {
      throw Problem(.malformedRequest, "The path has to name the original transaction ID as Apple writes it.")
    }
    return OriginalTransactionID(id)
  }

  /// The transaction ID in a path.
  /// - Throws: a 400 problem.
  func transactionIDInPath() throws(Problem) -> TransactionID {
    guard let id = parameters["transaction_id"], id.isTransactionID else {
      throw Problem(.malformedRequest, "The path has to name the transaction ID as Apple writes it: up to 32 digits.")
    }
    return TransactionID(id)
  }
}

extension String {
  /// Whether a text may be Apple's ID of a transaction: 1 to 32 digits.
  var isTransactionID: Bool {
    (1...32).contains(utf8.count) && utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
  }

  /// Whether a text may be a store's ID: 1 to 64 visible ASCII characters.
  var isStoreID: Bool { (1...64).contains(utf8.count) && utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f } }
}
