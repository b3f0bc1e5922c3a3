import FoundationEssentials

/// A receipt from a client, recognised and normalised to the form that Apple takes.
package struct SubmittedReceipt: Hashable, Sendable {
  /// The decoded contents. Indirect, as they are large, and requests that wait for Apple hold them several times.
  package indirect enum Content: Hashable, Sendable {
    /// PKCS#7, iOS 7 and later.
    case app(AppReceipt)
    /// A single transaction, iOS 6 style.
    case transaction(TransactionReceipt)
    /// A single transaction, signed by StoreKit 2 (JWS).
    case signedTransaction(SignedTransaction)
    /// The download of the app, signed by StoreKit 2 (JWS).
    case appTransaction(SignedAppTransaction)
  }

  /// The longest text or file: 8 MiB.
  package static let limit = 8 * 1_024 * 1_024

  /// The normalised text, from which the receipt can be decoded again: standard base64 with padding and without
  /// whitespace, as Apple takes it in `receipt-data`, or the JWS of a signed transaction.
  package let base64: String
  package let content: Content
  let repairs: [ReceiptRepair]
  /// The fingerprint of the receipt's bytes, however they were written as text, or of the JWS of a signed transaction.
  package let fingerprint: ReceiptFingerprint

  private init(bytes: [UInt8], base64: String? = nil, content: Content, repairs: [ReceiptRepair]) {
    self.base64 = base64 ?? Data(bytes).base64EncodedString()
    self.content = content
    self.repairs = repairs
    fingerprint = ReceiptFingerprint(of: bytes)
  }

  /// Recognises a receipt in the text of a request.
  ///
  /// - Throws: `UndecodableReceipt`, which names the kind of text.
  package static func decode(_ text: String) throws(UndecodableReceipt) -> SubmittedReceipt {
    guard text.utf8.count <= limit else { throw .tooLarge }
    if let bytes = text.utf8.withContiguousStorageIfAvailable(ReceiptText.plainReceipt) ?? nil {
      return SubmittedReceipt(bytes: bytes, base64: text, content: .app(try AppReceipt.decode(bytes)), repairs: [])
    }
    return try decode(contents: Array(text.utf8))
  }

  /// Recognises a receipt in the contents of a file: the receipt itself, or base64 of it.
  package static func decode(contents: [UInt8]) throws(UndecodableReceipt) -> SubmittedReceipt {
    guard contents.count <= limit else { throw .tooLarge }
    if let bytes = contents.withUnsafeBufferPointer(ReceiptText.plainReceipt) {
      return SubmittedReceipt(
        bytes: bytes, base64: String(decoding: contents, as: UTF8.self), content: .app(try AppReceipt.decode(bytes)),
        repairs: [])
    }
    if ReceiptText.isBinaryDER(contents) { return try receipt(contents, repairs: []) }

    let text = ReceiptText.trimmed(contents)
    guard !text.isEmpty else {
      throw UndecodableReceipt(.empty, "The receipt is empty; refresh it on the device and send it again.")
    }
    if PropertyList.isLikely(text) { return try receipt(Array(text), repairs: []) }
    let bare = ReceiptText.withoutWhitespace(text)
    if ReceiptText.isJWS(bare) {
      return try signedTransaction(bare, repairs: bare.count < text.count ? [.whitespace] : [])
    }
    guard ReceiptText.isPlain(text) else { throw .notText }
    if let mistake = ReceiptText.mistake(text) { throw mistake }

    let joined = text.filter { !ReceiptText.isLineBreak($0) }
    guard joined.contains(ReceiptText.space) else {
      let (bytes, repairs) = try ReceiptText.base64(joined)
      return try receipt(bytes, repairs: (joined.count < text.count ? [.whitespace] : []) + repairs)
    }
    return try repaired(joined)
  }

  /// Repairs a text with spaces, which were `+` or wrap lines. Only a reading that gives a whole receipt is accepted.
  private static func repaired(_ text: [UInt8]) throws(UndecodableReceipt) -> SubmittedReceipt {
    let plus = text.map { $0 == ReceiptText.space ? UInt8(ascii: "+") : $0 }
    if let (bytes, repairs) = try? ReceiptText.base64(plus),
      let receipt = try? receipt(bytes, repairs: [.plus] + repairs)
    {
      return receipt
    }
    let joined = text.filter { $0 != ReceiptText.space }
    if let (bytes, repairs) = try? ReceiptText.base64(joined),
      let receipt = try? receipt(bytes, repairs: [.whitespace] + repairs)
    {
      return receipt
    }
    // Plus signs are missing in nothing else than base64.
    guard joined.allSatisfy(ReceiptText.mayBeBase64) else { throw .notBase64 }
    throw UndecodableReceipt(
      .spaces,
      "The text contains spaces, most likely plus signs that form decoding turned into spaces, and putting them back does "
        + "not give a receipt; encode the value (+ as %2B) or send JSON.")
  }

  private static func signedTransaction(
    _ jws: [UInt8], repairs: [ReceiptRepair]
  ) throws(UndecodableReceipt) -> SubmittedReceipt {
    let payload = try SignedPayload(CompactJWS(jws))
    let content: Content
    switch payload {
    case .transaction(let transaction): content = .signedTransaction(transaction)
    case .appTransaction(let transaction): content = .appTransaction(transaction)
    case .renewalInfo, .notification, .other: throw payload.mistake(wanted: .transaction)
    }
    return SubmittedReceipt(
      bytes: jws, base64: String(decoding: jws, as: UTF8.self), content: content, repairs: repairs)
  }

  /// The error for an AppTransaction where nothing is to be had for it.
  package func refusedAppTransaction() -> UndecodableReceipt? {
    guard case .appTransaction(let transaction) = content else { return nil }
    return SignedPayload.appTransaction(transaction).mistake(wanted: .transaction)
  }

  private static func receipt(_ bytes: [UInt8], repairs: [ReceiptRepair]) throws(UndecodableReceipt) -> SubmittedReceipt
  {
    if PropertyList.isLikely(bytes[...]) {
      let receipt = try TransactionReceipt.decode(bytes)
      return SubmittedReceipt(bytes: bytes, content: .transaction(receipt), repairs: repairs)
    }
    if !ReceiptText.isBinaryDER(bytes) {
      let text = ReceiptText.trimmed(bytes)
      if let mistake = ReceiptText.mistake(text) { throw mistake }
      if ReceiptText.isJWS(Array(text)) {
        throw UndecodableReceipt(
          .doubleBase64, "This is base64 of a signed transaction (JWS); send the JWS itself, which is text already.")
      }
      if ReceiptText.isBase64OfReceipt(text) {
        throw UndecodableReceipt(.doubleBase64, "The receipt was encoded as base64 twice; send it encoded once.")
      }
    }
    return SubmittedReceipt(bytes: bytes, content: .app(try AppReceipt.decode(bytes)), repairs: repairs)
  }
}

extension UndecodableReceipt {
  fileprivate static let tooLarge = UndecodableReceipt(
    .tooLarge, "The text is longer than 8 MiB, which no receipt is; send the receipt alone.")
}
