import CountersignAPI
import Foundation

@testable import CountersignClient

/// The service as its contract has it, in memory. Products are named after what they are: `refund.…` takes the purchase
/// back, `family.…` is shared, `grace.…` is in its grace period, `absent.…` is not in the answer at first, `stranger.…` is another user's, `outage.…` is answered with a 503 each time.
final class FakeService: Transport {
  enum Trouble {
    /// A problem of the service's.
    case problem(Int, String, retryable: Bool, retryAfter: String? = nil)
    /// An answer of somebody else's on the way.
    case page(Int)
    case unreachable
    /// It was done, and the answer did not arrive.
    case answerLost
    /// A purchase that cannot be checked with Apple yet.
    case provisional
  }

  struct Request: Sendable {
    var line: String
    var headers: [String: String]
    var body: String
  }

  private struct State {
    var bearers: [String: String] = [:]
    var troubles: [(path: String, trouble: Trouble)] = []
    var requests: [Request] = []
    var purchases: [String] = []
    var absent: Set<String> = []
    var moved: Set<String> = []
    var tier = "free"
    var status = "expired"
    var reason = "no_purchases"
    var ownership: EntitlementState.Ownership?
    var accessUntil: Date?
    var writes: [EntitlementResponse.ProfileWrite] = []
    var write = EntitlementResponse.ProfileWrite.committed
    var used = 0
    var isLastDay = false
    var usageAnswers: [String: Data] = [:]
    var trials: [Trial] = []
    var trialSessions = 30
    var variants = ["headline": "family"]
    var events: [AppEvent] = []
    var plans = FakeService.plans
    var willRenew = true
    var productID: String?
    var isAppleAway = false
    var kid = FakeService.key.kid
    var subject: String?
    var heldPath: String?
    var lead: TimeInterval = 0
    var held: [CheckedContinuation<Void, Never>] = []
  }

  private struct Trial {
    var owner: String
    var device: String
    var startedAt: Date
    var total: Int
    var sessions: Set<String> = []
  }

  /// The bearer of an app without accounts: the device is the user.
  static let publicKey = "appl_forTestsOnly"
  static let key = SigningKey(kid: "key-1", x: "x", y: "y")
  static let monthly: TimeInterval = 30 * 86_400
  static let plans = PlansResponse(
    plans: [
      .init(tier: "free", name: "Discovery", description: nil, features: [:], products: []),
      .init(
        tier: "pro", name: "Family Pro", description: nil, features: [:],
        products: [
          .init(productID: "pro.monthly", kind: .subscription, period: "P1M", prices: ["USD": "4.99"]),
          .init(productID: "pro.yearly", kind: .subscription, period: "P1Y", prices: [:]),
        ]),
    ],
    offerings: [
      .init(
        name: "default",
        packages: [
          .init(name: "$rc_monthly", productID: "pro.monthly"), .init(name: "$rc_annual", productID: "pro.yearly"),
        ], metadata: ["best": .text("$rc_annual")]),
      .init(name: "family", packages: [.init(name: "$rc_annual", productID: "pro.yearly")], metadata: [:]),
    ], currentOffering: "default")
  private let state = Locked(State())
  private let journal: Journal
  private let deviceTime: @Sendable () -> Date

  init(journal: Journal, now: @escaping @Sendable () -> Date) {
    self.journal = journal
    deviceTime = now
  }

  // MARK: The script

  var bearers: [String: String] {
    get { state.withLock { $0.bearers } }
    set { state.withLock { $0.bearers = newValue } }
  }
  /// The next request whose path ends so meets this trouble.
  func fail(_ path: String, _ trouble: Trouble, times: Int = 1) {
    state.withLock { for _ in 0..<times { $0.troubles.append((path, trouble)) } }
  }
  func recover() { state.withLock { $0.troubles = [] } }
  /// The states of the profile row's write, one for each read.
  func script(writes: [EntitlementResponse.ProfileWrite]) { state.withLock { $0.writes = writes } }
  func set(isAppleAway: Bool) { state.withLock { $0.isAppleAway = isAppleAway } }
  /// Support gives a purchase to whoever posts it.
  func move(_ jws: String) { state.withLock { _ = $0.moved.insert(jws) } }
  func rotate(to kid: String) { state.withLock { $0.kid = kid } }
  func name(subject: String) { state.withLock { $0.subject = subject } }
  /// The user's state changes without this device.
  func set(tier: String, status: String = "active", for duration: TimeInterval? = monthly) {
    let until = duration.map { now() + $0 }
    state.withLock { state in
      state.tier = tier
      state.status = status
      state.accessUntil = until
    }
  }
  /// The limit counts days in a row, and this is the last one.
  func setLastDay() { state.withLock { $0.isLastDay = true } }
  func set(plans: PlansResponse) { state.withLock { $0.plans = plans } }
  func set(variant: String) { state.withLock { $0.variants["headline"] = variant } }
  func set(reason: String, willRenew: Bool, productID: String?) {
    state.withLock { state in
      state.reason = reason
      state.willRenew = willRenew
      state.productID = productID
    }
  }
  /// The answers to requests whose path ends so arrive after `release()`.
  func hold(_ path: String) { state.withLock { $0.heldPath = path } }
  func release() {
    let held = state.withLock { state in
      defer { state.held = [] }
      state.heldPath = nil
      return state.held
    }
    for continuation in held { continuation.resume() }
  }

  /// How far the device's clock is ahead of the service's.
  func set(lead: TimeInterval) { state.withLock { $0.lead = lead } }

  private func now() -> Date { deviceTime() - state.withLock { $0.lead } }

  /// The sessions of the trials that begin from now on.
  func set(trialSessions: Int) { state.withLock { $0.trialSessions = trialSessions } }

  // MARK: What came

  var requests: [Request] { state.withLock { $0.requests } }
  func requests(_ line: String) -> [Request] { requests.filter { $0.line == line } }
  var heldCount: Int { state.withLock { $0.held.count } }
  /// The purchases that count, each once however often it was posted.
  var purchases: [String] { state.withLock { $0.purchases } }
  /// The app's own events, each once by its ID.
  var events: [AppEvent] { state.withLock { $0.events } }
  var used: Int { state.withLock { $0.used } }
  /// Each trial: its owner, and how many sessions were used.
  var trials: [String] { state.withLock { $0.trials.map { "\($0.owner) \($0.sessions.count)" } } }

  // MARK: The contract

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    let body = request.body ?? Data()
    let line = "\(request.method) \(request.url.path)"
    state.withLock {
      $0.requests.append(Request(line: line, headers: request.headers, body: String(decoding: body, as: UTF8.self)))
    }
    let answer = Result { try outcome(of: request, line, body) }
    await waitIfHeld(request.url.path)
    return try answer.get()
  }

  private func waitIfHeld(_ path: String) async {
    await withCheckedContinuation { continuation in
      let isHeld = state.withLock { state in
        guard let held = state.heldPath, path.hasSuffix(held) else { return false }
        state.held.append(continuation)
        return true
      }
      if !isHeld { continuation.resume() }
    }
  }

  private func outcome(of request: TransportRequest, _ line: String, _ body: Data) throws -> TransportResponse {
    let trouble = state.withLock { state in
      state.troubles.firstIndex { request.url.path.hasSuffix($0.path) }.map { state.troubles.remove(at: $0).trouble }
    }
    switch trouble {
    case .problem(let status, let code, let retryable, let retryAfter):
      var answer = problem(status, code, isRetryable: retryable)
      answer.headers["retry-after"] = retryAfter
      return answer
    case .page(let status): return TransportResponse(status: status, body: Data("<html>Welcome</html>".utf8))
    case .unreachable: throw URLError(.notConnectedToInternet)
    case .answerLost:
      _ = try answer(request, line, body)
      throw URLError(.networkConnectionLost)
    case .provisional:
      var answer = try answer(request, line, body)
      answer.status = 202
      return answer
    case nil: return try answer(request, line, body)
    }
  }

  private func answer(_ request: TransportRequest, _ line: String, _ body: Data) throws -> TransportResponse {
    if line == "GET /.well-known/jwks.json" {
      return TransportResponse(
        status: 200, body: Data(#"{"keys":[{"kty":"EC","crv":"P-256","kid":"\#(kid)","x":"x","y":"y"}]}"#.utf8))
    }
    if line == "GET /v1/plans" { return try tagged(state.withLock { $0.plans }, request) }
    let bearer = request.headers["Authorization"]?.replacingOccurrences(of: "Bearer ", with: "") ?? ""
    if request.url.path.contains("/trials") || request.url.path.contains("/devices") {
      guard let user = bearer == Self.publicKey ? "$device" : bearers[bearer] else {
        return problem(401, "unauthenticated")
      }
      return try trial(request, line, body, user)
    }
    guard let user = bearers[bearer] else { return problem(401, "unauthenticated") }
    switch line {
    case "POST /v1/validations": return try validate(body, user)
    case "GET /v1/profiles/me":
      return try tagged(profile(user, isRead: true), request)
    case "GET /v1/profiles/me/token":
      return TransportResponse(
        status: 200, body: Data(#"{"token":"\#(token(user))","expires_at":"2026-01-15T13:00:00Z"}"#.utf8))
    case "POST /v1/profiles/me/usage/questions": return try consume(request, body)
    case "GET /v1/profiles/me/access":
      return try json(
        200,
        AccessResponse(
          profile: profile(user, isRead: true), features: [:], experiments: state.withLock { $0.variants },
          timeZone: "GMT"))
    case "POST /v1/events": return try report(body)
    case "GET /v1/profiles/me/offers":
      return try json(
        200,
        OffersResponse(
          promotional: [.init(productID: "pro.monthly", offerID: "winter")], introductory: [],
          winBack: [
            .init(offerID: "back", productID: nil, originalTransactionID: "1", environment: .production)
          ]))
    case "POST /v1/offers/promotional":
      let wanted = try JSONDecoder.countersign.decode(OfferRequest.self, from: body)
      guard wanted.offerID == "winter" else { return problem(409, "offer_not_for_user") }
      return try json(
        200,
        PromotionalOfferResponse(
          productID: wanted.productID, offerID: "winter", jws: "signed.for.\(wanted.productID)",
          signature: .init(keyID: "k", nonce: "n", timestamp: 1, signature: "s", appAccountToken: nil)))
    case "POST /v1/offers/introductory":
      let wanted = try JSONDecoder.countersign.decode(OfferRequest.self, from: body)
      return try json(
        200,
        IntroductoryOfferResponse(
          productID: wanted.productID, isAllowed: true, jws: "intro.for.\(wanted.transactionID ?? "?")"))
    default: return problem(404, "not_found")
    }
  }

  private func validate(_ body: Data, _ user: String) throws -> TransportResponse {
    let submission = try JSONDecoder.countersign.decode(ValidationRequest.self, from: body)
    guard let jws = submission.receiptData else { return problem(400, "malformed_request") }
    journal.note("post \(jws)")
    if jws.hasPrefix("stranger.") { return problem(409, "owned_by_another_user") }
    let isAnothers = StoreTransaction(id: 0, jwsRepresentation: jws) {}.isBoughtByAnother(than: user)
    if isAnothers, !state.withLock({ $0.moved.contains(jws) }) {
      // While Apple is away it waits with whoever has posted it.
      guard state.withLock({ $0.isAppleAway }) else { return problem(409, "owned_by_another_user") }
      var answer = try profile(user, isRead: true)
      answer.isTransactionFound = false
      return try json(202, answer)
    }
    if jws.hasPrefix("outage.") { return problem(503, "app_store_unavailable", isRetryable: true) }
    if jws.hasPrefix("garbage.") { return problem(422, "not_authentic") }
    if jws.hasPrefix("absent."), state.withLock({ $0.absent.insert(jws).inserted }) {
      var answer = try profile(user, isRead: true)
      answer.isTransactionFound = submission.transactionID.map { _ in false }
      return try json(200, answer)
    }
    let now = now()
    state.withLock { state in
      if !state.purchases.contains(jws) { state.purchases.append(jws) }
      let isRefund = jws.hasPrefix("refund.")
      state.tier = isRefund ? "free" : "pro"
      state.status = isRefund ? "expired" : jws.hasPrefix("grace.") ? "grace_period" : "active"
      state.reason = isRefund ? "refunded" : "renewing"
      state.ownership = jws.hasPrefix("family.") ? .familyShared : .purchased
      state.accessUntil = isRefund ? nil : now + Self.monthly
    }
    var answer = try profile(user, isRead: true)
    // The ID stands in the name of a transaction.
    answer.isTransactionFound = submission.transactionID.map { jws.contains(".\($0).") || jws.hasSuffix(".\($0)") }
    return try json(200, answer)
  }

  private func profile(_ user: String, isRead: Bool) throws -> EntitlementResponse {
    let state = state.withLock { state in
      if !state.writes.isEmpty { state.write = state.writes.removeFirst() }
      return state
    }
    return EntitlementResponse(
      userID: user,
      entitlement: EntitlementState(
        tier: state.tier, status: .init(rawValue: state.status), reason: .init(rawValue: state.reason),
        expiresAt: state.accessUntil, accessUntil: state.accessUntil, productID: state.productID,
        willRenew: state.willRenew, isTrial: false,
        ownership: state.ownership, isStale: false, isProvisional: false),
      profileWrite: state.write)
  }

  private func consume(_ request: TransportRequest, _ body: Data) throws -> TransportResponse {
    guard let key = request.headers["Idempotency-Key"] else { return problem(400, "malformed_request") }
    if let answer = state.withLock({ $0.usageAnswers[key] }) { return TransportResponse(status: 200, body: answer) }
    let amount = try JSONDecoder.countersign.decode(UsageRequest.self, from: body).amount ?? 1
    let (isAllowed, used) = state.withLock { state in
      guard state.used + amount <= 10 else { return (false, state.used) }
      state.used += amount
      return (true, state.used)
    }
    let feature = FeatureResponse(
      feature: "questions", tier: "free",
      state: FeatureState(
        kind: .meter, isAllowed: isAllowed, isMoreAllowed: used < 10 || state.withLock { $0.isLastDay }, current: used,
        limit: 10, remaining: 10 - used))
    if !isAllowed { return problem(403, "limit_reached", feature: feature) }
    let answer = try json(200, feature)
    state.withLock { $0.usageAnswers[key] = answer.body }
    return answer
  }

  private func trial(_ request: TransportRequest, _ line: String, _ body: Data, _ user: String) throws
    -> TransportResponse
  {
    let isStart = line == "POST /v1/trials"
    let posted = isStart ? try JSONDecoder.countersign.decode(TrialRequest.self, from: body) : nil
    let device = posted?.deviceID ?? request.url.path.split(separator: "/")[2].description
    let user = user == "$device" ? "$device:\(device)" : user
    let now = now()
    var (isNew, isOver) = (false, false)
    let answer = state.withLock { state in
      let own = state.trials.firstIndex { $0.owner == user }
      // A sign-in moves the device's trial; afterwards the device means its new owner.
      let mine = own ?? (isStart || user.hasPrefix("$device:") ? state.trials.firstIndex { $0.device == device } : nil)
      if let mine, isStart, state.trials[mine].owner.hasPrefix("$device:") { state.trials[mine].owner = user }
      if mine == nil, isStart {
        state.trials.append(Trial(owner: user, device: device, startedAt: now, total: state.trialSessions))
        isNew = true
      }
      guard let index = mine ?? (isStart ? state.trials.count - 1 : nil) else { return nil as TrialResponse? }
      func isRunning() -> Bool {
        let trial = state.trials[index]
        return trial.sessions.count < trial.total && now < trial.startedAt + 7 * 86_400
      }
      if line.hasSuffix("/sessions"), let key = request.headers["Idempotency-Key"],
        !state.trials[index].sessions.contains(key)
      {
        isOver = !isRunning()
        if !isOver { state.trials[index].sessions.insert(key) }
      }
      state.tier = isRunning() ? "pro" : "free"
      state.status = isRunning() ? "active" : "expired"
      let trial = state.trials[index]
      state.accessUntil = isRunning() ? trial.startedAt + 7 * 86_400 : nil
      return TrialResponse(
        trial: "week", userID: user, deviceID: trial.device, tier: "pro", startedAt: trial.startedAt,
        expiresAt: trial.startedAt + 7 * 86_400, sessionsTotal: trial.total, sessionsUsed: trial.sessions.count,
        sessionsRemaining: trial.total - trial.sessions.count,
        state: trial.sessions.count == trial.total
          ? .usedUp : now < trial.startedAt + 7 * 86_400 ? .running : .over)
    }
    if isOver { return problem(403, "trial_over") }
    if line.hasPrefix("PUT ") { return try json(200, DeviceResponse(deviceID: device, trial: answer)) }
    guard let answer else { return problem(404, "not_found") }
    return try json(isNew ? 201 : 200, answer)
  }

  private func tagged(_ answer: some Encodable & Hashable, _ request: TransportRequest) throws -> TransportResponse {
    let tag = "\"\(answer.hashValue)\""
    if request.headers["If-None-Match"] == tag { return TransportResponse(status: 304, headers: ["etag": tag]) }
    return try json(200, answer, ["etag": tag, "x-request-id": "request-7"])
  }

  private func report(_ body: Data) throws -> TransportResponse {
    let report = try JSONDecoder.countersign.decode(EventReport.self, from: body)
    guard (1...50).contains(report.events.count), !report.events.contains(where: { $0.type == "refused_event" }) else {
      return problem(400, "malformed_request")
    }
    state.withLock { state in
      for event in report.events where !state.events.contains(where: { $0.id == event.id }) {
        state.events.append(event)
        guard event.type == "experiment_exposed", case .text(let name) = event.properties["experiment"],
          case .text(let variant) = event.properties["variant"]
        else { continue }
        state.variants[name] = variant
      }
    }
    return try json(200, EventsRecorded(recorded: report.events.count))
  }

  private var kid: String { state.withLock { $0.kid } }

  /// The access token of the user now.
  func token(_ user: String) -> String {
    let state = state.withLock { $0 }
    let issued = now().timeIntervalSince1970
    let end = state.accessUntil?.timeIntervalSince1970
    let isPro = state.tier == "pro"
    let left = isPro ? "null" : "\(10 - state.used)"
    let claims = """
      {"sub":"\(state.subject ?? user)","iat":\(Int(issued)),"exp":\(Int(min(issued + 3600, end ?? .infinity))),\
      "offline_until":\(Int(min(issued + 7 * 86_400, end ?? .infinity))),\
      "access_until":\(end.map { "\(Int($0))" } ?? "null"),"tier":"\(state.tier)","status":"\(state.status)",\
      "environment":null,"features":{"filters":\(isPro),"questions":{"allowed":\(isPro || state.used < 10),\
      "limit":\(isPro ? "null" : "10"),"remaining":\(left)}}}
      """
    let header = #"{"alg":"ES256","kid":"\#(state.kid)","typ":"access+jwt"}"#
    let message = "\(base64URL(Data(header.utf8))).\(base64URL(Data(claims.utf8)))"
    return "\(message).\(base64URL(fakeSignature(Data(message.utf8), state.kid)))"
  }

  private func json(_ status: Int, _ body: some Encodable, _ headers: [String: String] = [:]) throws
    -> TransportResponse
  {
    TransportResponse(status: status, headers: headers, body: try JSONEncoder.countersign.encode(body))
  }

  private func problem(_ status: Int, _ code: String, isRetryable: Bool = false, feature: FeatureResponse? = nil)
    -> TransportResponse
  {
    let problem = ProblemDocument(
      type: "/problems/\(code)", title: code, status: status, detail: "For developers.", code: code,
      isRetryable: isRetryable, requestID: "request", feature: feature)
    return TransportResponse(status: status, body: (try? JSONEncoder.countersign.encode(problem)) ?? Data())
  }
}

/// A user's bearer token, as an identity provider makes them.
func bearerToken(_ claims: String) -> String { "e30.\(base64URL(Data(claims.utf8))).c2ln" }

func base64URL(_ data: Data) -> String {
  data.base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
    .replacingOccurrences(of: "=", with: "")
}

/// Stands in for ES256: any change of the message or the key changes it. It keeps no secret.
func fakeSignature(_ message: Data, _ kid: String) -> Data {
  var signature = Data()
  for round in 0..<8 as Range<UInt64> {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325 &+ round
    for byte in message + Data(kid.utf8) { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    withUnsafeBytes(of: hash.bigEndian) { signature.append(contentsOf: $0) }
  }
  return signature
}

let fakeVerify: SignatureVerifier = { signature, message, key in signature == fakeSignature(message, key.kid) }
