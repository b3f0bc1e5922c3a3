import Entitlements
import Foundation
import Ledger
import Logging
import Synchronization
import Testing

@testable import Validation

/// Jobs that ask Apple about claimed pieces.
@Suite struct LeasedJobTests {
  private let kept = Pieces()

  /// Five pieces, in the order in which they are due. The first three are the sandbox's.
  private final class Pieces: Sendable {
    let due = Mutex([1, 2, 3, 4, 5])
    let leased = Mutex<Set<Int>>([])
    let followed = Mutex<[Int]>([])

    static func environment(of piece: Int) -> StoreEnvironment { piece <= 3 ? .sandbox : .production }
  }

  private struct Job: LeasedJob {
    static let width = 2
    static let pieces = "pieces"

    var kept: Pieces
    var logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    var now: @Sendable () -> Date = { Date(timeIntervalSince1970: 1_718_452_800.123456789) }
    var deadline = Duration.seconds(10)
    var isAway: @Sendable (StoreEnvironment) -> Bool = { _ in false }
    var pause = Duration.seconds(1)
    var outcome: @Sendable (Int) throws(LedgerError) -> Following

    func claim(
      in environment: StoreEnvironment?, until lease: Date, limit: Int
    ) async throws(LedgerError) -> [Int] {
      let leased = kept.leased.withLock { $0 }
      let claimed = kept.due.withLock { due in
        due.filter { !leased.contains($0) && [nil, Pieces.environment(of: $0)].contains(environment) }.prefix(limit)
      }
      kept.leased.withLock { $0.formUnion(claimed) }
      return Array(claimed)
    }

    func giveBack(_ pieces: [Int], claimedUntil lease: Date) async throws(LedgerError) {
      kept.leased.withLock { $0.subtract(pieces) }
    }

    func follow(_ piece: Int, claimedUntil lease: Date) async throws(LedgerError) -> Following {
      let following = try outcome(piece)
      if following == .followed {
        kept.due.withLock { $0.removeAll { $0 == piece } }
        kept.followed.withLock { $0.append(piece) }
      }
      return following
    }
  }

  @Test func `a piece that cannot be read holds up no other`() async {
    let job = Job(kept: kept) { piece throws(LedgerError) in
      if piece == 1 { throw .unavailable("unreadable") }
      return .followed
    }
    for _ in 0..<5 { _ = await job.sweep(limit: 2) }
    #expect(kept.followed.withLock { $0.sorted() } == [2, 3, 4, 5])
    #expect(kept.due.withLock { $0 } == [1] && kept.leased.withLock { $0.contains(1) }, "due again after its lease")
  }

  @Test func `while one store is away the other's pieces are followed`() async {
    let job = Job(kept: kept, isAway: { $0 == .sandbox }) { piece throws(LedgerError) in
      Pieces.environment(of: piece) == .sandbox ? .away : .followed
    }
    #expect(await job.sweep(limit: 2) == 2)
    #expect(kept.followed.withLock { $0.sorted() } == [4, 5] && kept.leased.withLock { $0 } == [4, 5])
  }

  @Test func `while both stores are away nothing is claimed`() async {
    #expect(await Job(kept: kept, isAway: { _ in true }) { _ in .away }.sweep(limit: 2) == nil)
    #expect(kept.leased.withLock { $0.isEmpty })
  }

  @Test func `while Apple is away each piece is given back`() async {
    let job = Job(kept: kept) { _ in .away }
    #expect(await job.sweep(limit: 2) == nil)
    #expect(kept.leased.withLock { $0.isEmpty } && kept.followed.withLock { $0.isEmpty })
  }

  @Test func `a release of the rules review at one replica outlives what another writes down`() async throws {
    try await UseCase.run(isShared: true) { use in
      let rules = use.validator.gateway.rules
      let one = try await RulesReview.restored(from: use.ledger, rules: rules)
      let other = try await RulesReview.restored(from: use.ledger, rules: rules)
      await one.release(UseCase.logger)
      await other.keep(UseCase.logger)
      #expect(other.place(at: UseCase.start)?.isReleased == true)
      let restarted = try await RulesReview.restored(from: use.ledger, rules: rules)
      #expect(restarted.place(at: UseCase.start)?.isReleased == true)
    }
  }
}
