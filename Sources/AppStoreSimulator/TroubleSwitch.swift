import Synchronization

/// A trouble that affects every call of its services, with any content, until it is used up or switched off.
final class TroubleSwitch: Sendable {
  private struct Setting {
    var trouble: Trouble
    /// How many more calls it affects; nil for all.
    var remaining: Int?
    /// The only service it affects; nil for all that it can affect.
    var service: Trouble.Service?
    /// The only environment it affects; nil for both.
    var environment: StoreEnvironment?
    /// The only subscriber that it affects; nil for all, and for calls without a subscriber.
    var subscriber: Int64?
  }

  private let setting = Mutex<Setting?>(nil)

  func set(
    _ trouble: Trouble?, count: Int?, service: Trouble.Service? = nil, environment: StoreEnvironment?,
    subscriber: Int64? = nil
  ) {
    setting.withLock { setting in
      setting = trouble.map {
        Setting(trouble: $0, remaining: count, service: service, environment: environment, subscriber: subscriber)
      }
    }
  }

  /// The trouble for one call, which counts against its number.
  ///
  /// - Parameter subscriber: the owner of the requested receipt, if known.
  func next(in environment: StoreEnvironment, for service: Trouble.Service, of subscriber: Int64? = nil) -> Trouble? {
    setting.withLock { setting in
      guard var current = setting, current.service == nil || current.service == service,
        current.environment == nil || current.environment == environment,
        current.subscriber == nil || current.subscriber == subscriber, current.trouble.befalls(service)
      else { return nil }
      guard let remaining = current.remaining else { return current.trouble }
      guard remaining > 0 else {
        setting = nil
        return nil
      }
      current.remaining = remaining - 1
      setting = current
      return current.trouble
    }
  }
}
