import Access
import Entitlements
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
    } else if configuration.appStore.refundSweep == .zero,
      configuration.catalog.products.values.contains(where: { $0.kind == .lifetime || $0.kind == .nonRenewing })
    {
      findings.append(
        Finding(
          "app_store.refund_sweep", .warning,
          "is 0: a refund of a purchase for life that no notification has told is found only when support asks for it"))
    }
    findings.append(offerFinding)
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

  /// Whether offers can be signed, and by which key. One that cannot be read has stopped the start.
  private var offerFinding: Finding {
    let subject = "app_store.offers"
    let appStore = configuration.appStore
    let isOffering = configuration.plans.terms.values.contains(where: \.hasOffers)
    guard let key = appStore.offers else {
      return Finding(
        subject, .ok,
        appStore.serverAPI == nil
          ? "is not set, nor is app_store.server_api: no key signs offers. The key is in App Store Connect: "
            + AppStoreConnect.serverAPIKey
          : "is not set: the key of app_store.server_api signs offers")
    }
    guard isOffering else {
      return Finding(
        subject, .warning,
        "the key \(key.keyID) can be read, and no product of the catalog has an offer: add offers, or leave the key out"
      )
    }
    return Finding(
      subject, .ok,
      "the key \(key.keyID) can be read; StoreKit shows at a purchase with an offer whether Apple takes it")
  }
}
