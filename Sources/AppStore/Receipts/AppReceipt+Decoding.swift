import Entitlements
import Resilience

import struct FoundationEssentials.Date

/// The signers of the frames that have verified. They are facts about octets, the same for every verifier.
typealias KnownSigners = LRUCache<ReceiptFrame, ReceiptSigner>

extension AppReceipt {
  /// Signers of receipts that verified; others do not enter, so nobody can fill the cache with made-up certificates.
  static let knownSigners = KnownSigners(limit: 64)

  /// Reads a receipt's container and payload; it proves nothing about who made them.
  ///
  /// - Throws: `UndecodableReceipt` when the bytes are no receipt, end early or late, or a field that is there cannot be
  ///   read. A date that cannot be read is never taken for one that is absent.
  package static func decode(_ bytes: [UInt8]) throws(UndecodableReceipt) -> AppReceipt {
    try decode(bytes, knowing: knownSigners)
  }

  /// - Parameter signers: frames that OpenSSL read before, as those of receipts that verified. A receipt of such a frame
  ///   has nothing left to be read but its payload.
  static func decode(_ bytes: [UInt8], knowing signers: KnownSigners) throws(UndecodableReceipt) -> AppReceipt {
    if let framed = FramedReceipt(bytes), let signer = signers.value(for: framed.frame) {
      return try AppReceipt(encoded: bytes, attributes: ReceiptAttributes(payload: framed.content), signer: signer)
    }
    try checkFrame(bytes)
    let message: SignedMessage
    do {
      message = try SignedMessage(bytes)
    } catch {
      throw undecodable(error)
    }
    let attributes = try ReceiptAttributes(payload: message.content[...])
    let signature = message.firstSignature
    let signer = signature.flatMap { signature in
      signature.certificate.map { ReceiptSigner($0, digest: signature.digest) }
    }
    return try AppReceipt(encoded: bytes, attributes: attributes, signer: signer)
  }

  /// The octets that every receipt of its frame has, above all the certificates; `nil` until a receipt of the frame has
  /// verified, so that a forged one shares nothing.
  package var sharedOctets: Range<Int>? { sharedOctets(knowing: Self.knownSigners) }

  func sharedOctets(knowing signers: KnownSigners) -> Range<Int>? {
    guard let frame = FramedReceipt(encoded)?.frame, signers.value(for: frame) != nil else { return nil }
    return frame.tailRange
  }

  private init(encoded: [UInt8], attributes: ReceiptAttributes, signer: ReceiptSigner?) throws(UndecodableReceipt) {
    guard let bundleID = try attributes.text(2) else { throw .incomplete("a bundle ID (attribute 2)") }
    guard let createdAt = try attributes.date(12) else { throw .incomplete("a creation date (attribute 12)") }
    var transactions: [InAppTransaction] = []
    for record in attributes.inAppRecords {
      transactions.append(try InAppTransaction(ReceiptAttributes(inAppRecord: record)))
    }
    self.init(
      encoded: encoded,
      receiptType: try attributes.text(0),
      bundleID: BundleID(bundleID),
      applicationVersion: try attributes.text(3),
      originalApplicationVersion: try attributes.text(19),
      originalPurchaseDate: (try? attributes.date(18)) ?? nil,
      createdAt: createdAt,
      expiresAt: try attributes.date(21),
      transactions: transactions,
      claimedSigner: signer)
  }

  /// Reads only the outermost header, to tell a truncated receipt from a malformed one.
  private static func checkFrame(_ bytes: [UInt8]) throws(UndecodableReceipt) {
    guard bytes.first == 0x30, bytes.count > 2 else { throw .notReceipt }
    if bytes[1] == 0x80 {
      // Indefinite length: it ends with end-of-contents octets.
      if !bytes.suffix(2).elementsEqual([0, 0]) { throw .truncated }
      return
    }
    var reader = DERReader(bytes[...])
    let outer: DERReader.Element?
    do {
      outer = try reader.next()
    } catch .truncated {
      throw .truncated
    } catch {
      throw .malformed("its outermost length is not readable")
    }
    guard reader.isAtEnd else { throw .trailing }
    // contentType signedData, 1.2.840.113549.1.7.2 (RFC 5652, section 5.1).
    let signedData: [UInt8] = [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x02]
    guard let outer, outer.content.starts(with: signedData) else { throw .notReceipt }
  }

  private static func undecodable(_ reason: SignedMessage.Malformed) -> UndecodableReceipt {
    switch reason {
    case .unreadable: .malformed("its PKCS#7 structure is broken")
    case .trailingBytes: .trailing
    case .notSignedData: .notReceipt
    case .noContent: .malformed("its PKCS#7 container holds no payload")
    case .tooManyCertificates: .malformed("it carries more certificates than any receipt of Apple's")
    }
  }
}

extension InAppTransaction {
  fileprivate init(_ attributes: ReceiptAttributes) throws(UndecodableReceipt) {
    guard let productID = try attributes.text(1702) else { throw .incomplete("a product ID in a row (attribute 1702)") }
    guard let transactionID = try attributes.text(1703) else {
      throw .incomplete("a transaction ID in a row (attribute 1703)")
    }
    self.init(
      quantity: try attributes.integer(1701),
      productID: ProductID(productID),
      transactionID: TransactionID(transactionID),
      originalTransactionID: try attributes.text(1705).map { OriginalTransactionID($0) },
      purchaseDate: try attributes.date(1704),
      originalPurchaseDate: try attributes.date(1706),
      expiresDate: try attributes.date(1708),
      cancellationDate: try attributes.date(1712),
      webOrderLineItemID: try attributes.integer(1711),
      productType: attributes.undocumentedInteger(1707),
      isTrial: try attributes.flag(1713),
      isIntroductoryOffer: try attributes.flag(1719),
      promotionalOfferID: try attributes.text(1721))
  }
}

extension UndecodableReceipt {
  static let notReceipt = UndecodableReceipt(
    .notReceipt,
    "This is not an app receipt (no PKCS#7 signed data); send the content of the file at appStoreReceiptURL as base64.")
  static let truncated = UndecodableReceipt(
    .truncated, "The receipt ends early: part of it was lost on the way; send the whole file as base64.")
  static let trailing = UndecodableReceipt(
    .trailingBytes, "There are more bytes after the end of the receipt; send one receipt and nothing else.")

  static func malformed(_ what: String) -> UndecodableReceipt {
    UndecodableReceipt(.malformed, "The receipt is damaged: \(what); refresh it on the device and send it again.")
  }

  static func incomplete(_ what: String) -> UndecodableReceipt { malformed("it lacks \(what)") }
}
