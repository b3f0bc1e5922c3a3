import Synchronization

/// Counts a simulator's calls: their number, their subjects, and the most at once.
///
/// It stores no password and no receipt, only whether the password was right, and the receipt's SHA-256.
final class CallBook: Sendable {
  enum Password: String, Sendable {
    case right, wrong, missing
  }

  /// One call as it arrives.
  struct Call: Sendable {
    var environment: StoreEnvironment
    var receiptData: String?
    var originalTransactionIDs: [String] = []
    var password = Password.missing
  }

  /// The counts so far.
  struct Summary: Hashable, Sendable {
    var total = 0
    var production = 0
    var sandbox = 0
    var inFlight = 0
    var peakInFlight = 0
    /// Requests to the target of the trouble `redirect`.
    var redirectsFollowed = 0
    var rightPasswords = 0
    var wrongPasswords = 0
    var missingPasswords = 0
    /// For the last call; nil before the first.
    var lastPasswordWasRight: Bool?
    /// By the lower-case hex SHA-256 of the text sent as `receipt-data`.
    var byReceipt: [String: Int] = [:]
    /// For authentic receipts, with any answer; a receipt with two subscriptions counts for both.
    var byOriginalTransactionID: [String: Int] = [:]
    /// Calls of the Server API and of DeviceCheck. They add to nothing above but `inFlight` and `peakInFlight`.
    var serverAPI = ServiceSummary()
    var deviceCheck = ServiceSummary()
    /// Consumption information that was taken, by transaction ID.
    var consumption: [String: [Consumption]] = [:]
    /// The account UUIDs that were set, by original transaction ID.
    var accountTokens: [String: [String]] = [:]
  }

  /// Consumption information about a transaction.
  struct Consumption: Hashable, Sendable {
    var at: Timestamp
    /// The JSON that was sent.
    var body: String
  }

  /// The calls of the Server API or of DeviceCheck so far.
  struct ServiceSummary: Hashable, Sendable {
    var total = 0
    var production = 0
    /// Calls of the sandbox, or of DeviceCheck's development server.
    var sandbox = 0
    /// Calls with a refused bearer token.
    var rejectedTokens = 0
    /// By endpoint: `subscriptions`, `transactions`, `history`, `lookup`, `consumption`, `refund_lookup`,
    /// `app_account_token`, `extend`, `extend_mass`, `extend_mass_status`, `notifications_history`,
    /// `notifications_test`, `notifications_test_status`; `query_two_bits`, `update_two_bits`; `unknown`.
    var byEndpoint: [String: Int] = [:]
    /// By the requested transaction ID, if a known customer has it. Only for the Server API.
    var byTransactionID: [String: Int] = [:]
  }

  private let summary = Mutex(Summary())

  var current: Summary { summary.withLock { $0 } }

  /// Resets everything but the calls in flight.
  func reset() {
    summary.withLock { summary in
      let inFlight = summary.inFlight
      summary = Summary()
      summary.inFlight = inFlight
      summary.peakInFlight = inFlight
    }
  }

  func record(_ call: Call) {
    let receipt = call.receiptData.map { text in
      Digest.sha256(Array(text.utf8)).map { octet in (octet < 16 ? "0" : "") + String(octet, radix: 16) }.joined()
    }
    summary.withLock { summary in
      summary.total += 1
      switch call.environment {
      case .production: summary.production += 1
      case .sandbox: summary.sandbox += 1
      }
      switch call.password {
      case .right: summary.rightPasswords += 1
      case .wrong: summary.wrongPasswords += 1
      case .missing: summary.missingPasswords += 1
      }
      summary.lastPasswordWasRight = call.password == .right
      if let receipt { summary.byReceipt[receipt, default: 0] += 1 }
      for id in call.originalTransactionIDs { summary.byOriginalTransactionID[id, default: 0] += 1 }
    }
  }

  /// Records a call of the Server API or of DeviceCheck.
  ///
  /// - Parameter transactionID: the requested transaction, if a known customer has it.
  func record(
    _ endpoint: String, of service: any WritableKeyPath<Summary, ServiceSummary> & Sendable,
    in environment: StoreEnvironment, isTokenAccepted: Bool, transactionID: String? = nil
  ) {
    summary.withLock { summary in
      summary[keyPath: service].total += 1
      switch environment {
      case .production: summary[keyPath: service].production += 1
      case .sandbox: summary[keyPath: service].sandbox += 1
      }
      if !isTokenAccepted { summary[keyPath: service].rejectedTokens += 1 }
      summary[keyPath: service].byEndpoint[endpoint, default: 0] += 1
      if let transactionID { summary[keyPath: service].byTransactionID[transactionID, default: 0] += 1 }
    }
  }

  func recordConsumption(_ transactionID: String, at now: Timestamp, body: String) {
    summary.withLock { $0.consumption[transactionID, default: []].append(Consumption(at: now, body: body)) }
  }

  func recordAccountToken(_ originalTransactionID: String, _ token: String) {
    summary.withLock { $0.accountTokens[originalTransactionID, default: []].append(token) }
  }

  func begin() {
    summary.withLock { summary in
      summary.inFlight += 1
      summary.peakInFlight = max(summary.peakInFlight, summary.inFlight)
    }
  }

  func end() { summary.withLock { $0.inFlight -= 1 } }

  func recordFollowedRedirect() { summary.withLock { $0.redirectsFollowed += 1 } }
}
