import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle
import struct FoundationEssentials.Date

/// A job that asks Apple about pieces that are due in the ledger. They are claimed for a time, and due again after it. While
/// Apple is away one is tried at a time, ever more rarely; the others follow without a pause when Apple is back. Pieces of a
/// store that is known to be away are not claimed, so that those of the other store do not wait behind them.
protocol LeasedJob: Service {
  associatedtype Piece: Sendable

  /// Pieces that are claimed and followed at the same time.
  static var width: Int { get }
  /// The pieces in the log.
  static var pieces: String { get }

  var logger: Logger { get }
  var now: @Sendable () -> Date { get }
  /// The time of a call to Apple.
  var deadline: Duration { get }
  /// Whether calls to a store are useless at the moment.
  var isAway: @Sendable (StoreEnvironment) -> Bool { get }
  var pause: Duration { get }

  /// - Parameter environment: that of the claimed pieces; `nil`: any.
  func claim(
    in environment: StoreEnvironment?, until lease: Date, limit: Int
  ) async throws(LedgerError) -> [Piece]
  func giveBack(_ pieces: [Piece], claimedUntil lease: Date) async throws(LedgerError)
  func follow(_ piece: Piece, claimedUntil lease: Date) async throws(LedgerError) -> Following
}

enum Following: Hashable {
  case followed
  /// It could not be read or recorded. It stays claimed, so that others come before it.
  case failed
  /// Apple or the ledger is unavailable, and the next one would have no answer either.
  case away
}

extension LeasedJob {
  func run() async throws {
    await cancelWhenGracefulShutdown {
      var failures = 0
      await repeatUntilCancelled {
        let isTrying = failures > 0
        let claimed = await sweep(limit: isTrying ? 1 : Self.width)
        failures = claimed == nil ? failures + 1 : 0
        if claimed == Self.width || isTrying && claimed == 1 { return nil }
        return Backoff(base: pause, cap: .seconds(10)).ceiling(after: failures)
      }
    }
  }

  /// - Returns: the number of claimed pieces; `nil` if Apple or the ledger is unavailable.
  func sweep(limit: Int) async -> Int? {
    let present = StoreEnvironment.allCases.filter { !isAway($0) }
    guard let environment = present.first else { return nil }
    let lease = now().advanced(by: .lease(of: deadline))
    do throws(LedgerError) {
      let due = try await claim(in: present.count == 1 ? environment : nil, until: lease, limit: limit)
      let outcomes = await mapConcurrently(due, width: Self.width, while: { $0 == .followed }) { piece -> Following in
        do throws(LedgerError) { return try await follow(piece, claimedUntil: lease) } catch {
          log(error)
          return .failed
        }
      }
      guard !outcomes.allSatisfy({ $0 == .followed }) || outcomes.count < due.count else { return due.count }
      let failed = Set(outcomes.indices.filter { outcomes[$0] == .failed })
      try await giveBack(due.indices.filter { !failed.contains($0) }.map { due[$0] }, claimedUntil: lease)
    } catch { log(error) }
    return nil
  }

  private func log(_ error: LedgerError) {
    logger.warning("\(Self.pieces) cannot be read or recorded", metadata: ["error": "\(error)"])
  }
}

extension Duration {
  /// The time of a claim: twice that of a call, as each waits for its turn.
  static func lease(of deadline: Duration) -> Duration { deadline * 2 + .seconds(30) }
}

extension Backoff {
  /// Whether a pause until a moment is under way. One that would last longer than any was begun by a wrong clock.
  func isResting(until end: Date, at now: Date) -> Bool { now < end && end <= now.advanced(by: cap) }
}
