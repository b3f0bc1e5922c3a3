import Entitlements
package import Logging
import Resilience
import ServiceLifecycle

/// Takes up a renewed certificate of the server's, without a restart.
///
/// It looks at the files instead of waiting for a signal: nobody sends one where they are mounted, as in Kubernetes.
package struct CertificateWatch: Service {
  package var identities: ServerIdentities
  package var logger: Logger
  package var pause: Duration

  package init(identities: ServerIdentities, logger: Logger, pause: Duration) {
    self.identities = identities
    self.logger = logger
    self.pause = pause
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      var lastProblem: String?
      await repeatUntilCancelled {
        switch identities.look() {
        case .same: lastProblem = nil
        case .renewed(let end):
          lastProblem = nil
          logger.notice("the server's certificate was renewed", metadata: ["ends": "\(end.rfc3339)"])
        case .unusable(let problem):
          // Once for each problem: it may last.
          if problem != lastProblem {
            logger.error("the server's new certificate cannot be used", metadata: ["finding": "\(problem)"])
          }
          lastProblem = problem
        }
        return pause
      }
    }
  }
}
