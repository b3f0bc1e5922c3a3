import ArgumentParser
import CountersignServer
import FoundationEssentials
import Glibc
import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

/// `countersign serve`
struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Run the service.",
    discussion: """
      Runs until SIGTERM or SIGINT, then finishes the requests it has accepted. SIGHUP makes it read the configuration \
      again: API keys, public keys, the keys of access tokens, and the secrets of webhooks and RevenueCat apply at once, \
      everything else from the next start.
      Exit codes: 0 stopped as requested, 1 cannot start (the ledger, the port), 74 the ledger's disk failed, 78 the \
      configuration is wrong, or its catalog would take something from too many users.

      EXAMPLES
        countersign serve --config countersign.yaml
        COUNTERSIGN_SERVER_PORT=0 countersign serve --config countersign.yaml

      CONFIGURATION
        server.port is the key port under server in the file, and
        COUNTERSIGN_SERVER_PORT in the environment, which wins.

      \(ConfigurationReference.plainText())
      """)

  @OptionGroup var options: ConfigurationOptions

  func run() async throws {
    // A thread more than there are processors only takes turns with the others. To be set before anybody asks for it.
    if let count = ProcessorCount.allowed {
      NIOSingletons.groupLoopCountSuggestion = min(count, System.coreCount)
    }
    let hadTerminal = Terminal.isThere
    // From the first moment on: untrapped, it would end the process.
    let hangups = await UnixSignalsSequence(trapping: .sighup)
    let configuration = try options.load(requiresCredential: true)
    // A reader of the log that goes away is no reason to stop.
    signal(SIGPIPE, SIG_IGN)
    Self.leaveNoCore()
    configuration.log.bootstrap()
    let logger = Logger(label: "countersign")
    let service: CountersignApplication
    do throws(StartError) {
      service = try await buildApplication(
        configuration,
        environment: ServiceEnvironment(
          logger: logger,
          ledgerFailed: { problem in
            logger.critical(
              "the ledger's disk failed: the service stops, and recovers at the next start",
              metadata: ["problem": "\(problem)"])
            // At once: what is in flight was not acknowledged, and nothing may be written after a failed fsync.
            _exit(ExitCode.ioError.rawValue)
          },
          onListening: { address in
            logger.info("listening", metadata: address.logMetadata)
            if Terminal.isInteractive(environment: ProcessInfo.processInfo.environment) {
              let scheme = configuration.server.tls == nil ? "http" : "https"
              CommandOutput.status(address.welcome(scheme: scheme))
            }
            Task {
              // The start goes on after this: background jobs make their first round.
              try? await Task.sleep(for: .seconds(1))
              ProgramPages.giveBack()
            }
          },
          onAdminListening: { address in
            logger.info("listening for operators", metadata: address.logMetadata)
          },
          reload: ConfigurationReload.Source(
            signals: hangups,
            isTerminalGone: {
              guard hadTerminal, !Terminal.isThere else { return false }
              kill(getpid(), SIGTERM)
              return true
            },
            load: { [file = options.config] () throws(ConfigurationError) in
              try ServiceConfiguration.load(file: file, environment: ProcessInfo.processInfo.environment)
            })))
    } catch {
      throw CommandOutput.failure(error.description, error.isConfiguration ? ExitCode.configuration : ExitCode.failure)
    }
    var lifecycle = ServiceGroupConfiguration(
      services: [service], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
    lifecycle.maximumGracefulShutdownDuration = configuration.server.shutdownGrace
    do {
      try await ServiceGroup(configuration: lifecycle).run()
    } catch let error as ListeningError {
      throw CommandOutput.failure(error.description)
    }
    logger.info("stopped")
  }

  /// A core file would have receipts and secrets in it. Whoever needs one can raise the limit of the running process
  /// (`prlimit --core`).
  private static func leaveNoCore() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = 0
    setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
  }
}

extension SocketAddress {
  fileprivate var logMetadata: Logger.Metadata {
    ["host": "\(ipAddress ?? "unknown")", "port": .stringConvertible(port ?? 0)]
  }

  /// The next steps, for whoever started the service by hand.
  fileprivate func welcome(scheme: String) -> String {
    let origin = localOrigin(scheme: scheme, host: ipAddress ?? "localhost", port: port ?? 0)
    return "Post purchases to \(origin)/v1/validations; staff open \(origin)/support. Ctrl-C ends the service.\n"
  }
}
