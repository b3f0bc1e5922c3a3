/// Apple's two stores, as the origin of a receipt.
enum StoreEnvironment: String, CaseIterable, Codable, Sendable {
  case production, sandbox

  /// The name in responses.
  var appleName: String { self == .production ? "Production" : "Sandbox" }

  /// The name in a receipt's attribute 0.
  var receiptType: String { self == .production ? "Production" : "ProductionSandbox" }

  /// The app's ID; zero in the sandbox.
  var appItemID: Int64 { self == .production ? 1_234_567_890 : 0 }

  /// The members that name an app in the Server API and in notifications. The sandbox gives no ID.
  func app(_ bundleID: String) -> [(String, JSON)] {
    [("environment", .string(appleName)), ("bundleId", .string(bundleID))]
      + (self == .production ? [("appAppleId", .integer(appItemID))] : [])
  }
}

enum ReceiptFormat: String, CaseIterable, Codable, Sendable {
  /// PKCS#7 in definite-length DER, as the App Store writes it.
  case der
  /// The same with indefinite lengths and the payload in pieces, as local testing in Xcode writes it.
  case ber
  /// A transaction receipt of the iOS 6 kind: a property list in quotes.
  case ios6
  /// Signed by a single self-signed certificate, as local testing in Xcode does; unknown to the store.
  case xcode
  /// As `der`, signed by a single certificate without the right to sign receipts: nobody can authenticate it, the store
  /// included.
  case forged
  /// As `der`, with an additional certificate that the signature does not cover: the store does not authenticate it,
  /// though the signature is valid.
  case padded
}
