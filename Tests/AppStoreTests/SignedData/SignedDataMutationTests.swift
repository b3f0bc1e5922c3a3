import Foundation
import SeededRandom
import Testing

@testable import AppStore

@Suite("Mutations of signed data", .computing)
struct SignedDataMutationTests {
  /// `COUNTERSIGN_MUTATIONS` raises it.
  private static let count =
    ProcessInfo.processInfo.environment["COUNTERSIGN_MUTATIONS"].flatMap { Int($0) } ?? SeededRandom.cases(10_000)

  private struct Original {
    let text: [UInt8]
    let verifier: SignedDataVerifier
    let roots: TrustedRoots
    let payload: SignedPayload
  }

  private func originals() throws -> [Original] {
    let pki = try SignedDataPKI()
    var texts = try [
      (pki.sign(SignedSample.transaction()), pki.roots()), (pki.sign(SignedSample.renewalInfo()), pki.roots()),
      (
        pki.sign(
          SignedSample.notification(
            transaction: pki.sign(SignedSample.transaction()), renewalInfo: pki.sign(SignedSample.renewalInfo()))),
        pki.roots()
      ),
    ]
    for entry in ReceiptFixtures.listed("jws_transaction") + ReceiptFixtures.listed("jws_renewal_info") {
      texts.append((String(decoding: try ReceiptFixtures.bytes(entry.file), as: UTF8.self), .apple))
    }
    return try texts.map { text, roots in
      let text = Array(ReceiptText.trimmed(Array(text.utf8)))
      return Original(
        text: text, verifier: SignedDataVerifier(roots: roots), roots: roots,
        payload: try SignedPayload(CompactJWS(text)))
    }
  }

  private func mutate(_ text: [UInt8], with generator: inout SeededRandom) -> [UInt8] {
    let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    var text = text
    // Mostly in a way that leaves it base64url with two dots, so that more than its form is tried.
    for _ in 0..<Int.random(in: 1...3, using: &generator) {
      guard !text.isEmpty else { break }
      let index = Int.random(in: 0..<text.count, using: &generator)
      let digit = digits[Int.random(in: 0..<digits.count, using: &generator)]
      switch Int.random(in: 0..<7, using: &generator) {
      case 0: text[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
      case 1: text[index] = UInt8.random(in: 0...255, using: &generator)
      case 2, 3: text[index] = text[index] == UInt8(ascii: ".") ? text[index] : digit
      case 4: text.insert(digit, at: index)
      case 5: text.removeSubrange(index..<min(text.count, index + Int.random(in: 1...64, using: &generator)))
      default:
        let end = min(text.count, index + Int.random(in: 1...64, using: &generator))
        text.insert(contentsOf: text[index..<end], at: Int.random(in: 0...text.count, using: &generator))
      }
    }
    return text
  }

  /// The signature is over the header and the payload as they were sent, so that nothing but whitespace can change.
  @Test func `no mutation crashes, and none passes off other content as authentic`() throws {
    let originals = try originals()
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    var generator = SeededRandom(seed: 0xC0FFEE)
    var undecodable = 0
    var refused = 0
    var same = 0
    for round in 0..<Self.count {
      let original = originals[round % originals.count]
      let text = mutate(original.text, with: &generator)
      let inspection = ReceiptInspection(of: text, roots: original.roots, now: now)
      _ = inspection.json()
      switch inspection.outcome {
      case .undecodable: undecodable += 1
      case .notAuthentic: refused += 1
      case .authentic:
        same += 1
        let payload = try SignedPayload(CompactJWS(ReceiptText.withoutWhitespace(ReceiptText.trimmed(text))))
        #expect(payload == original.payload, "round \(round): changed content was accepted")
      }
      // The same code from its other doors: now and then is enough.
      guard round % 100 < 10 else { continue }
      let string = String(decoding: text, as: UTF8.self)
      _ = try? original.verifier.transaction(string, now: now)
      _ = try? original.verifier.notification(string, now: now)
      _ = try? SubmittedReceipt.decode(string)
    }
    print("mutations: \(Self.count), undecodable \(undecodable), refused \(refused), authentic and unchanged \(same)")
    #expect(undecodable + refused + same == Self.count)
    #expect(refused > 0 && undecodable > 0)
  }
}
