import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

extension FaultTests {
  /// Apple's notifications on their way to another system, while the service is killed again and again.
  @Suite struct ForwardingFaultTests {
    @Test func `kill -9 again and again: each notification is forwarded in order, as Apple signed it`()
      async throws
    {
      let random = FaultRandom()
      let kills = FaultSize.choose(short: 4, full: 50)
      let run = try await Self.play(kills: kills, random: random)
      #expect(run.told.count > 100)
      let audit = ForwardingAudit(run.told, run.came, verified: run.verified?.dropLast())
      FaultReport.say("forwarded notifications", seed: random.seed, "\(kills) kills", audit.figures)
      #expect(audit.isClean, "\(audit)")
      #expect(run.verified != nil || !FaultSize.isFull, "Apple's library is not installed")
      try Self.plantDefects(in: run)
    }

    private struct Run {
      /// Apple's notifications, those of a purchase in their order.
      var told: [SimulatedNotification]
      /// The payloads that the receiver got, in its order.
      var came: [String]
      /// One of these with another content under the same signature.
      var changed: String
      /// The UUID of each payload that came by Apple's library, and of the changed one; nil where it is not installed.
      var verified: [String?]?
    }

    /// Each has to be noticed.
    private static func plantDefects(in run: Run) throws {
      let came = run.came
      func audit(_ came: [String]) -> ForwardingAudit { ForwardingAudit(run.told, came, verified: nil) }
      let purchase = try #require(run.told.first).originalTransactionID
      let own = run.told.filter { $0.originalTransactionID == purchase }
      let (first, second) = (try #require(own.first), try #require(own.dropFirst().first).signedPayload)
      let isRefused = run.verified.map { $0.count == came.count + 1 && $0.last == .some(nil) } ?? true
      for (defect, isCaught) in [
        ("a changed payload", audit(came + [run.changed]).uncalledFor == 1 && isRefused),
        ("a notification that never came", audit(came.filter { $0 != first.signedPayload }).missing == [first.uuid]),
        ("a wrong order", audit([second] + came.filter { $0 != second }).disordered == [purchase]),
      ] {
        FaultReport.planted("forwarding: \(defect)", isCaught ? "noticed" : "not noticed", isCaught: isCaught)
        #expect(isCaught, "\(defect)")
      }
    }

    private static func changed(_ payload: String) throws -> String {
      var parts = payload.split(separator: ".").map(String.init)
      let bytes = try #require(parts.dropFirst().first.flatMap { SignedDataSigner.decode($0[...]) })
      let text = String(decoding: bytes, as: UTF8.self).replacing(#""version":"2.0""#, with: #""version":"2.1""#)
      parts[1] = SignedDataSigner.encode(Array(text.utf8))
      return parts.joined(separator: ".")
    }

    /// Posts the past of many customers, a part of it before each kill.
    private static func play(kills: Int, random: FaultRandom) async throws -> Run {
      try await WebhookReceiver.running { receiver in
        var settings = Settings(server: ["address_rate_limit": "0"])
        settings.forwards = ["url: \(receiver.url), private: true"]
        return try await FaultWorld.run(customers: 0, settings: settings, withProfiles: false) { world in
          var random = random
          let posts = try (1...FaultSize.choose(short: 40, full: 150)).map { number in
            let issued = try world.simulator.issueTransaction(.renewalOff, subscriber: Int64(number))
            return try world.simulator.notifications(of: issued.originalTransactionID)
          }
          let told = posts.flatMap(\.self)
          let feed = FaultFeed(posts) { post, service in
            try await service.send(.post, "/v1/notifications/app-store", body: post.body).status == 200
          }
          for kill in 0..<kills {
            let service = try await world.start()
            let count = Int.random(in: 1...max(1, feed.waiting / (kills - kill)), using: &random)
            feed.beginLife()
            async let posting: Void = feed.run(service)
            _ = try await eventually(within: .seconds(60), every: .milliseconds(1)) { feed.answeredInThisLife >= count }
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...20, using: &random)))
            service.signal(SIGKILL)
            await posting
            #expect(await service.ending().wasKilled)
          }
          let service = try await world.start()
          await feed.run(service)
          #expect(feed.waiting == 0)
          func came() throws -> [String] { try receiver.requests.map(ForwardingTests.payload) }
          #expect(try await eventually(within: .seconds(120)) { Set(try came()).count >= told.count })
          #expect(await service.stop().code == 0)
          let payloads = try came()
          let changed = try changed(#require(payloads.first))
          return Run(
            told: told, came: payloads, changed: changed,
            verified: try await AppleLibrary.verify(
              payloads + [changed], roots: world.simulator.rootPEMPath, in: world.directory))
        }
      }
    }
  }
}

/// A receiver of forwarded notifications gets each payload as Apple signed it, at least once, the first times in the order of
/// the purchase.
private struct ForwardingAudit {
  /// UUIDs of notifications that never came.
  var missing: [String] = []
  /// Payloads that Apple did not send.
  var uncalledFor = 0
  /// Original transaction IDs of the purchases with another order.
  var disordered: [String] = []
  /// Payloads that Apple's library refused or read as another notification.
  var refused = 0
  var told = 0
  /// More than one for a notification whose sender was killed.
  var deliveries = 0
  var judgedByLibrary = 0

  var isClean: Bool { missing.isEmpty && uncalledFor == 0 && disordered.isEmpty && refused == 0 }

  var figures: String {
    "\(told) notifications in \(deliveries) deliveries, \(missing.count) missing, \(uncalledFor) uncalled-for, "
      + "\(disordered.count) purchases out of order, \(judgedByLibrary) judged by Apple's library, \(refused) refused"
  }

  /// - Parameter verified: the UUID of each payload by Apple's library; nil where that is not installed.
  init(_ told: [SimulatedNotification], _ came: [String], verified: ArraySlice<String?>?) {
    self.told = told.count
    deliveries = came.count
    let known = Dictionary(told.map { ($0.signedPayload, $0) }) { first, _ in first }
    var seen: Set<String> = []
    let order = came.compactMap { known[$0] }.filter { seen.insert($0.uuid).inserted }
    uncalledFor = came.count { known[$0] == nil }
    missing = told.map(\.uuid).filter { !seen.contains($0) }
    let firsts = Dictionary(grouping: order, by: \.originalTransactionID)
    for (purchase, own) in Dictionary(grouping: told, by: \.originalTransactionID)
    where firsts[purchase, default: []].map(\.uuid) != own.map(\.uuid).filter(seen.contains) {
      disordered.append(purchase)
    }
    guard let verified else { return }
    judgedByLibrary = verified.count
    refused = verified.count == came.count ? zip(came, verified).count { known[$0]?.uuid != $1 } : came.count
  }
}

/// Apple's App Store Server Library for Python, where PyPI's package is installed; `make faults` does that.
private enum AppleLibrary {
  /// - Returns: the UUID of each payload that it verifies, with the transaction and the renewal info in it; nil where it is not
  ///   installed.
  static func verify(_ payloads: [String], roots: String, in directory: URL) async throws -> [String?]? {
    guard let python = ReceiverProcess.python else { return nil }
    let (program, list) = (directory.appending(path: "verify.py"), directory.appending(path: "payloads"))
    try source.write(to: program, atomically: true, encoding: .utf8)
    try payloads.joined(separator: "\n").write(to: list, atomically: true, encoding: .utf8)
    let ending = try await ChildProcess.run(python, [program.path(), roots, list.path()])
    guard ending.code != 3 else { return nil }
    guard ending.code == 0 else { throw RunningService.Failure("the verifier failed: \(ending.error)") }
    return ending.output.split(separator: "\n").map { $0 == "-" ? nil : String($0) }
  }

  private static let source = """
    import sys

    try:
        from appstoreserverlibrary.models.Environment import Environment
        from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier, VerificationException
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding
    except ImportError:
        sys.exit(3)

    roots = [one.public_bytes(Encoding.DER) for one in x509.load_pem_x509_certificates(open(sys.argv[1], "rb").read())]
    verifier = SignedDataVerifier(roots, False, Environment.PRODUCTION, "com.example.app", 1234567890)
    for payload in open(sys.argv[2]).read().split("\\n"):
        try:
            notification = verifier.verify_and_decode_notification(payload)
            verifier.verify_and_decode_signed_transaction(notification.data.signedTransactionInfo)
            if notification.data.signedRenewalInfo:
                verifier.verify_and_decode_renewal_info(notification.data.signedRenewalInfo)
            print(notification.notificationUUID)
        except VerificationException:
            print("-")
    """
}
