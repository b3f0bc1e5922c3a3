import Synchronization

/// A receiver of events, as the operator configures it.
package struct WebhookEndpoint: Hashable, Sendable {
  /// The shape of a body.
  package enum Format: String, Hashable, Sendable, CaseIterable {
    /// The bodies of `GET /v1/events`.
    case countersign
    /// The bodies of RevenueCat's webhooks, for receivers that are written for those.
    case revenuecat
    /// Apple's notifications as they came, for receivers that are written for Apple's.
    case appStore = "app_store"
  }

  /// Its name, by which it is known in the ledger, in logs and in metrics.
  package var name: String
  package var url: String
  package var secrets: [WebhookSecret]
  /// Types of event: `subscription.*` for all of a kind, `*` for every one; empty for all of the service's own.
  package var events: [String]
  package var format: Format
  /// Whether it may be at a private address, and speak http.
  package var isPrivate: Bool
  /// The name of the app in RevenueCat's format.
  package var appID: String?

  package init(
    name: String, url: String, secrets: [WebhookSecret], events: [String] = [], format: Format = .countersign,
    isPrivate: Bool = false, appID: String? = nil
  ) {
    self.name = name
    self.url = url
    self.secrets = secrets
    self.events = events
    self.format = format
    self.isPrivate = isPrivate
    self.appID = appID
  }

  /// Whether the receiver subscribed to events with this name.
  package func wants(_ type: String) -> Bool {
    // The app's own have no dot.
    guard !events.isEmpty else { return type.utf8.contains(UInt8(ascii: ".")) }
    return events.contains { pattern in
      pattern == "*" || pattern == type || pattern.hasSuffix(".*") && type.hasPrefix(pattern.dropLast())
    }
  }

  /// The URL without its path and query, which may be secret.
  package var origin: String {
    let end = url.firstRange(of: "://")?.upperBound ?? url.startIndex
    return String(url[..<end] + url[end...].prefix { $0 != "/" && $0 != "?" })
  }
}

/// The current secrets of each receiver, which may be replaced while the service runs.
package final class WebhookKeyring: Sendable {
  /// Guards the secrets.
  private let secrets: Mutex<[String: [WebhookSecret]]>

  package init(_ endpoints: [WebhookEndpoint]) { secrets = Mutex(Self.secrets(of: endpoints)) }

  package func secrets(of endpoint: WebhookEndpoint) -> [WebhookSecret] {
    secrets.withLock { $0[endpoint.name] } ?? endpoint.secrets
  }

  package func replace(by endpoints: [WebhookEndpoint]) {
    let new = Self.secrets(of: endpoints)
    secrets.withLock { $0.merge(new) { $1 } }
  }

  private static func secrets(of endpoints: [WebhookEndpoint]) -> [String: [WebhookSecret]] {
    Dictionary(endpoints.map { ($0.name, $0.secrets) }, uniquingKeysWith: { $1 })
  }
}
