package enum EvidenceSource: String, Hashable, Codable, Sendable, CaseIterable {
  case verifyReceipt = "verify_receipt"
  case serverAPI = "server_api"
  case signature, notification
  /// An event of RevenueCat's: see `StoreEvent`.
  case revenuecat
  /// A period that was given: see `GivenPeriod`.
  case grant
  /// A trial of the app's own.
  case trial
}
