import Entitlements

import struct FoundationEssentials.Data

enum ReceiptText {
  static let space = UInt8(ascii: " ")
  private static let dot = UInt8(ascii: ".")

  /// Whether the bytes start with a SEQUENCE of long or indefinite length, as every app receipt does and no text can.
  static func isBinaryDER(_ bytes: [UInt8]) -> Bool { bytes.count > 1 && bytes[0] == 0x30 && bytes[1] >= 0x80 }

  static func isLineBreak(_ byte: UInt8) -> Bool { byte == 0x0A || byte == 0x0D || byte == 0x09 }

  /// The text without a byte order mark and without whitespace at both ends.
  static func trimmed(_ bytes: [UInt8]) -> ArraySlice<UInt8> {
    var text = bytes[...]
    if text.starts(with: [0xEF, 0xBB, 0xBF]) { text = text.dropFirst(3) }
    text = text.drop { isLineBreak($0) || $0 == space }
    while let last = text.last, isLineBreak(last) || last == space { text = text.dropLast() }
    return text
  }

  static func withoutWhitespace(_ text: ArraySlice<UInt8>) -> [UInt8] {
    text.filter { !isLineBreak($0) && $0 != space }
  }

  /// The usual mistake that the text is; `nil` if it may be base64.
  static func mistake(_ text: ArraySlice<UInt8>) -> UndecodableReceipt? {
    switch text.first {
    case UInt8(ascii: "{"), UInt8(ascii: "["):
      if starts(text, "[object ") { return .scriptObject }
      if starts(text, "{length") { return .descriptionOfData }
      if contains(text, "\"Store\""), contains(text, "\"Payload\"") {
        return ["GooglePlay", "fake"].contains { contains(text, "\"\($0)\"") } ? .unityOfAnotherStore : .unityEnvelope
      }
      if contains(text, "\"signedPayload\"") { return .notification }
      if ["", " "].contains(where: { contains(text, "\"transactionReceipt\":\($0)\"MI") }) { return .wholePurchase }
      return ["transactionId", "originalTransactionId"].contains { contains(text, "\"\($0)\"") }
        ? .decodedTransaction : .json
    case UInt8(ascii: "<"): return isDescriptionOfData(text) ? .hexadecimal : .markup
    case UInt8(ascii: "\""), UInt8(ascii: "'"): return .quoted
    default: break
    }
    if starts(text, "-----BEGIN") { return .pem }
    if starts(text, "data:") { return .dataURL }
    if starts(text, "bearer ") { return .bearer }
    if isPath(text) { return .path }
    if text.count <= 9, missingValues.contains(String(decoding: text, as: UTF8.self).lowercased()) { return .missing }
    if starts(text, "MI") || starts(text, "ey"), text.contains(UInt8(ascii: "\\")) { return .escaped }
    if text.count <= 25, text.allSatisfy(\.isDigit) { return .transactionID }
    if text.count >= 32, text.allSatisfy(\.isHexadecimalDigit) { return .hexadecimal }
    if hasPercentEncoding(text) { return .percentEncoded }
    return nil
  }

  /// Decodes base64 of either alphabet, with or without padding, and names the repairs.
  static func base64(_ text: [UInt8]) throws(UndecodableReceipt) -> (bytes: [UInt8], repairs: [ReceiptRepair]) {
    var repairs: [ReceiptRepair] = []
    var digits = text
    let padding = text.reversed().prefix { $0 == UInt8(ascii: "=") }.count
    digits.removeLast(padding)
    if digits.contains(where: { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }) {
      repairs.append(.base64URL)
      digits = digits.map { digit in
        switch digit {
        case UInt8(ascii: "-"): UInt8(ascii: "+")
        case UInt8(ascii: "_"): UInt8(ascii: "/")
        default: digit
        }
      }
    }
    guard digits.allSatisfy(isBase64Digit) else { throw .notBase64 }
    guard digits.count % 4 != 1 else { throw starts(digits[...], "MI") ? .cutBase64 : .notBase64 }
    let needed = (4 - digits.count % 4) % 4
    if padding != needed { repairs.append(.padding) }
    digits += repeatElement(UInt8(ascii: "="), count: needed)
    guard let bytes = Data(base64Encoded: Data(digits)) else { throw .notBase64 }
    return (Array(bytes), repairs)
  }

  /// Decodes the usual submission: a receipt in base64 exactly as an encoder writes it, with nothing around it.
  ///
  /// - Returns: `nil` for every other text.
  static func plainReceipt(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
    // These digits mean 0x30 and 0x80 to 0x8F: a SEQUENCE of long or indefinite length. No other kind of text starts so
    // and consists of digits alone.
    guard text.count >= 4, text.count % 4 == 0, text[0] == UInt8(ascii: "M"), text[1] == UInt8(ascii: "I") else {
      return nil
    }
    let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
    // Foundation takes signs of padding in other places, too.
    guard canonicalEnds[padding].contains(text[text.count - 1 - padding]) else { return nil }
    var signs: UInt8 = 0
    for byte in UnsafeBufferPointer(rebasing: text.dropLast(padding)) { signs |= byte == UInt8(ascii: "=") ? 1 : 0 }
    guard signs == 0 else { return nil }
    return Data(base64Encoded: Data(text)).map(Array.init)
  }

  /// The last digits that an encoder writes before no, one and two signs of padding: the bits behind the last octet are
  /// zero (RFC 4648, section 3.5).
  private static let canonicalEnds = [
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", "AEIMQUYcgkosw048", "AQgw",
  ].map { Set($0.utf8) }

  static func isBase64OfReceipt(_ text: ArraySlice<UInt8>) -> Bool {
    guard let (bytes, _) = try? base64(text.filter { !isLineBreak($0) }) else { return false }
    return isBinaryDER(bytes) || PropertyList.isLikely(bytes[...])
  }

  /// Whether the text is base64 parts with dots between them, the first of a JSON object (RFC 7515, section 3.1):
  /// signed data, or part of it. The signature may be empty.
  static func isJWS(_ text: [UInt8]) -> Bool {
    text.starts(with: "ey".utf8) && text.contains(dot)
      && text.allSatisfy {
        isBase64Digit($0) || $0 == dot || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "=")
      }
  }

  /// A missing value, as languages write it.
  private static let missingValues: Set = ["null", "(null)", "nil", "none", "undefined", "true", "false"]

  private static func isPath(_ text: ArraySlice<UInt8>) -> Bool {
    contains(text.prefix(12), "://") || starts(text, "file:")
      || text.first == UInt8(ascii: "/") && text.contains(dot) && isPlain(text)
  }

  private static func hasPercentEncoding(_ text: ArraySlice<UInt8>) -> Bool {
    guard let percent = text.firstIndex(of: UInt8(ascii: "%")) else { return false }
    let digits = text[percent...].dropFirst().prefix(2)
    return digits.count == 2 && digits.allSatisfy(\.isHexadecimalDigit)
  }

  /// Whether the bytes are text: UTF-8 without control characters.
  static func isPlain(_ text: ArraySlice<UInt8>) -> Bool {
    text.allSatisfy { $0 >= 0x20 && $0 != 0x7F || isLineBreak($0) } && String(validating: text, as: UTF8.self) != nil
  }

  /// Whether a byte may be part of base64 of either alphabet, with its padding.
  static func mayBeBase64(_ byte: UInt8) -> Bool {
    isBase64Digit(byte) || [UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "=")].contains(byte)
  }

  /// Whether the text is NSData's description: `<30820b13 06092a86 …>`.
  private static func isDescriptionOfData(_ text: ArraySlice<UInt8>) -> Bool {
    let digits = text.dropFirst().prefix { $0 != UInt8(ascii: ">") }
    return !digits.isEmpty && digits.allSatisfy { $0.isHexadecimalDigit || $0 == space }
  }

  private static func isBase64Digit(_ byte: UInt8) -> Bool {
    byte.isDigit || byte.isLetter || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
  }

  /// Whether a text begins with letters, in either case.
  private static func starts(_ text: ArraySlice<UInt8>, _ prefix: String) -> Bool {
    text.prefix(prefix.utf8.count).map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
      .elementsEqual(prefix.lowercased().utf8)
  }

  private static func contains(_ text: ArraySlice<UInt8>, _ words: String) -> Bool { text.contains(Array(words.utf8)) }
}

extension UndecodableReceipt {
  fileprivate static let unityEnvelope = UndecodableReceipt(
    .unityEnvelope, "This is Unity's envelope around a receipt; send the value of its Payload alone.")
  fileprivate static let unityOfAnotherStore = UndecodableReceipt(
    .unityEnvelope,
    "This is Unity's envelope around a purchase of another store (GooglePlay, fake), which Apple knows nothing of; send "
      + "only those of Apple's.")
  fileprivate static let scriptObject = UndecodableReceipt(
    .notBase64,
    "This is a JavaScript object that was turned into text, which loses its content; send the text in it that is the "
      + "receipt.")
  /// Since iOS 13. The former one, in angle brackets, has all bytes.
  fileprivate static let descriptionOfData = UndecodableReceipt(
    .hex,
    "This is the description of the data, which leaves out most of it; send the data as base64: "
      + "base64EncodedString() in Swift.")
  fileprivate static let json = UndecodableReceipt(
    .json, "This is JSON, such as an answer of verifyReceipt, not a receipt; send the receipt itself as base64.")
  /// StoreKit's `jsonRepresentation`, and `transactionReceipt` of older versions of expo-iap.
  fileprivate static let decodedTransaction = UndecodableReceipt(
    .json,
    "This is a decoded transaction, which proves nothing; send the signed one: its jwsRepresentation (expo-iap: "
      + "purchaseToken).")
  /// A purchase of react-native-iap or of older versions of expo-iap.
  fileprivate static let wholePurchase = UndecodableReceipt(
    .json, "This is a whole purchase as JSON; send the value of its transactionReceipt alone.")
  fileprivate static let bearer = UndecodableReceipt(
    .notBase64,
    "This is the value of an Authorization header; send the app receipt, or the jwsRepresentation of a verified "
      + "Transaction without a word before it.")
  fileprivate static let path = UndecodableReceipt(
    .notBase64,
    "This is a path or a URL, not what is there; send the content of the file at appStoreReceiptURL as base64.")
  fileprivate static let missing = UndecodableReceipt(
    .empty,
    "There was no receipt: this is the word for a missing value or for a truth value; refresh the receipt on the device "
      + "and send it.")
  fileprivate static let escaped = UndecodableReceipt(
    .notBase64,
    "There are backslashes in the receipt: it was escaped as a JSON string twice; send it as a JSON string once.")
  fileprivate static let markup = UndecodableReceipt(
    .markup, "This is XML or HTML, not a receipt; send the content of the file at appStoreReceiptURL as base64.")
  fileprivate static let quoted = UndecodableReceipt(
    .quoted, "The receipt is surrounded by quotes; send the text between them.")
  fileprivate static let pem = UndecodableReceipt(
    .pem,
    "This is PEM (a certificate, a key, or a receipt in PEM form); send plain base64 without the BEGIN and END lines.")
  fileprivate static let dataURL = UndecodableReceipt(.dataURL, "This is a data: URL; send what follows its comma.")
  fileprivate static let notification = UndecodableReceipt(
    .signedNotification,
    "This is a server notification of Apple's, not a receipt; send the jwsRepresentation of a verified Transaction, or "
      + "the app receipt as base64.")
  fileprivate static let transactionID = UndecodableReceipt(
    .transactionID, "This is a transaction ID, not a receipt; send it as original_transaction_id.")
  fileprivate static let hexadecimal = UndecodableReceipt(
    .hex, "The receipt is written in hexadecimal; send it as base64.")
  fileprivate static let percentEncoded = UndecodableReceipt(
    .percentEncoded,
    "The receipt is percent-encoded, as for a URL; send it without that (%2B is +, %2F is /, %3D is =).")
  static let notText = UndecodableReceipt(
    .notBase64,
    "These bytes are neither a receipt nor text; send the content of the file at appStoreReceiptURL as base64.")
  static let notBase64 = UndecodableReceipt(
    .notBase64, "This is not base64; send the content of the file at appStoreReceiptURL as base64.")
  fileprivate static let cutBase64 = UndecodableReceipt(
    .truncated, "The base64 ends in the middle of a group: part of it was lost on the way; send the whole text.")
}

/// Damage of the transport that was undone. The raw values are part of the output of `inspect --json`.
package enum ReceiptRepair: String, Hashable, Sendable, CaseIterable {
  /// Line breaks or blanks within the text.
  case whitespace = "whitespace_removed"
  /// Form decoding had turned every `+` into a space.
  case plus = "plus_restored"
  case base64URL = "base64url_alphabet"
  case padding = "padding_corrected"
}
