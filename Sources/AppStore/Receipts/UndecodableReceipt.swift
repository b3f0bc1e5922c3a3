package struct UndecodableReceipt: Error, Hashable, Sendable {
  /// The kind of the submission. The raw values are part of the output of `countersign inspect --json`.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    case empty
    case tooLarge = "too_large"
    /// A StoreKit 2 signed transaction, where another kind was wanted.
    case signedTransaction = "signed_transaction"
    case signedRenewalInfo = "signed_renewal_info"
    case signedNotification = "signed_notification"
    /// StoreKit's AppTransaction: the download of the app.
    case signedAppTransaction = "signed_app_transaction"
    /// A JWS that is damaged or of an unknown kind.
    case signedData = "signed_data"
    case transactionID = "transaction_id"
    case unityEnvelope = "unity_envelope"
    case json, markup, pem
    case dataURL = "data_url"
    case quoted
    case percentEncoded = "percent_encoded"
    /// Spaces in base64 that are no damaged `+`.
    case spaces
    case hex
    case notBase64 = "not_base64"
    case doubleBase64 = "double_base64"
    /// Valid base64 of something else.
    case notReceipt = "not_a_receipt"
    case truncated
    case trailingBytes = "trailing_bytes"
    case malformed
  }

  package let kind: Kind
  /// One sentence that names the mistake and the remedy. It quotes nothing of the input.
  package let detail: String

  init(_ kind: Kind, _ detail: String) {
    self.kind = kind
    self.detail = detail
  }
}

extension UndecodableReceipt: CustomStringConvertible {
  package var description: String { "\(kind.rawValue): \(detail)" }
}
