import ArgumentParser
import Dispatch
import FoundationEssentials
import Glibc
import Logging

/// `app-store-simulator serve`: listens until it is stopped.
struct ServeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Answer verifyReceipt, the Server API and DeviceCheck until SIGTERM or SIGINT.",
    discussion: """
      Prints one line of JSON on standard output when it listens:
        {"production_url":"…","sandbox_url":"…","control_url":"…","root_file":"…",
         "server_api_url":"…","server_api_sandbox_url":"…",
         "server_api_key_id":"…","server_api_issuer_id":"…",
         "device_check_url":"…","device_check_development_url":"…",
         "device_check_key_id":"…","device_check_team_id":"…"}

      EXAMPLES
        app-store-simulator serve --port 8443 --control-port 8444 \\
          --root-out root.pem
        app-store-simulator serve --clock 2026-01-15T12:00:00Z \\
          --ready-file ready.json --exit-with-parent
        app-store-simulator serve --server-api-key-out key.p8 \\
          --device-check-key-out device-check.p8 \\
          --notify http://127.0.0.1:8080/v1/notifications/app-store
      """)

  @Option(help: "The address of both environments' listener.")
  var host = "127.0.0.1"

  @Option(help: "The TLS port of both environments; 0 takes a free one.")
  var port = 0

  @Option(help: "The control API's port; 0 takes a free one.")
  var controlPort = 0

  @Option(help: "The control API's address. Whoever reaches it can move the clock and issue receipts.")
  var controlHost = "127.0.0.1"

  @Option(help: "The shared secret that receipts with subscriptions need.")
  var sharedSecret = Simulator.Configuration.defaultSharedSecret

  @Option(help: "The time at which the clock stands still, RFC 3339; by default it runs.", transform: Timestamp.parse)
  var clock: Timestamp?

  @Option(help: "The file for the root certificates; by default a temporary one.")
  var rootOut: String?

  @Option(help: "The file for the signing key of callers of the Server API (.p8).")
  var serverAPIKeyOut: String?

  @Option(help: "The file for the signing key of callers of DeviceCheck (.p8).")
  var deviceCheckKeyOut: String?

  @Option(help: "The http:// URL to which notifications are posted.", transform: PlainHTTPURL.parse)
  var notify: PlainHTTPURL?

  @Option(help: "A file for the same line of JSON.")
  var readyFile: String?

  @Flag(help: "End when the parent process does, or when standard input (a pipe) is closed.")
  var exitWithParent = false

  func run() async throws {
    var configuration = Simulator.Configuration()
    configuration.host = host
    configuration.port = port
    configuration.controlPort = controlPort
    configuration.controlHost = controlHost
    configuration.sharedSecret = sharedSecret
    configuration.clock = clock?.date
    configuration.rootPEMPath = rootOut
    configuration.logger.logLevel = .info

    // The watchers start first, so that a stop during the start is not missed.
    let endings = EndOfService(withParent: exitWithParent)
    if let serverAPIKeyOut {
      try Data((DevelopmentKeys.serverAPIKey + "\n").utf8).write(to: URL(filePath: serverAPIKeyOut), options: .atomic)
    }
    if let deviceCheckKeyOut {
      try Data((DevelopmentKeys.deviceCheckKey + "\n").utf8).write(
        to: URL(filePath: deviceCheckKeyOut), options: .atomic)
    }
    let simulator = try await Simulator.start(configuration)
    if let notify { simulator.deliverNotifications(to: notify) }
    let ready = JSON.object([
      ("production_url", .string(simulator.productionURL)),
      ("sandbox_url", .string(simulator.sandboxURL)),
      ("control_url", simulator.controlURL.map { .string($0) } ?? .null),
      ("root_file", .string(simulator.rootPEMPath)),
      ("server_api_url", .string(simulator.serverAPIURL)),
      ("server_api_sandbox_url", .string(simulator.serverAPISandboxURL)),
      ("server_api_key_id", .string(simulator.serverAPIKeyID)),
      ("server_api_issuer_id", .string(simulator.serverAPIIssuerID)),
      ("device_check_url", .string(simulator.deviceCheckURL)),
      ("device_check_development_url", .string(simulator.deviceCheckDevelopmentURL)),
      ("device_check_key_id", .string(simulator.deviceCheckKeyID)),
      ("device_check_team_id", .string(simulator.deviceCheckTeamID)),
    ]).text
    if let readyFile { try Data((ready + "\n").utf8).write(to: URL(filePath: readyFile), options: .atomic) }
    print(ready)
    fflush(nil)
    configuration.logger.info("listening", metadata: ["production": "\(simulator.productionURL)"])

    let reason = await endings.first()
    configuration.logger.info("stopping", metadata: ["reason": "\(reason)"])
    // An open exchange must not delay the exit: the process ends within a second, even if a listener is still busy.
    Task.detached {
      try await Task.sleep(for: .milliseconds(800))
      Glibc.exit(0)
    }
    await simulator.stop()
  }
}

extension PlainHTTPURL {
  static func parse(_ text: String) throws -> PlainHTTPURL {
    do {
      return try PlainHTTPURL(checking: text)
    } catch {
      throw ValidationError("\(error).")
    }
  }
}

/// Waits for the end of the service: a signal, the parent's death, the end of standard input.
final class EndOfService {
  private let reasons: AsyncStream<String>
  /// Keeps the sources alive.
  private let sources: [any DispatchSourceProtocol]

  init(withParent: Bool) {
    let (reasons, continuation) = AsyncStream<String>.makeStream()
    self.reasons = reasons
    let queue = DispatchQueue(label: "app-store-simulator.end")
    var sources: [any DispatchSourceProtocol] = []
    for (number, name) in [(SIGTERM, "SIGTERM"), (SIGINT, "SIGINT")] {
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
      source.setEventHandler { continuation.yield(name) }
      source.resume()
      sources.append(source)
    }
    if withParent {
      let parent = getppid()
      let timer = DispatchSource.makeTimerSource(queue: queue)
      timer.schedule(deadline: .now(), repeating: .milliseconds(200))
      timer.setEventHandler { if getppid() != parent { continuation.yield("parent ended") } }
      timer.resume()
      sources.append(timer)
      if Self.isStandardInputAPipe {
        // Not a dispatch source: libdispatch sometimes crashes when a pipe is closed while its source is released.
        DispatchQueue(label: "app-store-simulator.input").async {
          Self.waitForEndOfInput()
          continuation.yield("standard input closed")
        }
      }
    }
    self.sources = sources
  }

  func first() async -> String {
    for await reason in reasons { return reason }
    return "cancelled"
  }

  private static func waitForEndOfInput() {
    var octets: [UInt8] = Array(repeating: 0, count: 4_096)
    while true {
      let count = read(STDIN_FILENO, &octets, octets.count)
      guard count > 0 || count < 0 && errno == EINTR else { return }
    }
  }

  /// `/dev/null` is at its end from the start and means nothing; a pipe or a socket, which has no position, has another
  /// process at its other end.
  private static var isStandardInputAPipe: Bool {
    lseek(STDIN_FILENO, 0, SEEK_CUR) < 0 && errno == ESPIPE && isatty(STDIN_FILENO) == 0
  }
}
