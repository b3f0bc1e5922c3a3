import Ledger
import Logging
import Resilience
import ServiceLifecycle

/// The job that knows the other replicas of a shared ledger: it says that this one lives, divides the pace of calls to
/// Apple by those that do, and learns what was decided elsewhere.
package struct ReplicaWatch: Service {
  let ledger: Ledger
  let pacer: Pacer
  let brake: DowngradeBrakeService
  let review: RulesReview
  /// A word of this process's own.
  let replica: String
  /// The operator's name for it, such as the host's.
  let name: String
  let logger: Logger

  /// A replica that has not been heard of for three of these is counted no more.
  static let interval: Duration = .seconds(5)

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      var alive = 1
      await repeatUntilCancelled {
        await look(&alive)
        return Self.interval
      }
    }
    try? await ledger.leave(replica: replica)
  }

  /// Beats once.
  /// - Parameter alive: the number of replicas at the last beat.
  func look(_ alive: inout Int) async {
    do throws(LedgerError) {
      let count = try await ledger.beat(replica: replica, name: name)
      pacer.share(among: count)
      if count != alive {
        logger.notice("the number of replicas has changed", metadata: ["replicas": .stringConvertible(count)])
      }
      alive = count
    } catch {
      logger.warning("the sign of life of this replica cannot be recorded", metadata: ["error": "\(error)"])
      return
    }
    await brake.synchronize(logger)
    await review.synchronize(logger)
  }
}
