import Entitlements
import JSON

/// A JSON Web Signature in its compact form (RFC 7515, section 3.1), taken apart. Nothing is checked but its form.
///
///     base64url(header) . base64url(payload) . base64url(signature)
package struct CompactJWS: Hashable, Sendable {
  /// 256 KiB. A notification with a transaction and a renewal info inside has about 20 KiB.
  static let limit = 256 * 1_024

  let header: JWSHeader
  let payload: [UInt8]
  let signature: [UInt8]
  /// The signed octets: the first two parts as they were sent, and the dot between them.
  let signed: [UInt8]

  init(_ text: [UInt8]) throws(UndecodableReceipt) {
    guard text.count <= Self.limit else {
      throw UndecodableReceipt(.tooLarge, "The signed data is longer than 256 KiB, which nothing is that Apple signs.")
    }
    let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3 else {
      throw parts.count < 3
        ? UndecodableReceipt(
          .truncated, "Signed data (JWS) has three parts with a dot between them: part of it was lost on the way.")
        : .damagedJWS("it has more than three parts")
    }
    guard let header = Base64URL.decode(parts[0]) else { throw .damagedJWS("its header is not base64url") }
    guard let payload = Base64URL.decode(parts[1]) else { throw .damagedJWS("its payload is not base64url") }
    guard let signature = Base64URL.decode(parts[2]) else {
      throw Self.isCut(parts[2])
        ? UndecodableReceipt(.truncated, "The end of the signed data (JWS) was lost on the way; send it anew, whole.")
        : .damagedJWS("its signature is not base64url")
    }
    self.header = try JWSHeader(header)
    self.payload = payload
    self.signature = signature
    signed = Array(text.prefix(parts[0].count + 1 + parts[1].count))
  }

  /// Whether a signature that is not base64url is the beginning of one. One of ES256 has 64 octets: 86 digits.
  private static func isCut(_ signature: ArraySlice<UInt8>) -> Bool {
    signature.count < 86
      && signature.allSatisfy { $0.isDigit || $0.isLetter || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
  }

  /// The octets of the header, with its certificates (RFC 7515, section 4.1.6): the same in every transaction of one signer.
  ///
  /// - Parameter text: a JWS with a verified signature, or a receipt in base64. It is not read beyond the first dot.
  /// - Returns: `nil` for a receipt in base64, which has no dot.
  package static func rangeOfHeader(in text: String) -> Range<Int>? {
    let octets = text.utf8
    return octets.firstIndex(of: UInt8(ascii: ".")).map { 0..<octets.distance(from: octets.startIndex, to: $0) }
  }
}

/// The header of a JWS: its claims about the signature.
///
/// Only `alg`, `x5c` and `crit` count. Keys and addresses that a header offers (`jwk`, `jku`, `x5u`) are never looked at.
struct JWSHeader: Hashable, Sendable {
  /// `alg`, cut to the characters of an algorithm's name, so that it can be shown.
  let algorithm: String
  /// `x5c` as sent: standard base64, the signer first.
  let certificates: [String]
  let keyID: String?
  /// Extensions that a reader has to understand (RFC 7515, section 4.1.11). Apple uses none.
  let hasCriticalExtensions: Bool

  init(_ bytes: [UInt8]) throws(UndecodableReceipt) {
    do throws(JSONError) {
      self = try JSONReader.readAtOnce(bytes) { JWSHeader($0) }
    } catch {
      throw .damagedJWS("its header is not a JSON object")
    }
  }

  private init(_ header: JSONValue) {
    algorithm = header["alg"]?.string.map(Self.name) ?? "missing"
    certificates = (header["x5c"]?.elements ?? []).map { $0.string ?? "" }
    keyID = header["kid"]?.string
    hasCriticalExtensions = header.has("crit")
  }

  private static func name(_ text: String) -> String {
    let isName =
      (1...16).contains(text.utf8.count)
      && text.utf8.allSatisfy { $0.isDigit || $0.isLetter || "+-/".utf8.contains($0) }
    return isName ? text : "unknown"
  }
}

extension UndecodableReceipt {
  static func damagedJWS(_ what: String, _ kind: SignedPayload.Kind = .unknown) -> UndecodableReceipt {
    let kind: Kind =
      switch kind {
      case .renewalInfo: .signedRenewalInfo
      case .notification: .signedNotification
      case .transaction, .appTransaction, .unknown: .signedData
      }
    return UndecodableReceipt(
      kind, "The signed data (JWS) is damaged: \(what); send it as StoreKit gives it (jwsRepresentation).")
  }
}
