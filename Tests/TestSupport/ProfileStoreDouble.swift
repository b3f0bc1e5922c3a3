import Synchronization

/// The app's profile rows behind a PostgREST that does what a test says: answers, lies, dawdles, breaks off.
///
/// It is a double, not PostgREST: of the interface it knows what the service uses, as a real 14.17 answered it, and
/// answers 501 to everything else. Rows live in memory, each update that was applied is remembered in the order of its
/// application. Every row exists from the start, as a blank one, unless the test takes it away.
package final class ProfileStoreDouble: Sendable {
  /// The store's treatment of requests from now on.
  package enum Mode: Hashable, Sendable {
    case ok
    /// Applies and answers, after this long.
    case slow(Duration)
    /// Reads requests and never answers.
    case hang
    /// Reads requests, never answers, and carries them out when the test says so (`carryOutHeld`): a gateway or a lock
    /// that outlasts whoever asked.
    case hold
    case http500
    /// PostgREST 6 to 10: 404 `[]` for an update that met no row.
    case former
    /// A restarting database: 503 with `Retry-After: 0`.
    case http503
    /// The gateway's page.
    case html520
    /// A key that does not fit: 401 `PGRST301`.
    case unauthorized
    /// RST before a byte of the answer; nothing is applied.
    case reset
    /// RST before a byte of the answer, and the update was applied: its outcome is unknown to the sender.
    case applyAndReset
    /// Says that it applied, and does not. No store does; it stands for a sender that forgets.
    case lie
  }

  /// The names of the table and of the columns that the double has to understand.
  package struct Layout: Sendable {
    package var table = "profiles"
    package var id = "id"
    package var version = "subscription_version"
    /// Every column there is; a write to another is refused with `PGRST204`.
    package var columns: Set<String> = [
      "id", "subscription_tier", "subscription_status", "subscription_expires_at", "original_transaction_id",
      "subscription_version",
    ]

    package init() {}
  }

  /// One update as it was applied.
  package struct Applied: Sendable {
    package var user: String
    /// The columns that were written, in JSON's values.
    package var values: [String: Cell]
    package var at: ContinuousClock.Instant
  }

  /// `http://127.0.0.1:PORT`, which stays the same while the store refuses connections.
  package let url: String

  struct State {
    var mode: Mode = .ok
    var rows: [String: [String: Cell]] = [:]
    var missing: Set<String> = []
    var applied: [Applied] = []
    var requests = 0
    var underWay = 0
    var held: [TestRequest] = []
    var notUnderstood: [String] = []
    var server: RawTLSServer?
  }

  let layout: Layout
  let state: Mutex<State>
  /// The store's own while it is down too: another test's store must not answer in its place.
  private let port: ReservedPort

  /// Starts on a free port of 127.0.0.1.
  package static func start(layout: Layout = Layout()) async throws -> ProfileStoreDouble {
    let store = ProfileStoreDouble(layout: layout, port: try ReservedPort())
    try await store.accept()
    return store
  }

  private init(layout: Layout, port: ReservedPort) {
    self.layout = layout
    self.port = port
    url = "http://127.0.0.1:\(port.number)"
    state = Mutex(State())
  }

  /// Starts a store, runs `body`, stops the store.
  package static func running<Result: Sendable>(
    layout: Layout = Layout(), during body: @Sendable (ProfileStoreDouble) async throws -> Result
  ) async throws -> Result {
    let store = try await start(layout: layout)
    do {
      let result = try await body(store)
      await store.stop()
      return result
    } catch {
      await store.stop()
      throw error
    }
  }

  package func set(_ mode: Mode) { state.withLock { $0.mode = mode } }

  /// Takes connections; they are taken from the start.
  package func accept() async throws {
    let server = try await RawTLSServer.start(identity: nil, port: port.number) { [self] in try await answer(on: $0) }
    state.withLock { $0.server = server }
  }

  /// Closes the port and every connection: the store is down.
  package func refuse() async {
    let server = state.withLock { state in
      defer { state.server = nil }
      return state.server
    }
    await server?.stop()
  }

  package func stop() async { await refuse() }

  /// Carries out what was held back, in the order of its arrival.
  package func carryOutHeld() {
    let held = state.withLock { state in
      defer { state.held = [] }
      return state.held
    }
    for request in held { _ = respond(to: request) }
  }

  /// The user has no row from now on.
  package func remove(_ user: String) {
    state.withLock { state in
      state.rows[user] = nil
      state.missing.insert(user)
    }
  }

  /// The user has a blank row again.
  package func restore(_ user: String) { state.withLock { _ = $0.missing.remove(user) } }

  /// Overwrites a row, as nobody should.
  package func overwrite(_ user: String, with values: [String: Cell]) {
    state.withLock { state in state.apply(values, to: user) }
  }

  /// The row of a user that was written to.
  package func row(_ user: String) -> [String: Cell]? { state.withLock { $0.rows[user] } }
  package var rows: [String: [String: Cell]] { state.withLock { $0.rows } }
  /// Every update, in the order of application.
  package var applied: [Applied] { state.withLock { $0.applied } }
  /// Requests of any kind, whatever was answered.
  package var requests: Int { state.withLock { $0.requests } }
  /// Requests that were read, and are neither answered nor given up.
  package var underWay: Int { state.withLock { $0.underWay } }
  /// The requests that were answered 501.
  package var notUnderstood: [String] { state.withLock { $0.notUnderstood } }

  private func answer(on connection: RawConnection) async throws {
    while let request = await connection.readRequest() {
      let mode = state.withLock { state in
        state.requests += 1
        state.underWay += 1
        return state.mode
      }
      defer { state.withLock { $0.underWay -= 1 } }
      switch mode {
      case .ok: try await connection.write(respond(to: request))
      case .former:
        var answer = respond(to: request)
        if request.method == "PATCH", answer.body.elementsEqual("[]".utf8) { answer.status = 404 }
        try await connection.write(answer)
      case .slow(let duration):
        try await Task.sleep(for: duration)
        try await connection.write(respond(to: request))
      case .hang: await connection.waitForClose()
      case .hold:
        state.withLock { $0.held.append(request) }
        await connection.waitForClose()
      case .http500: try await connection.write(.problem(500, code: "XX000", message: "internal error"))
      case .http503: try await connection.write(.databaseAway)
      case .html520: try await connection.write(.gatewayPage)
      case .unauthorized: try await connection.write(.wrongKey)
      case .reset: return await connection.reset()
      case .applyAndReset:
        _ = respond(to: request)
        return await connection.reset()
      case .lie: try await connection.write(respond(to: request, applying: false))
      }
    }
  }
}

extension ProfileStoreDouble.State {
  mutating func apply(_ values: [String: Cell], to user: String) {
    rows[user, default: [:]].merge(values) { $1 }
    applied.append(ProfileStoreDouble.Applied(user: user, values: values, at: .now))
  }
}
