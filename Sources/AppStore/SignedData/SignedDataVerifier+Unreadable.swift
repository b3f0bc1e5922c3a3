package import Entitlements
import JSON

package import struct FoundationEssentials.Date

extension SignedDataVerifier {
  /// Whether Apple signed data that cannot be read here: then the fault is not its sender's.
  package func hasSigned(unreadable text: String, now: Date) -> Bool {
    guard let jws = try? CompactJWS(ReceiptText.withoutWhitespace(ReceiptText.trimmed(Array(text.utf8)))) else {
      return false
    }
    let signedDate = try? JSONReader.readAtOnce(jws.payload, largeIntegers: .text) { payload throws(JSONError) in
      try payload.moment("signedDate")
    }
    // Without the name of a store: data of Xcode's has no chain to a root.
    return (try? checkSignature(jws, nil, signedDate: (signedDate ?? nil) ?? now)) != nil
  }

  /// The purchases in a notification that Apple signed and of which a part cannot be read.
  ///
  /// The signature of the notification covers its parts, so theirs are not checked.
  package func purchases(named text: String, now: Date) -> [OriginalTransactionID] {
    guard let jws = try? CompactJWS(Array(ReceiptText.trimmed(Array(text.utf8)))),
      case .notification(let notification)? = try? SignedPayload(jws), let signedDate = notification.signedDate
    else { return [] }
    let environment = notification.environmentName.map { SignedEnvironment(name: $0) }
    guard (try? check(jws, environment, signedDate: signedDate, now: now)) != nil else { return [] }
    return [notification.signedTransactionInfo, notification.signedRenewalInfo].compactMap { part in
      guard let part, let jws = try? CompactJWS(Array(part.utf8)) else { return nil }
      let id = try? JSONReader.readAtOnce(jws.payload, largeIntegers: .text) { payload throws(JSONError) in
        try payload.text("originalTransactionId")
      }
      return id.flatMap { $0 }.map { OriginalTransactionID($0) }
    }
  }
}
