import Foundation
import HTTPTransport
import Ledger
import Logging
import ServiceLifecycle
import Synchronization
import Testing

@testable import Countersign

@Suite("A start that fails")
struct StartTests {
  /// The clients for outgoing HTTP that a start makes, up to one that cannot be made.
  private final class Transports: Sendable {
    private let made = Mutex<[CurlTransport]>([])
    private let most: Int

    init(most: Int) { self.most = most }

    var all: [CurlTransport] { made.withLock { $0 } }

    func make(_ configuration: CurlTransport.Configuration) throws(CurlTransport.SetupError) -> CurlTransport {
      guard all.count < most else { throw .libcurl("curl_multi_init") }
      let transport = try CurlTransport(configuration: configuration)
      made.withLock { $0.append(transport) }
      return transport
    }
  }

  /// In the order of the start: the App Store, the profile store, the keys of users' tokens, DeviceCheck, webhooks.
  @Test(arguments: 0..<6)
  func `a start that cannot make a client closes the clients before it, and the ledger`(made: Int) async throws {
    let directory = try TemporaryDirectory()
    let ledger = directory.path + "/ledger.sqlite"
    let transports = Transports(most: made)
    let secret = try directory.write("webhook", WebhookTests.secret)
    let configuration = try loadYAML(
      SampleConfiguration().setting("ledger.path", ledger)
        .setting("profile_store.url", "\"https://profiles.example/rest/v1\"").setting("profile_store.key", "key")
        .setting("auth.jwt", "{jwks_url: \"https://users.example/jwks\"}")
        .setting("device_check.key", "\"\(Settings.signingKeyOfTests.replacing("\n", with: "\\n"))\"")
        .setting("device_check.key_id", "ABCDE12345").setting("device_check.team_id", "TEAM123456").yaml
        + "webhooks: [{ url: 'https://shop.example/hook', secret_file: \(secret) }]\n")
    let failure = await #expect(throws: ServiceStartError.self) {
      _ = try await buildApplication(
        configuration,
        environment: ServiceEnvironment(
          logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }), ledgerFailed: { _ in },
          makeTransport: transports.make))
    }
    #expect(failure?.description.hasSuffix("\(CurlTransport.SetupError.libcurl("curl_multi_init"))") == true)
    #expect(transports.all.count == made)
    for transport in transports.all {
      await #expect(throws: TransportError.shutDown) {
        _ = try await transport.send(
          TransportRequest(method: .get, url: "https://closed.example/", responseBodyLimit: 0),
          deadline: .now + .seconds(30))
      }
    }
    // A ledger that is still open cannot be opened again.
    let reopened = try await Ledger.open(path: ledger, onFatal: { _ in })
    await reopened.close()
  }

  @Test func `where a service fails, the others end in order, and then what they used is closed`() async throws {
    struct Failure: Error {}
    struct Failing: Service {
      func run() async throws { throw Failure() }
    }
    struct Ending: Service {
      var log: CapturedLog
      func run() async throws {
        try? await gracefulShutdown()
        log.note("ended, cancelled: \(Task.isCancelled)")
      }
    }
    let directory = try TemporaryDirectory()
    let ledger = try await Ledger.open(path: directory.path + "/ledger.sqlite", onFatal: { _ in })
    let log = CapturedLog()
    var closers = Closers()
    closers.add(ledger.close)
    closers.add { log.note("closed") }
    let application = CountersignApplication(
      services: [Ending(log: log), Failing()], closers: closers, ledger: ledger, routes: [],
      logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    await #expect(throws: Failure.self) { try await application.run() }
    #expect(log.lines == ["ended, cancelled: false\n", "closed\n"])
    await #expect(throws: LedgerError.closed) { try await ledger.check() }
  }

  @Test func `the part that was opened last is closed first`() async {
    let closed = Mutex<[String]>([])
    var closers = Closers()
    for name in ["transport", "ledger", "webhooks"] { closers.add { closed.withLock { $0.append(name) } } }
    await closers.close()
    #expect(closed.withLock { $0 } == ["webhooks", "ledger", "transport"])
  }
}
