import Ledger

/// Names what the service can do without, and would do better with.
extension Checkup {
  func missingFindings() async -> [Finding] {
    var findings: [Finding] = []
    if configuration.appStore.serverAPI == nil {
      findings.append(
        Finding(
          "app_store.server_api", .ok,
          "is not set: transactions of StoreKit 2 count by their signature, and Apple is not asked about them. The key is in "
            + "App Store Connect: \(AppStoreConnect.serverAPIKey)"))
    }
    let path = "/v1/notifications/app-store"
    let hasNotifications = await LedgerInspection.hasNotifications(at: configuration.ledger.place) == true
    findings.append(
      hasNotifications
        ? Finding("notifications", .ok, "Apple's arrive at \(path)")
        : Finding(
          "notifications", .warning,
          "none of Apple's has arrived yet: set https://HOST\(path) as both URLs, version 2, in App Store Connect: "
            + AppStoreConnect.notifications))
    return findings
  }
}
