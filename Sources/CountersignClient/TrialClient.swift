import CountersignAPI
import Foundation

/// The trial of this device in an app without accounts, by the app's public key.
///
///     let trials = TrialClient(baseURL: url, publicKey: "appl_…")
///     var trial = try await trials.trial()
///     if trial == nil { trial = try await trials.start() }
///     if let trial, trial.state == .running { show("\(trial.sessionsRemaining ?? 0) sessions are left") }
///
/// The device's ID is made once and kept in the storage: the keychain keeps it when the app is deleted, and an app that is
/// installed again finds its trial. Make one of these, and keep it. A user who has signed in has the same on `CountersignClient`,
/// whose `startTrial` takes the device's trial along.
public actor TrialClient {
  private let service: Service
  private let options: CountersignClient.Options
  private let name: String
  private let isOfDevice: Bool
  private var kept: KeptTrial?
  private var last: Task<Void, Never>?

  /// - Parameters:
  ///   - baseURL: of the service, without `/v1`.
  ///   - publicKey: one of the service's `auth.public_keys`.
  ///   - options: `storage`, `transport`, `deviceToken`, `now` and `log` are used.
  public init(baseURL: URL, publicKey: String, options: CountersignClient.Options = .init()) {
    service = Service(
      baseURL: baseURL, user: "$device", token: { publicKey }, tokenDeadline: options.tokenDeadline,
      isSignedOut: Locked(false), transport: options.transport, now: options.now, log: options.log)
    self.options = options
    name = "trial@\(baseURL.account)@$device"
    isOfDevice = true
  }

  init(service: Service, options: CountersignClient.Options, account: String) {
    self.service = service
    self.options = options
    name = "trial@\(account)"
    isOfDevice = false
  }

  /// Begins a trial, or finds the one that the device or its user has, running or over. Call it again where it throws `later`.
  ///
  /// - Parameters:
  ///   - trial: its name; needed where the service has several.
  ///   - device: what else is to be said of this device. `options.deviceToken` adds the tokens.
  @discardableResult
  public func start(_ trial: String? = nil, device: DeviceRequest = DeviceRequest()) async throws -> TrialResponse {
    try await inTurn { client in
      let device = await client.described(device)
      let request = TrialRequest(
        trial: trial, deviceID: try client.deviceID(), device: device.device, pushToken: device.pushToken,
        deviceToken: device.deviceToken, secondDeviceToken: device.secondDeviceToken,
        isDevelopment: device.isDevelopment)
      let begun = try await client.send("POST", "/v1/trials", body: request)
        .decoded(TrialResponse.self, from: [200, 201], now: client.options.now())
      try client.keep { $0.hear(begun, at: client.options.now()) }
      do { try await client.postWaiting() } catch let error as CountersignError where !error.isRefusal {}
      return try client.read().shown ?? begun
    }
  }

  /// The trial now, with the sessions that wait; `nil` where none has begun. While the service is away it is what is known
  /// without it, by the device's clock; with a clock that was set back, `later`.
  public func trial() async throws -> TrialResponse? {
    try await inTurn { client in
      do {
        do { try await client.postWaiting() } catch let error as CountersignError where error.endsTrial {}
        return try await client.fetch()
      } catch let error as CountersignError where error.isLater {
        guard let trial = try client.read().shown(at: client.options.now()) else { throw error }
        return trial
      }
    }
  }

  /// Uses a session. The last one ends the trial.
  ///
  /// While the service is away a running trial goes on: the session is kept, and counted once when the service is back, at
  /// the next call of any of these. Throws `trial_over` where none is left, and `later` where nothing is known.
  @discardableResult
  public func useSession() async throws -> TrialResponse {
    try await inTurn { client in
      let now = client.options.now()
      let before = try client.read().shown(at: now)
      // On disk before it is posted: a kill neither loses it nor counts it twice.
      try client.keep { $0.use(at: now) }
      do {
        try await client.postWaiting()
      } catch let error as CountersignError {
        if error.isLater, before?.state == .running, let trial = try client.read().shown(at: now) { return trial }
        // It was not granted. Another one has its key, in case it was counted all the same.
        if !error.endsTrial { try client.keep { $0.takeBack() } }
        guard error.isLater, before != nil else { throw error }
        throw CountersignError.refused(code: "trial_over", detail: "The trial is over, by what is known offline.")
      }
      guard let trial = try client.read().shown else { throw CountersignError.later(retryAfter: nil) }
      return trial
    }
  }

  /// Tells the service of this device, its push token and its version of the app: it shares the trial of the user, or of
  /// the device that had the push token before.
  @discardableResult
  public func register(_ device: DeviceRequest) async throws -> TrialResponse? {
    try await inTurn { client in
      let answer = try await client.send(
        "PUT", "/v1/devices/\(try client.deviceID())", body: await client.described(device)
      ).decoded(DeviceResponse.self, now: client.options.now())
      if let trial = answer.trial { try client.keep { $0.hear(trial, at: client.options.now()) } }
      return answer.trial
    }
  }

  /// Posts the sessions that wait. Where none do, no request is made.
  public func sync() async throws {
    guard waitingCount > 0 else { return }
    try await inTurn { client in
      do { try await client.postWaiting() } catch let error as CountersignError where error.endsTrial {}
    }
  }

  /// The number of sessions that the service has not counted yet.
  public var waitingCount: Int { (try? read().waiting) ?? 0 }

  // MARK: The service

  /// The sessions that wait, the oldest first, each under a key of its own.
  private func postWaiting() async throws {
    while try read().waiting > 0 {
      let response = try await send(
        "POST", "/v1/trials/\(try deviceID())/sessions", headers: ["Idempotency-Key": try read().nextKey])
      do {
        let trial = try response.decoded(TrialResponse.self, now: options.now())
        try keep {
          $0.count()
          $0.hear(trial, at: options.now())
        }
      } catch let error as CountersignError where error.endsTrial {
        // The trial is over: the service would refuse the other sessions, too.
        try keep { $0.countAll() }
        _ = try? await fetch()
        throw error
      }
    }
  }

  private func fetch() async throws -> TrialResponse? {
    let response = try await send("GET", "/v1/trials/\(try deviceID())")
    let trial: TrialResponse?
    do { trial = try response.decoded(TrialResponse.self, now: options.now()) } catch CountersignError.refused(
      code: "not_found", detail: _)
    { trial = nil }
    try keep { $0.hear(trial, at: options.now()) }
    return try read().shown
  }

  private func send(
    _ method: String, _ path: String, headers: [String: String] = [:], body: (any Encodable & Sendable)? = nil
  ) async throws -> TransportResponse {
    do { return try await service.send(method, path, headers: headers, body: body) } catch CountersignError.signedOut
      where isOfDevice
    {
      throw CountersignError.refused(code: "unauthenticated", detail: "The service does not know this public key.")
    }
  }

  /// With tokens of DeviceCheck's, where the app makes them: Apple takes each once.
  private func described(_ device: DeviceRequest) async -> DeviceRequest {
    guard device.deviceToken == nil, let token = options.deviceToken else { return device }
    var device = device
    device.deviceToken = try? await service.inTime(token)?.base64EncodedString()
    if device.deviceToken != nil {
      device.secondDeviceToken = try? await service.inTime(token)?.base64EncodedString()
    }
    return device
  }

  /// One call after the other, in the order in which they came: sessions have numbers.
  private func inTurn<Answer: Sendable>(
    _ work: @escaping @Sendable (isolated TrialClient) async throws -> Answer
  ) async throws -> Answer {
    let before = last
    let task = Task {
      await before?.value
      return try await work(self)
    }
    last = Task { _ = try? await task.value }
    return try await task.value
  }

  // MARK: Storage

  private static let making = Locked(())

  /// The ID of the device, whoever uses it.
  private func deviceID() throws -> String {
    try Self.making.withLock { _ in
      do {
        if let kept = try options.storage.read("device"),
          let id = UUID(uuidString: String(decoding: kept, as: UTF8.self))
        {
          return id.uuidString
        }
        let id = UUID().uuidString
        try options.storage.write(Data(id.utf8), to: "device")
        return id
      } catch {
        throw CountersignError.storage
      }
    }
  }

  /// The keychain cannot be read before the first unlock of the device: what it has is not replaced unread.
  private func read() throws -> KeptTrial {
    if let kept { return kept }
    do {
      let data = try options.storage.read(name)
      let read = data.flatMap { try? JSONDecoder.countersign.decode(KeptTrial.self, from: $0) } ?? KeptTrial()
      kept = read
      return read
    } catch {
      throw CountersignError.storage
    }
  }

  private func keep(_ change: (inout KeptTrial) -> Void) throws {
    var changed = try read()
    change(&changed)
    do { try options.storage.write(try JSONEncoder.countersign.encode(changed), to: name) } catch {
      throw CountersignError.storage
    }
    kept = changed
  }
}

/// The trial as the service last reported it, and the sessions that it has not counted yet.
struct KeptTrial: Codable, Sendable {
  /// Of this record: sessions are numbered, and a number counts once.
  private var id = UUID().uuidString
  private var trial: TrialResponse?
  /// The latest time by the device's clock at which something was said or used.
  private var at: Date?
  private var used = 0
  private var counted = 0

  var waiting: Int { used - counted }
  var nextKey: String { "\(id)-\(counted + 1)" }

  mutating func hear(_ trial: TrialResponse?, at now: Date) {
    self.trial = trial
    at = now
  }

  mutating func use(at now: Date) {
    used += 1
    at = at.map { max($0, now) }
  }

  mutating func takeBack() { used = max(counted, used - 1) }
  mutating func count() { counted += 1 }
  mutating func countAll() { counted = used }

  /// As the service said it, less the sessions that wait.
  var shown: TrialResponse? {
    guard var trial else { return nil }
    trial.sessionsUsed += waiting
    trial.sessionsRemaining = trial.sessionsRemaining.map { max(0, $0 - waiting) }
    if trial.state == .running, trial.sessionsRemaining == 0 { trial.state = .usedUp }
    return trial
  }

  /// The same without the service. A clock that stands before the last answer was set back.
  func shown(at now: Date) -> TrialResponse? {
    guard var trial = shown, let at, now >= at - 300 else { return nil }
    if trial.state == .running, trial.expiresAt <= now { trial.state = .over }
    return trial
  }
}

extension CountersignError {
  var isLater: Bool {
    if case .later = self { true } else { false }
  }

  /// Of a session: no other will be counted either.
  var endsTrial: Bool {
    switch self {
    case .refused(code: "trial_over", detail: _), .refused(code: "not_found", detail: _): true
    default: false
    }
  }
}

extension URL {
  /// The service in the names of what is stored.
  var account: String { "\(host ?? "")\(port.map { ":\($0)" } ?? "")\(path.trimmingSuffix("/"))" }
}
