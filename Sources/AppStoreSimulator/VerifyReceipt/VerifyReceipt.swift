import FoundationEssentials

/// Simulates Apple's `verifyReceipt`: maps a request's body to the bytes of the response.
struct VerifyReceipt: Sendable {
  let issuer: ReceiptIssuer
  let clock: SimulatedClock
  let troubles: TroubleSwitch
  let calls: CallBook
  let sharedSecret: String

  private struct Body: Decodable {
    var receiptData: String?
    var password: String?
    var excludesOldTransactions: Bool?

    enum CodingKeys: String, CodingKey {
      case receiptData = "receipt-data"
      case password
      case excludesOldTransactions = "exclude-old-transactions"
    }
  }

  /// The checks are in the store's order: form, authenticity, environment, shared secret, verdict.
  func answer(isPost: Bool, body: [UInt8], environment: StoreEnvironment) -> Answer {
    let request = try? JSONDecoder().decode(Body.self, from: Data(body))
    var reading = (request?.receiptData).map { issuer.read(base64: $0) }
    var call = CallBook.Call(
      environment: environment, receiptData: request?.receiptData, password: password(request?.password))
    if case .authentic(let seed) = reading {
      call.originalTransactionIDs = seed.originalTransactionIDs(at: clock.now)
      issuer.customers.learn(seed, at: clock.now)
      // The store knows of extensions that were made after the receipt.
      reading = .authentic(issuer.customers.extended(seed))
    }
    calls.record(call)

    var subscriber: Int64?
    if case .authentic(let seed) = reading { subscriber = seed.subscriber }
    let switched = troubles.next(in: environment, for: .verifyReceipt, of: subscriber)
    guard isPost, let request else { return befall(switched, Self.verdict(21000), environment) }
    switch reading {
    case .authentic(let seed):
      let ordinary = verdict(on: seed, request, environment)
      guard let trouble = switched ?? seed.trouble(of: .verifyReceipt) else { return ordinary }
      // A receipt's own trouble affects its own environment only; ping-pong is a redirect from both.
      if switched == nil, seed.environment != environment, trouble != .pingPong { return ordinary }
      return befall(trouble, ordinary, environment, seed: seed, request)
    case .notAuthentic: return befall(switched, Self.verdict(21003), environment)
    case .notAReceipt:
      let exception: (String, JSON) = ("exception", "java.lang.IllegalArgumentException")
      return befall(switched, Answer(json: .object([("status", 21002), exception])), environment)
    case nil: return befall(switched, Self.verdict(21002), environment)
    }
  }

  private func password(_ password: String?) -> CallBook.Password {
    guard let password else { return .missing }
    return password == sharedSecret ? .right : .wrong
  }

  private func verdict(on seed: ReceiptSeed, _ request: Body, _ environment: StoreEnvironment) -> Answer {
    guard seed.environment == environment else { return Self.verdict(environment == .production ? 21007 : 21008) }
    if seed.scenario == .accountGone { return Self.verdict(21010) }
    let now = clock.now
    // The secret protects subscriptions only; the store ignores it for anything else.
    if seed.state(at: now).hasSubscriptions, password(request.password) != .right { return Self.verdict(21004) }
    return whole(seed, request, now: now)
  }

  private func whole(_ seed: ReceiptSeed, _ request: Body, now: Timestamp, hasBadDates: Bool = false) -> Answer {
    guard let latestReceipt = try? issuer.newest(of: seed, at: now) else { return Self.verdict(21009) }
    let answer = VerifyReceiptAnswer(
      seed: seed, now: now, excludesOldTransactions: request.excludesOldTransactions ?? false,
      latestReceipt: latestReceipt, hasBadDates: hasBadDates)
    return Answer(json: answer.json())
  }

  private static func verdict(_ status: Int64) -> Answer { Answer(json: VerifyReceiptAnswer.bare(status)) }

  private func befall(
    _ trouble: Trouble?, _ ordinary: Answer, _ environment: StoreEnvironment, seed: ReceiptSeed? = nil,
    _ request: Body? = nil
  ) -> Answer {
    guard let trouble else { return ordinary }
    if trouble == .badDate, let seed, let request, seed.environment == environment {
      return whole(seed, request, now: clock.now, hasBadDates: true)
    }
    return trouble.befall(ordinary, environment)
  }
}

/// The bytes of the response.
struct Answer: Sendable {
  /// How the bytes are sent.
  enum Manner: Sendable {
    case whole
    /// Announces the full length and sends half.
    case half
    /// One byte every half second.
    case drip
    /// The body repeated for ever, without a length.
    case endless
    /// No response.
    case never
    /// A TCP reset.
    case reset
  }

  var httpStatus = 200
  var headers: [(String, String)] = []
  var body: [UInt8]
  var manner = Manner.whole

  init(text: String, httpStatus: Int = 200, headers: [(String, String)] = []) {
    self.body = Array(text.utf8)
    self.httpStatus = httpStatus
    self.headers = headers
  }

  init(json: JSON, httpStatus: Int = 200, headers: [(String, String)] = []) {
    self.init(text: json.text, httpStatus: httpStatus, headers: headers)
  }

  func sent(_ manner: Manner) -> Answer {
    var answer = self
    answer.manner = manner
    return answer
  }
}

extension Trouble {
  /// The target of `redirect`, which a client must not follow.
  static let redirectPath = "/elsewhere"

  /// Replaces an ordinary response by this trouble.
  func befall(_ answer: Answer, _ environment: StoreEnvironment) -> Answer {
    let text = String(decoding: answer.body, as: UTF8.self)
    switch self {
    case .status21000: return status(21000)
    case .status21001: return status(21001)
    case .status21002: return status(21002)
    case .status21003: return status(21003)
    case .status21004: return status(21004)
    case .status21005: return status(21005)
    case .status21009: return status(21009)
    case .status21100Retryable: return status(21100, isRetryable: true)
    case .status21100NotRetryable: return status(21100, isRetryable: false)
    case .status21199: return status(21199)
    case .statusUnheardOf: return status(29999)
    case .http500: return Answer(text: #"{"status":21003}"#, httpStatus: 500)
    case .http503: return Answer(text: "Service Unavailable", httpStatus: 503)
    case .http429: return Answer(text: "", httpStatus: 429, headers: [("Retry-After", "2")])
    case .html:
      let page = "<!DOCTYPE html><html><head><title>iTunes Store</title></head><body>Down</body></html>"
      return Answer(text: page, headers: [("Content-Type", "text/html")])
    case .emptyBody: return Answer(text: "")
    case .notJSON: return Answer(text: "status=0")
    case .truncated: return answer.sent(.half)
    case .missingReceipt: return Answer(text: #"{"status":0,"environment":"\#(environment.appleName)"}"#)
    case .duplicateKeys: return Answer(text: String(text.dropLast()) + #","status":21010}"#)
    case .trailingJunk: return Answer(text: text + "\n<!-- edge-07 -->")
    case .stall: return answer.sent(.never)
    case .slowDrip: return answer.sent(.drip)
    case .reset: return answer.sent(.reset)
    case .giant:
      return Answer(text: #"{"padding":""# + String(repeating: "a", count: 9 << 20) + "\"," + text.dropFirst())
    case .endless: return Answer(text: String(repeating: " ", count: 16 << 10)).sent(.endless)
    case .redirect: return Answer(text: "", httpStatus: 302, headers: [("Location", Self.redirectPath)])
    case .pingPong: return status(environment == .production ? 21007 : 21008)
    // These are applied within verifyReceipt, or not at all.
    case .badDate, .serverAPIRetryable, .serverAPINotFoundRetryable, .serverAPIKeyRejected, .serverAPIRateLimited,
      .deviceCheckKeyRefused, .deviceCheckTokenRefused:
      return answer
    }
  }

  private func status(_ status: Int64, isRetryable: Bool? = nil) -> Answer {
    var members: [(String, JSON)] = [("status", .integer(status))]
    if let isRetryable { members.append(("is-retryable", .boolean(isRetryable))) }
    return Answer(json: .object(members))
  }
}
