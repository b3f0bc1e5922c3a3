import Entitlements
package import HTTPTransport
import JSON
import Synchronization

/// Profiles behind PostgREST: a Supabase project, or a self-hosted server.
///
///     PATCH /profiles?id=eq.U&subscription_version=lt.N&select=…   {tier, status, …, version: N}
///       200 [row]   applied
///       200 []      GET the row:  no row → no such profile;  version < N → once more;
///                                 version = N and our values → applied, the response was lost;
///                                 version ≥ N otherwise → superseded
///       404 []      the same as 200 [], of PostgREST 6 to 10
///       400 22P02 … GET the row:  the same → no row can have this ID;  otherwise another value is refused
///
/// Without a version column every update is written, so updates have to come in order; `200 []` is then no such
/// profile.
///
/// Only codes of the store's responses are passed on: its messages quote rows.
package final class PostgRESTProfileStore: ProfileStore {
  /// The time for which PostgREST may serve its cached schema after a migration. Supabase reloads within seconds.
  static let schemaCacheGrace = Duration.seconds(60)

  private let requests: PostgRESTRequests
  private let key: PostgRESTKey
  private let transport: any Transport
  private let now: @Sendable () -> ContinuousClock.Instant
  /// The beginning of the unbroken series of responses with an unknown table or column.
  private let schemaUnknownSince = Mutex<ContinuousClock.Instant?>(nil)

  /// - Parameter transport: sends to `configuration.url` only, and has to allow `http` for a store without TLS.
  package init(
    _ configuration: Configuration, transport: any Transport,
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    requests = PostgRESTRequests(configuration: configuration)
    key = PostgRESTKey.kind(of: configuration.key)
    self.transport = transport
    self.now = now
  }

  // MARK: - ProfileStore

  package var refusesOlder: Bool { requests.configuration.columns.version != nil }

  package func apply(_ update: ProfileUpdate, deadline: ContinuousClock.Instant) async -> ProfileWriteOutcome {
    do throws(PostgRESTFailure) {
      try checkKey()
      // A row may appear, or lose its version, between our two requests; not twice in a row.
      for _ in 1...2 {
        if let outcome = try await write(update, deadline: deadline) { return outcome }
      }
      throw PostgRESTFailure(.unavailable, "race", "The row changed each time between writing and reading it")
    } catch {
      return outcome(of: error)
    }
  }

  /// Writes to no row, then reads any row: missing privileges fail the first, row level security hides the rows of the
  /// second.
  package func check(deadline: ContinuousClock.Instant) async -> ProfileStoreCheck {
    do throws(PostgRESTFailure) {
      try checkKey()
      guard try await rows(requests.writeNothing(), deadline: deadline).isEmpty else {
        throw PostgRESTFailure(
          .misconfigured, "filter_ignored",
          "The profile store does not heed conditions; is profile_store.url PostgREST's?")
      }
      // A new project has no profiles yet. An empty result is then accepted for a key that bypasses row level security.
      let row = try await rows(requests.readAny(), deadline: deadline).first
      if row == nil, key != .service {
        throw PostgRESTFailure(
          .misconfigured, ProfileStoreTrouble.noRowsVisible,
          "Our key sees no profile: row level security hides them from its role, or there is none yet")
      }
      if refusesOlder, row?.version == .unreadable { throw .versionType }
      return .ok
    } catch {
      switch error.kind {
      // An operator asked, and would rather know at once.
      case .refused, .misconfigured, .schemaCache: return .misconfigured(error.trouble)
      case .unavailable: return .unavailable(error.trouble)
      }
    }
  }

  // MARK: - One update

  /// Writes, and determines the reason if no row was written.
  ///
  /// - Returns: `nil` if the row was older after all.
  private func write(
    _ update: ProfileUpdate, deadline: ContinuousClock.Instant
  ) async throws(PostgRESTFailure) -> ProfileWriteOutcome? {
    let hasVersion = refusesOlder
    let written: [ProfileRow]
    do throws(PostgRESTFailure) {
      written = try await rows(requests.write(update), deadline: deadline)
    } catch {
      guard error.isAboutValue, let trouble = try await troubleWithID(of: update.user, deadline: deadline) else {
        throw error
      }
      return .impossibleUserID(trouble)
    }
    if let row = try single(written) {
      guard row.shows(update), !hasVersion || row.version == .number(update.version) else {
        throw PostgRESTFailure(
          .misconfigured, ProfileStoreTrouble.changedByStore,
          "The profile store took the update and changed it; a trigger or generated column keeps our values out")
      }
      return .applied
    }
    guard hasVersion else { return .noSuchProfile }

    guard let row = try single(await rows(requests.read(update.user), deadline: deadline)) else {
      return .noSuchProfile
    }
    switch row.version {
    case .null:
      throw PostgRESTFailure(
        .refused, "version_is_null", "The version of this row is null, which is never lower; make it NOT NULL DEFAULT 0"
      )
    case .unreadable:
      throw .versionType
    case .number(update.version) where row.shows(update): return .applied
    case .number(let version): return version >= update.version ? .superseded(by: version) : nil
    }
  }

  /// Whether the database cannot convert the ID: the only value in a request that reads the row.
  private func troubleWithID(
    of user: UserID, deadline: ContinuousClock.Instant
  ) async throws(PostgRESTFailure) -> ProfileStoreTrouble? {
    do throws(PostgRESTFailure) {
      _ = try await rows(requests.read(user), deadline: deadline)
      return nil
    } catch {
      guard error.isAboutValue else { throw error }
      return ProfileStoreTrouble(
        code: error.trouble.code,
        sentence: "The user ID cannot be one of the profile store's: its id column is of another type, such as uuid")
    }
  }

  private func single(_ rows: [ProfileRow]) throws(PostgRESTFailure) -> ProfileRow? {
    guard rows.count <= 1 else {
      throw PostgRESTFailure(
        .refused, "several_rows", "More than one row has this user ID; make the id column of the store unique")
    }
    return rows.first
  }

  /// During a migration, an unknown column is treated as temporary.
  private func outcome(of failure: PostgRESTFailure) -> ProfileWriteOutcome {
    switch failure.kind {
    case .refused: return .refused(failure.trouble)
    case .misconfigured: return .misconfigured(failure.trouble)
    case .unavailable: return .unavailable(failure.trouble, retryAfter: failure.retryAfter)
    case .schemaCache:
      let now = now()
      let since = schemaUnknownSince.withLock { since in
        since = since ?? now
        return since ?? now
      }
      return now - since < Self.schemaCacheGrace
        ? .unavailable(failure.trouble, retryAfter: failure.retryAfter) : .misconfigured(failure.trouble)
    }
  }

  // MARK: - Requests

  /// Refuses a public key before it is sent: anybody may do what it may do.
  private func checkKey() throws(PostgRESTFailure) {
    guard key == .everybodys else { return }
    throw PostgRESTFailure(
      .misconfigured, "public_key",
      "profile_store.key is the key of the app's users (anon, authenticated or publishable); a secret key is needed")
  }

  private func rows(
    _ request: TransportRequest, deadline: ContinuousClock.Instant
  ) async throws(PostgRESTFailure) -> [ProfileRow] {
    let response: TransportResponse
    do throws(TransportError) {
      response = try await transport.send(request, deadline: deadline)
    } catch {
      throw PostgRESTFailure(error)
    }
    guard response.status == 200 || response.status == 404 && response.body.elementsEqual("[]".utf8) else {
      throw PostgRESTFailure(await .read(response))
    }
    let rows = try await ProfileRow.read(response.body, columns: requests.configuration.columns)
    schemaUnknownSince.withLock { $0 = nil }
    return rows
  }
}

/// The columns of one row in a response.
struct ProfileRow: Hashable, Sendable {
  enum Version: Hashable, Sendable {
    case number(Int64)
    case null
    case unreadable
  }

  let tier: String?
  let status: String?
  let version: Version

  func shows(_ update: ProfileUpdate) -> Bool { tier == update.tier.rawValue && status == update.status.rawValue }

  static func read(
    _ body: [UInt8], columns: PostgRESTProfileStore.Columns
  ) async throws(PostgRESTFailure) -> [ProfileRow] {
    do throws(JSONReader.Failure) {
      return try await JSONReader.shared.read(body, root: .any) { answer throws(JSONError) in
        guard answer.isArray else { throw .syntax }
        var rows: [ProfileRow] = []
        for element in answer.elements {
          guard element.isObject else { throw .syntax }
          rows.append(ProfileRow(element, columns: columns))
        }
        return rows
      }
    } catch {
      switch error {
      case .cancelled: throw PostgRESTFailure(.cancelled)
      case .json: throw .unreadable
      }
    }
  }

  private init(_ row: JSONValue, columns: PostgRESTProfileStore.Columns) {
    tier = Self.text(row[columns.tier.text])
    status = Self.text(row[columns.status.text])
    switch columns.version.flatMap({ row[$0.text]?.kind }) {
    case nil, .null: version = .null
    case .integer(let number): version = .number(number)
    case .object, .array, .string, .real, .bool: version = .unreadable
    }
  }

  /// Without the blanks with which PostgreSQL pads a `character(n)`.
  private static func text(_ value: JSONValue?) -> String? {
    guard case .string(var text) = value?.kind else { return nil }
    while text.last == " " { text.removeLast() }
    return text
  }
}
