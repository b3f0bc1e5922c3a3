import Ledger
import Logging
import Resilience
import ServiceLifecycle
import Synchronization

/// The job that knows the other replicas of a shared ledger: it says that this one lives, divides the pace of calls to
/// Apple by those that do, and learns what was decided elsewhere.
package final class ReplicaWatch: Service {
  private let ledger: Ledger
  private let pacer: Pacer
  private let brake: DowngradeBrakeService
  private let review: RulesReview
  private let replica: String
  private let name: String
  private let logger: Logger
  private let alive = Mutex(1)

  /// A replica that has not been heard of for three of these is counted no more.
  static let interval: Duration = .seconds(5)

  /// - Parameters:
  ///   - replica: a word of this process's own.
  ///   - name: what an operator calls it, such as the host's name.
  init(
    ledger: Ledger, pacer: Pacer, brake: DowngradeBrakeService, review: RulesReview, replica: String, name: String,
    logger: Logger
  ) {
    self.ledger = ledger
    self.pacer = pacer
    self.brake = brake
    self.review = review
    self.replica = replica
    self.name = name
    self.logger = logger
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await repeatUntilCancelled {
        await look()
        return Self.interval
      }
    }
    try? await ledger.leave(replica: replica)
  }

  /// Beats once.
  func look() async {
    do throws(LedgerError) {
      let count = try await ledger.beat(replica: replica, name: name)
      pacer.share(among: count)
      let former = alive.withLock { alive in
        defer { alive = count }
        return alive
      }
      if count != former {
        logger.notice("the number of replicas has changed", metadata: ["replicas": .stringConvertible(count)])
      }
    } catch {
      logger.warning("the sign of life of this replica cannot be recorded", metadata: ["error": "\(error)"])
      return
    }
    await brake.synchronize(logger)
    await review.synchronize(logger)
  }
}
