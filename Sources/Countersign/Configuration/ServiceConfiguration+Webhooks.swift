import CountersignServer
import Entitlements
import HTTPTransport
import Validation
import Webhooks
import YAML

extension ServiceConfiguration {
  /// The receivers of events, and those of Apple's notifications.
  ///
  /// - Parameters:
  ///   - events: what is delivered is kept there.
  ///   - app: the one app of the service.
  static func webhooks(_ reader: inout ConfigurationReader, events: Events, app: BundleID?) -> [WebhookEndpoint] {
    let key = "webhooks"
    let rows = reader.mappings(
      key, "of {url, secret_file, …}",
      "Receivers of events: `{name, url, secret_file, events, format: countersign or revenuecat, app_id, private: true or "
        + "false}`; name is host[:port], if left out, and another one is a new receiver; app_id is a member of "
        + "RevenueCat's format, by default the bundle ID where there is one"
    )
    let forwarding = "notifications.forward"
    let forwards = reader.mappings(
      forwarding, "of {url, …}",
      "Receivers of Apple's notifications, which get each as Apple signed it: `{name, url, private: true or false}`; name "
        + "is host[:port], if left out, and another one is a new receiver")
    if !forwards.isEmpty, events.age < WebhookSchedule.longestForwarding {
      reader.problem(
        "events.keep", "must be at least 8d with notifications.forward: the last attempt is a week after the first")
    }
    var endpoints: [WebhookEndpoint] = []
    for (key, node) in rows.map({ (key, $0) }) + forwards.map({ (forwarding, $0) }) {
      let origin = reader.file.origin(of: key, line: node.line)
      let made = WebhookEndpoint(node, &reader, origin: origin, isForward: key == forwarding)
      guard var endpoint = made else { continue }
      if endpoint.format == .revenuecat, endpoint.appID == nil { endpoint.appID = app?.rawValue }
      if endpoints.contains(where: { $0.name == endpoint.name }) {
        reader.findings.problem(
          origin, "the name \(Quotation.of(endpoint.name)) is given twice; give each receiver its own")
      } else {
        endpoints.append(endpoint)
      }
    }
    return endpoints
  }
}

extension WebhookEndpoint {
  /// One item of `webhooks` or of `notifications.forward`. Its URL is never quoted in a message: its path may be a secret.
  fileprivate init?(_ node: Node, _ reader: inout ConfigurationReader, origin: String, isForward: Bool) {
    let names = ["name", "url", "private"] + (isForward ? [] : ["secret_file", "events", "format", "app_id"])
    guard
      let members = reader.members(
        of: node, known: names, required: isForward ? ["url"] : ["url", "secret_file"], what: "a receiver",
        origin: origin)
    else { return nil }
    let problemsBefore = reader.findings.problems.count
    func text(_ name: String) -> String? { members[name]?.scalar?.string }
    for name in ["name", "url", "format", "private", "app_id"] where members[name] != nil && text(name) == nil {
      reader.findings.problem(origin, "a receiver: \(name) must be a single value")
    }
    let isPrivate = text("private").flatMap { reader.field($0, .flag, "private", origin: origin) } ?? false
    let url = text("url").flatMap { reader.field($0, .webhookURL(isPrivate: isPrivate), "url", origin: origin) }
    let given =
      text("format").map { reader.field($0, ValueForm<Format>.choice, "format", origin: origin) } ?? .countersign
    let secrets = members["secret_file"].map { reader.secretFiles($0, .webhookSecret, origin: origin) } ?? []
    let events = members["events"].map { Self.events($0, &reader, origin: origin) } ?? []
    if given == .appStore {
      reader.findings.problem(origin, "format app_store is for notifications.forward, and not to be given")
    }
    guard reader.findings.problems.count == problemsBefore, let url, let given, isForward || !secrets.isEmpty else {
      return nil
    }
    if let appID = text("app_id"), given != .revenuecat || appID.wholeMatch(of: /[!-~]{1,128}/) == nil {
      reader.findings.problem(origin, "app_id is for format revenuecat, and up to 128 visible ASCII characters")
      return nil
    }
    let format = isForward ? .appStore : given
    let name = text("name") ?? Self.host(of: url)
    guard name.wholeMatch(of: /[A-Za-z0-9._:\-\[\]]{1,64}/) != nil else {
      reader.findings.problem(origin, "name must be up to 64 letters, digits and . _ - :")
      return nil
    }
    self.init(
      name: name, url: url, secrets: secrets.compactMap { WebhookSecret($0.exposed) }, events: events, format: format,
      isPrivate: isPrivate, appID: text("app_id"))
  }

  private static func host(of url: String) -> String {
    String(url.drop { $0 != "/" }.drop { $0 == "/" }.prefix { $0 != "/" && $0 != "?" })
  }

  private static func events(_ node: Node, _ reader: inout ConfigurationReader, origin: String) -> [String] {
    guard let items = node.sequence?.map({ $0.scalar?.string }), !items.contains(nil) else {
      reader.findings.problem(origin, "events must be a list of names")
      return []
    }
    let names = items.compactMap(\.self)
    let own = EventType.allCases.map(\.rawValue)
    for name in names {
      let isOwn = own.contains(name) || name.hasSuffix(".*") && own.contains { $0.hasPrefix(name.dropLast()) }
      // The app's own have no dot.
      let isOfApp = name == "*" || name.wholeMatch(of: /[A-Za-z][A-Za-z0-9_]{0,63}/) != nil
      guard !isOwn, !isOfApp else { continue }
      reader.findings.problem(
        origin, "events: there is no \(Quotation.of(name))" + Suggestion.clause(for: name, among: own))
    }
    return names
  }
}
