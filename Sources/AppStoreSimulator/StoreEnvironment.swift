/// Which of Apple's two stores a receipt comes from.
enum StoreEnvironment: String, CaseIterable, Codable, Sendable {
  case production
  case sandbox

  /// As answers write it.
  var appleName: String {
    switch self {
    case .production: "Production"
    case .sandbox: "Sandbox"
    }
  }

  /// As a receipt's attribute 0 writes it.
  var receiptType: String {
    switch self {
    case .production: "Production"
    case .sandbox: "ProductionSandbox"
    }
  }
}

/// How a receipt is written.
enum ReceiptFormat: String, CaseIterable, Codable, Sendable {
  /// PKCS#7 in definite-length DER, as the App Store writes it.
  case der
  /// The same with indefinite lengths and the payload in pieces, as local testing in Xcode writes it.
  case ber
  /// A transaction receipt of the iOS 6 kind: a property list in quotes.
  case ios6
  /// Signed by a lone self-signed certificate, as local testing in Xcode does; the store knows nothing of it.
  case xcode
  /// As `der`, signed by a lone certificate that may sign no receipts: neither the store nor anybody else can
  /// authenticate it.
  case forged
  /// As `der`, with one more certificate in its bag, which the signature does not cover: the store does not authenticate
  /// it, though the signature holds.
  case padded
}
