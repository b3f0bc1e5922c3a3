import Entitlements
import FoundationEssentials
import HTTPTransport
import Profiles
import Testing

extension ProfileStoreContract {
  package func run(_ scenario: Scenario) async throws {
    switch scenario {
    case .checkIsOK: try await checkIsOK()
    case .applies: try await applies()
    case .supersedesOlder: try await supersedesOlder()
    case .takesTheSameAgain: try await takesTheSameAgain()
    case .clearsExpiry: try await clearsExpiry()
    case .knowsNoSuchProfile: try await knowsNoSuchProfile()
    case .staysWithinOneRow: try await staysWithinOneRow()
    case .takesTheHighest: try await takesTheHighest()
    case .sharesTransactions: try await sharesTransactions()
    case .refusesBadTier: try await refusesBadTier()
    case .refusesWrongKey: try await refusesWrongKey()
    case .tellsMissingTable: try await tellsMissingTable()
    case .writesWithoutVersion: try await writesWithoutVersion()
    }
  }

  // MARK: - Scenarios

  private func checkIsOK() async throws {
    let users = try await rows.fresh(2)
    let before = try await seen(users)
    #expect(await store().check(deadline: deadline) == .ok)
    #expect(try await seen(users) == before)
  }

  private func applies() async throws {
    let (user, other) = try await pair()
    let update = pro(user, version: 1_767_225_600_123)
    #expect(await apply(update) == .applied)
    #expect(try await rows.row(of: user) == row(update))
    #expect(try await rows.row(of: other) == Self.untouched)
  }

  private func supersedesOlder() async throws {
    let (user, _) = try await pair()
    let newer = pro(user, version: 200)
    #expect(await apply(newer) == .applied)
    #expect(await apply(free(user, version: 199)) == .superseded(by: 200))
    #expect(try await rows.row(of: user) == row(newer))
    let newest = free(user, version: 201)
    #expect(await apply(newest) == .applied)
    #expect(try await rows.row(of: user) == row(newest))
  }

  private func takesTheSameAgain() async throws {
    let (user, _) = try await pair()
    let update = pro(user, version: 300)
    #expect(await apply(update) == .applied)
    #expect(await apply(update) == .applied)
    #expect(try await rows.row(of: user) == row(update))
  }

  private func clearsExpiry() async throws {
    let (user, _) = try await pair()
    #expect(await apply(pro(user, version: 1)) == .applied)
    let cleared = free(user, version: 2)
    #expect(await apply(cleared) == .applied)
    #expect(try await rows.row(of: user) == row(cleared))
  }

  private func knowsNoSuchProfile() async throws {
    let nobody = UserID(UUID().uuidString.lowercased())
    #expect(await apply(pro(nobody, version: 1)) == .noSuchProfile)
    #expect(try await rows.row(of: nobody) == nil)
  }

  /// IDs that would change other rows, or none of the right ones, were they not encoded.
  private static let oddUsers: [UserID] = [
    #"a,b"c.(d)&e%*+"#, "x&id=not.is.null", "*", "a b+c%2B", "(select)", "null", "ü 🚲 \u{1}\n", "eq.x", "\\\"';--",
  ]

  private func staysWithinOneRow() async throws {
    let users = try await rows.fresh(2)
    let before = try await seen(users)
    for user in Self.oddUsers {
      let update = ProfileUpdate(
        user: user, version: 10, tier: "pro", status: .active, expiresAt: nil, originalTransactionID: nil)
      if rows.idsAreUUIDs {
        guard case .impossibleUserID(let trouble) = await apply(update) else {
          Issue.record("not refused, though it is no UUID")
          continue
        }
        #expect(trouble.code == "22P02")
      } else {
        #expect(await apply(update) == .noSuchProfile)
        try await rows.insert(user)
        #expect(await apply(update) == .applied)
        #expect(try await rows.row(of: user) == row(update))
      }
    }
    #expect(try await seen(users) == before)
  }

  private func takesTheHighest() async throws {
    let (user, _) = try await pair()
    let versions = (1...40).map { Int64($0 * 7) }
    let outcomes = await withTaskGroup(of: ProfileWriteOutcome.self) { group in
      for version in versions.shuffled() {
        group.addTask { await insist(version % 2 == 0 ? pro(user, version: version) : free(user, version: version)) }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(
      outcomes.allSatisfy {
        switch $0 {
        case .applied, .superseded: true
        default: false
        }
      }, "\(Set(outcomes))")
    #expect(outcomes.contains(.applied))
    // The highest may have come last by chance.
    #expect(await insist(free(user, version: 273)) == .superseded(by: 280))
    #expect(try await rows.row(of: user) == row(pro(user, version: 280)))
  }

  private func sharesTransactions() async throws {
    let (loser, winner) = try await pair()
    #expect(await apply(pro(loser, version: 5, transaction: "contract-1")) == .applied)
    let won = pro(winner, version: 6, transaction: "contract-1")
    let outcome = await apply(won)
    if case .refused(let trouble) = outcome {
      #expect(trouble.code == "23505")
      #expect(!"\(trouble)".contains("contract-1"))
      #expect(try await rows.row(of: winner) == Self.untouched)
    } else {
      #expect(outcome == .applied)
      #expect(try await rows.row(of: winner) == row(won))
    }
    #expect(await apply(free(loser, version: 7)) == .applied)
    #expect(await apply(won) == .applied)
    #expect(try await rows.row(of: winner) == row(won))
  }

  private func refusesBadTier() async throws {
    let (user, _) = try await pair()
    var update = pro(user, version: 5)
    update.tier = "no-such-tier"
    guard case .refused(let trouble) = await apply(update) else {
      Issue.record("the table took the tier no-such-tier")
      return
    }
    // A check, an enum, or a foreign key to a table of tiers.
    #expect(["23514", "22P02", "23503"].contains(trouble.code))
    #expect(!"\(trouble)".contains("no-such-tier"))
    #expect(try await rows.row(of: user) == Self.untouched)
  }

  private func refusesWrongKey() async throws {
    let (user, _) = try await pair()
    for key in wrongKeys {
      let store = store { $0.key = key }
      for refused in [
        await store.check(deadline: deadline).trouble, await apply(pro(user, version: 9), to: store).trouble,
      ] {
        let trouble = try #require(refused, "a wrong key was taken, or the store is away")
        #expect(!"\(trouble)".contains(key.exposed))
      }
    }
    #expect(try await rows.row(of: user) == Self.untouched)
  }

  private func tellsMissingTable() async throws {
    let (user, _) = try await pair()
    let name = try #require(PostgRESTName("no_such_name"))
    let stores = [
      store { $0.table = name }, store { $0.columns.tier = name }, store { $0.columns.id = name },
      store { $0.columns.version = name }, store { $0.schema = name },
    ]
    for store in stores {
      guard case .misconfigured = await store.check(deadline: deadline) else {
        Issue.record("a name that is not there was not noticed")
        continue
      }
      let outcome = await apply(pro(user, version: 9), to: store)
      switch outcome {
      // The first for a minute only: PostgREST may be about to learn the name.
      case .unavailable(let trouble, _): #expect(trouble.code.hasPrefix("PGRST20"))
      case .misconfigured: break
      case .applied, .superseded, .noSuchProfile, .impossibleUserID, .refused: Issue.record("\(outcome)")
      }
    }
    #expect(try await rows.row(of: user) == Self.untouched)
  }

  private func writesWithoutVersion() async throws {
    let (user, _) = try await pair()
    let store = store { $0.columns.version = nil }
    #expect(await store.check(deadline: deadline) == .ok)
    for update in [pro(user, version: 2), free(user, version: 1)] {
      #expect(await apply(update, to: store) == .applied)
      var expected = row(update)
      expected.version = 0
      #expect(try await rows.row(of: user) == expected)
    }
    #expect(await apply(pro(UserID(UUID().uuidString.lowercased()), version: 1), to: store) == .noSuchProfile)
  }

  // MARK: - Parts

  static let untouched = ProfileRowSeen(
    tier: "free", status: "active", expiresAt: nil, originalTransactionID: nil, version: 0)

  private var deadline: ContinuousClock.Instant { .now + patience }

  private func store(
    _ change: (inout PostgRESTProfileStore.Configuration) -> Void = { _ in }
  ) -> PostgRESTProfileStore {
    var configuration = configuration
    change(&configuration)
    return PostgRESTProfileStore(configuration, transport: transport)
  }

  private func apply(_ update: ProfileUpdate, to other: PostgRESTProfileStore? = nil) async -> ProfileWriteOutcome {
    await (other ?? store()).apply(update, deadline: deadline)
  }

  /// A gateway may turn away some of many at once, or break off: then the update is sent again, as it always may be.
  private func insist(_ update: ProfileUpdate) async -> ProfileWriteOutcome {
    for _ in 1...9 {
      let outcome = await apply(update)
      guard case .unavailable = outcome else { return outcome }
    }
    return await apply(update)
  }

  private func pair() async throws -> (UserID, UserID) {
    let users = try await rows.fresh(2)
    return (try #require(users.first), try #require(users.last))
  }

  private func seen(_ users: [UserID]) async throws -> [ProfileRowSeen?] {
    var seen: [ProfileRowSeen?] = []
    for user in users { seen.append(try await rows.row(of: user)) }
    return seen
  }

  private func pro(_ user: UserID, version: Int64, transaction: OriginalTransactionID? = nil) -> ProfileUpdate {
    // One transaction ID a user, as no two rows may have the same.
    ProfileUpdate(
      user: user, version: version, tier: "pro", status: .gracePeriod,
      expiresAt: Date(millisecondsSince1970: 1_798_761_599_007),
      originalTransactionID: transaction ?? OriginalTransactionID("contract \(user)"))
  }

  private func free(_ user: UserID, version: Int64) -> ProfileUpdate {
    ProfileUpdate(
      user: user, version: version, tier: "free", status: .active, expiresAt: nil, originalTransactionID: nil)
  }

  private func row(_ update: ProfileUpdate) -> ProfileRowSeen {
    ProfileRowSeen(
      tier: update.tier.rawValue, status: update.status.rawValue,
      expiresAt: update.expiresAt?.millisecondsSince1970,
      originalTransactionID: update.originalTransactionID?.rawValue, version: update.version)
  }
}

extension ProfileStoreCheck {
  /// The trouble that has to be mended.
  fileprivate var trouble: ProfileStoreTrouble? {
    if case .misconfigured(let trouble) = self { trouble } else { nil }
  }
}

extension ProfileWriteOutcome {
  /// The trouble that has to be mended.
  fileprivate var trouble: ProfileStoreTrouble? {
    if case .misconfigured(let trouble) = self { trouble } else { nil }
  }
}
