import Synchronization

/// A failure in place of an ordinary response: a status without a verdict, or a broken exchange.
enum Trouble: String, CaseIterable, Codable, Sendable {
  case status21000 = "status_21000"
  case status21001 = "status_21001"
  case status21002 = "status_21002"
  case status21003 = "status_21003"
  case status21004 = "status_21004"
  case status21005 = "status_21005"
  case status21009 = "status_21009"
  case status21100Retryable = "status_21100_retryable"
  case status21100NotRetryable = "status_21100_not_retryable"
  case status21199 = "status_21199"
  case statusUnheardOf = "status_29999"
  case http500 = "http_500"
  case http503 = "http_503"
  case http429 = "http_429"
  case html
  case emptyBody = "empty_body"
  case notJSON = "not_json"
  case truncated
  case missingReceipt = "missing_receipt"
  case duplicateKeys = "duplicate_keys"
  case trailingJunk = "trailing_junk"
  case stall
  case slowDrip = "slow_drip"
  case reset, giant, endless, redirect
  case pingPong = "ping_pong"
  case badDate = "bad_date"
  case serverAPIRetryable = "server_api_retryable"
  case serverAPINotFoundRetryable = "server_api_not_found_retryable"
  case serverAPIKeyRejected = "server_api_key_rejected"
  case serverAPIRateLimited = "server_api_rate_limited"
  case deviceCheckKeyRefused = "device_check_key_refused"
  case deviceCheckTokenRefused = "device_check_token_refused"

  /// One line for people.
  var summary: String {
    switch self {
    case .status21000: "status 21000: the request was not a POST, or its JSON unreadable"
    case .status21001: "status 21001: no longer sent by the store"
    case .status21002: "status 21002 for an intact receipt: the store is in trouble"
    case .status21003: "status 21003 for an intact receipt: could not be authenticated"
    case .status21004: "status 21004: the shared secret is wrong, whatever was sent"
    case .status21005: "status 21005: temporarily unable"
    case .status21009: "status 21009: internal data access error"
    case .status21100Retryable: "status 21100 with is-retryable true"
    case .status21100NotRetryable: "status 21100 with is-retryable false"
    case .status21199: "status 21199 that does not say if it may be tried again"
    case .statusUnheardOf: "status 29999, which nobody has heard of"
    case .http500: "HTTP 500 with a body that looks like a verdict"
    case .http503: "HTTP 503"
    case .http429: "HTTP 429 with Retry-After: 2"
    case .html: "HTTP 200 with a page of HTML"
    case .emptyBody: "HTTP 200 with nothing in it"
    case .notJSON: "HTTP 200 with text that is not JSON"
    case .truncated: "half of the answer, then the connection is closed"
    case .missingReceipt: "status 0 without a receipt"
    case .duplicateKeys: "a whole answer that names its status twice"
    case .trailingJunk: "a whole answer with something behind it"
    case .stall: "never answers"
    case .slowDrip: "one byte of the answer every half second"
    case .reset: "the connection is reset (RST) before a byte of the answer"
    case .giant: "a whole answer of more than 8 MiB"
    case .endless: "an answer that does not end"
    case .redirect: "HTTP 302 to a URL that would answer"
    case .pingPong: "each store sends the receipt, or the transaction ID, to the other"
    case .badDate: "an answer whose cancellation dates cannot be read"
    case .serverAPIRetryable: "Server API: HTTP 500 with error 5000001, please try again"
    case .serverAPINotFoundRetryable: "Server API: HTTP 404 with error 4040002, not found now, please try again"
    case .serverAPIKeyRejected: "Server API: HTTP 401 without a body, whatever the token"
    case .serverAPIRateLimited: "Server API: HTTP 429 with error 4290000, Retry-After a minute on in epoch milliseconds"
    case .deviceCheckKeyRefused: "DeviceCheck: HTTP 401, whatever the token"
    case .deviceCheckTokenRefused: "DeviceCheck: HTTP 400, whatever the device token"
    }
  }

  /// The store's services.
  enum Service: String, CaseIterable, Codable, Sendable {
    case verifyReceipt = "verify_receipt"
    case serverAPI = "server_api"
    case deviceCheck = "device_check"
  }

  /// The services that it affects: statuses and error codes belong to one, broken exchanges to all.
  func befalls(_ service: Service) -> Bool {
    switch self {
    case .status21000, .status21001, .status21002, .status21003, .status21004, .status21005, .status21009,
      .status21100Retryable, .status21100NotRetryable, .status21199, .statusUnheardOf, .missingReceipt, .badDate:
      service == .verifyReceipt
    case .serverAPIRetryable, .serverAPINotFoundRetryable, .serverAPIKeyRejected, .serverAPIRateLimited:
      service == .serverAPI
    case .deviceCheckKeyRefused, .deviceCheckTokenRefused: service == .deviceCheck
    case .pingPong: service != .deviceCheck
    case .http500, .http503, .http429, .html, .emptyBody, .notJSON, .truncated, .duplicateKeys, .trailingJunk, .stall,
      .slowDrip, .reset, .giant, .endless, .redirect:
      true
    }
  }
}

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
