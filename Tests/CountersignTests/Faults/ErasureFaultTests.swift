import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

extension FaultTests {
  /// Users who are erased by a service that is killed meanwhile.
  @Suite(.serialized) struct ErasureFaultTests {
    @Test func `kill -9 during an erasure: a user is there whole or not at all, and a repetition leaves no trace`()
      async throws
    {
      let random = FaultRandom()
      let users = FaultSize.choose(short: 2, full: 50)
      var settings = Settings(server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret])
      settings.dialects = ["revenuecat"]
      let (whole, gone) = try await FaultWorld.run(customers: 0, settings: settings, withProfiles: false) { world in
        var random = random
        var (whole, gone) = (0, 0)
        var service = try await world.start()
        let nobody = try await Self.export("nobody", service)
        for number in 1...users {
          let user = try await Person(number: number, in: world, service)
          let before = try await Self.export(user.id, service)
          #expect(user.forms.filter { Self.isOnDisk($0, world) }.count > 1, "the search is blind")
          let killed = service
          async let answer = try? killed.send(.delete, "/v1/profiles/\(user.id)")
          try await Task.sleep(for: .microseconds(Int.random(in: 0...40_000, using: &random)))
          killed.signal(SIGKILL)
          _ = await answer
          await killed.ending()
          service = try await world.start()

          let after = try await Self.export(user.id, service)
          #expect(after == before || after == nobody, "of \(before) is left \(after)")
          if after == nobody { gone += 1 } else { whole += 1 }
          let erased = try await service.send(.delete, "/v1/profiles/\(user.id)")
          #expect(erased.status == 200, "\(erased.text)")
          let found = user.forms.filter { Self.isOnDisk($0, world) }
          #expect(found.isEmpty, "\(found) is on the disk")
          #expect(try await Self.export(user.id, service) == nobody)
          for receipt in user.receipts {
            let other = try await service.validate(receipt, user: "somebody-else-\(number)")
            // Nobody owns it now: it is whoever's proves it.
            #expect(other.status == 200, "\(other.text)")
          }
        }
        #expect(await service.stop().code == 0)
        #expect(try LedgerAudit(path: world.ledgerPath).integrity == "ok")
        return (whole, gone)
      }
      FaultReport.say(
        "erasure", seed: random.seed, "\(users) kills", "\(whole) users whole after it", "\(gone) gone",
        "no trace of any")
    }

    /// The records of a user, counted, without the ID.
    private struct Kept: Equatable {
      var verdict: String
      var counts: [String: Int]
    }

    private static func export(_ user: String, _ service: ServiceProcess) async throws -> Kept {
      let answer = try await service.send(.get, "/v1/profiles/\(user)/export")
      #expect(answer.status == 200, "\(answer.text)")
      let lists = ["purchases", "history", "events", "grants", "consumptions"]
      return Kept(
        verdict: try await service.profile(user).verdict,
        counts: Dictionary(uniqueKeysWithValues: lists.map { ($0, answer.array($0).count) }))
    }

    /// Whether the files of the ledger hold a text.
    private static func isOnDisk(_ text: String, _ world: FaultWorld) -> Bool {
      ["", "-wal", "-shm"].contains { suffix in
        FileManager.default.contents(atPath: world.ledgerPath + suffix)?.holds(Array(text.utf8)) == true
      }
    }
  }
}

/// A user with purchases before and after signing in, a grant, a consumption and an event of the app's own.
private struct Person {
  let id: String
  let receipts: [String]
  /// The names as they may be on the disk: plain, in capitals, in base64 wherever they begin, and in hexadecimal.
  let forms: [String]

  init(number: Int, in world: FaultWorld, _ service: ServiceProcess) async throws {
    let account = UUID()
    let id = account.uuidString.lowercased()
    let alias = "$RCAnonymousID:" + UUID().uuidString.lowercased().replacing("-", with: "")
    let bought = try world.simulator.issueReceipt(.renewing, subscriber: Int64(2 * number))
    let signed = try world.simulator.issueTransaction(
      .lifetime, subscriber: Int64(2 * number + 1), appAccountToken: account)
    let email = "person-\(number)-\(id.prefix(8))@example.com"
    for (path, body, key) in [
      (
        "/v1/receipts",
        #"{"app_user_id":"\#(alias)","fetch_token":"\#(bought.receiptData)","is_restore":false,"observer_mode":false}"#,
        RunningService.publicKey
      ),
      (
        "/v1/subscribers/identify", #"{"app_user_id":"\#(alias)","new_app_user_id":"\#(id)"}"#,
        RunningService.publicKey
      ),
      (
        "/v1/validations", #"{"receipt_data":"\#(signed.signedTransaction)","user_id":"\#(id)"}"#,
        RunningService.serviceKey
      ),
      (
        "/v1/profiles/\(id)/grants", #"{"tier":"premium","for":"30d","note":"for \#(email)"}"#,
        RunningService.supportKey
      ),
      ("/v1/profiles/\(id)/usage/questions", #"{"amount":1,"time_zone":"Europe/Berlin"}"#, RunningService.serviceKey),
      (
        "/v1/events", #"{"events":[{"type":"viewed","user_id":"\#(id)","properties":{"by":"\#(email)"}}]}"#,
        RunningService.serviceKey
      ),
    ] {
      let answer = try await service.send(.post, path, body: body, key: key)
      guard (200..<300).contains(answer.status) else {
        throw RunningService.Failure("\(path): \(answer.status) \(answer.text)")
      }
    }
    self.id = id
    receipts = [bought.receiptData, signed.signedTransaction]
    forms = [id, alias, email].flatMap { name in
      [name, name.uppercased(), name.utf8.map { String(format: "%02x", $0) }.joined()]
        + [name, name.uppercased()].flatMap(Self.inBase64)
    }
  }

  /// The part of the base64 that does not depend on what stands around a text.
  private static func inBase64(_ text: String) -> [String] {
    (0..<3).map { offset in
      let encoded = Data([UInt8](repeating: 0x20, count: offset) + Array(text.utf8)).base64EncodedString()
      return String(encoded.dropFirst(offset == 0 ? 0 : 4).dropLast(4))
    }
  }
}
