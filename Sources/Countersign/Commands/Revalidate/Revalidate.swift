import ArgumentParser
import CountersignAPI
import CountersignServer
import FoundationEssentials
import HTTPTransport
import UnixSignals

/// `countersign revalidate`
struct Revalidate: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Have the running service ask Apple again about subscriptions that end soon, and follow it.",
    discussion: """
      Starts a run in the service, or finds the one that is under way, and shows its \
      progress: a bar on a terminal, a line every half minute elsewhere. The service \
      does the work: after Ctrl-C, or a lost connection, the run continues, and the \
      same command finds it again. While the service restarts, the command waits up \
      to ten minutes.

      The command needs an API key of the role 'service', in COUNTERSIGN_API_KEY or in \
      the file that --key-file names. Over http:// the key can be read on the way: use \
      that only on one machine, or in a network that you trust.

      EXIT CODES
          0  all done, or nothing was due
          1  finished, but some failed: the service's log says why
          2  stopped by the downgrade brake: look into it, release it, run again
         64  wrong usage, or a request that the service refuses
         69  the service cannot be reached, or no longer; a run that has begun continues
         77  the service refuses the key
        130  interrupted by Ctrl-C, 143 by SIGTERM; the run continues

      EXAMPLES
        countersign revalidate --expiring-within 24h --key-file cron.key
        COUNTERSIGN_API_KEY=… countersign revalidate \\
          --expiring-within 24h --dry-run
        countersign revalidate --expiring-within 7d --limit 10000 --json
      """)

  @Option(name: .long, help: "Take subscriptions that end within this time: 24h, 7d, …; 0 takes only overdue ones.")
  var expiringWithin: String

  @Option(name: .long, help: "Take at most so many subscriptions, 1 to 100000; those that end first.")
  var limit: Int?

  @Flag(name: .long, help: "Only count what is due.")
  var dryRun = false

  @Flag(name: .long, help: "Print one JSON object at the end, and nothing else on standard output.")
  var json = false

  @Flag(name: .long, help: "Print nothing when all is well.")
  var quiet = false

  @OptionGroup var service: ServiceOptions

  func run() async throws {
    let environment = ProcessInfo.processInfo.environment
    let order = try self.order()
    let (client, transport) = try service.client(environment: environment)
    let follower = RunFollower(
      client: RunClient(service: client, idempotencyKey: RequestID.random()), display: display(environment))
    let (end, signal) = await untilInterrupted { await follower.run(order) }
    transport.shutdown()
    throw report(end, signal, client.url)
  }

  /// The last words, and the exit code for them.
  private func report(_ end: RunFollower.End, _ signal: UnixSignal?, _ origin: String) -> ExitCode {
    switch end {
    case .reported(let report):
      let code = Self.exitCode(report)
      if json {
        print(report.json)
      } else if !quiet || code != .success {
        print(RunText.summary(report))
      }
      return code
    case .lost(let failure, let last):
      if json, let last { print(last.json) }
      CommandOutput.error("\(origin): \(Self.sentence(failure))")
      if let id = last?.id { CommandOutput.error("run \(id) goes on by itself as soon as the service is there.") }
      return failure.exitCode
    case .interrupted(let last):
      if json, let last { print(last.json) }
      if let last, let id = last.id {
        CommandOutput.error(
          "interrupted; run \(id) goes on in the service (\(last.settled) of \(last.due)). "
            + "The same command shows its progress again.")
      } else {
        CommandOutput.error("interrupted before the service had answered; a run may have begun.")
      }
      return signal == .sigterm ? .terminated : .interrupted
    }
  }

  static func exitCode(_ report: ReceivedRun) -> ExitCode {
    switch report.state {
    case .dryRun: .success
    case .stopped: .stoppedByBrake
    default:
      report.heldBack > 0 ? .stoppedByBrake : report.failed > 0 ? .failure : .success
    }
  }

  private static func sentence(_ failure: ServiceClient.Failure) -> String {
    guard failure == .notFound else { return failure.sentence }
    return "there is no such run, or no such path; is it Countersign, with the same ledger?"
  }

  private func display(_ environment: [String: String]) -> RunDisplay {
    RunDisplay(
      style: quiet ? .silent : Terminal.isInteractive(environment: environment) ? .bar : json ? .silent : .lines,
      columns: { Terminal.columns }, output: { try? OpenFile.standardOutput.write(Array($0.utf8)) },
      error: { LogOutput.standardError.write($0) })
  }

  private func order() throws -> RunRequest {
    do throws(BadValue) {
      _ = try ValueForm.duration(RevalidationsController.expiringWithin).read(expiringWithin)
    } catch { throw CommandOutput.failure("--expiring-within \(error.sentence).", .usage) }
    let limits = RevalidationsController.limit
    if let limit, !limits.contains(limit) {
      throw CommandOutput.failure("--limit must be from \(limits.lowerBound) to \(limits.upperBound).", .usage)
    }
    return RunRequest(expiringWithin: expiringWithin, limit: limit, isDryRun: dryRun ? true : nil)
  }
}
