import Entitlements
import Hummingbird

extension ServiceRequestContext {
  /// The user in the path of a route for keys alone.
  /// - Throws: a 400 problem, or 403 for `me`.
  func checkedUserInPath() throws(Problem) -> UserID {
    let name = try userNameInPath()
    guard name != "me" else { throw Problem(.forbidden, "'me' is for users; a key has to name the user.") }
    return try UserID(checking: name)
  }

  /// A user's name in a path, as it stands there.
  /// - Throws: a 400 problem.
  func userNameInPath() throws(Problem) -> String {
    guard let name = parameters["user_id"].flatMap(UserID.percentDecoded) else {
      throw Problem(.malformedRequest, "The user ID in the path is not percent-encoded UTF-8.")
    }
    return name
  }

  /// The number of a record in a path, in the digits that the service writes; `nil` for anything else.
  func number(_ parameter: String) -> Int64? {
    parameters[parameter].flatMap { text in Int64(text).flatMap { $0 > 0 && String($0) == text ? $0 : nil } }
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
  var isTransactionID: Bool { (1...32).contains(utf8.count) && utf8.allSatisfy(\.isDigit) }

  /// Whether a text may be a store's ID: 1 to 64 visible ASCII characters.
  var isStoreID: Bool { (1...64).contains(utf8.count) && utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f } }
}

extension UserID {
  /// A path segment without its percent-encoding (RFC 3986, section 2.1): clients have to write `|` that way, and many
  /// write `@` and `:` so too.
  ///
  /// - Returns: `nil` for what is no percent-encoding, or not UTF-8.
  static func percentDecoded(_ segment: some StringProtocol) -> String? {
    var bytes: [UInt8] = []
    var rest = Array(segment.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst().flatMap(Self.digit), let low = rest.popFirst().flatMap(Self.digit) else {
        return nil
      }
      bytes.append(high << 4 | low)
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    Character(Unicode.Scalar(byte)).hexDigitValue.flatMap { UInt8(exactly: $0) }
  }

  /// - Parameter name: the member or parameter that it came as.
  /// - Throws: a 400 problem.
  init(checking text: String, named name: String = "user_id") throws(Problem) {
    guard let user = UserID(fromOutside: text) else {
      throw Problem(
        .malformedRequest,
        "'\(name)' has to be 1 to 100 characters, without '/' and spaces, and neither 'me' nor a word like 'null'."
      )
    }
    self = user
  }

  /// - Parameter role: the user whom a request has to name: `the trial's user`.
  /// - Throws: a 400 problem.
  init(required text: String?, named name: String = "user_id", as role: String) throws(Problem) {
    guard let text else { throw Problem(.malformedRequest, "'\(name)' is missing: name \(role).") }
    try self.init(checking: text, named: name)
  }
}
