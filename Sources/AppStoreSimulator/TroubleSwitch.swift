import Synchronization

/// A trouble that befalls every call of its services, whatever it carries, until it is spent or switched off.
final class TroubleSwitch: Sendable {
  private struct Setting {
    var trouble: Trouble
    /// How many calls it still befalls; nil for all.
    var remaining: Int?
    /// The only environment it befalls; nil for both.
    var environment: StoreEnvironment?
    /// The only subscriber whose receipts it befalls; nil for all, and for what is nobody's receipt.
    var subscriber: Int64?
  }

  private let setting = Mutex<Setting?>(nil)

  func set(_ trouble: Trouble?, count: Int?, environment: StoreEnvironment?, subscriber: Int64? = nil) {
    setting.withLock { setting in
      setting = trouble.map {
        Setting(trouble: $0, remaining: count, environment: environment, subscriber: subscriber)
      }
    }
  }

  /// The trouble for one call, which uses it up by one.
  ///
  /// - Parameter subscriber: whose receipt is asked about, where it can be told.
  func next(in environment: StoreEnvironment, for service: Trouble.Service, of subscriber: Int64? = nil) -> Trouble? {
    setting.withLock { setting in
      guard var current = setting, current.environment == nil || current.environment == environment,
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
