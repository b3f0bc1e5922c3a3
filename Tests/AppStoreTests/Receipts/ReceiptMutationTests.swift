import Foundation
import SeededRandom
import Testing

@testable import AppStore

@Suite("Mutations", .computing)
struct ReceiptMutationTests {
  /// `COUNTERSIGN_MUTATIONS` raises it.
  private static let count = ProcessInfo.processInfo.environment["COUNTERSIGN_MUTATIONS"].flatMap { Int($0) } ?? 2_000

  private struct Original {
    let bytes: [UInt8]
    let roots: TrustedRoots
    let now: Date
    /// The receipt that is authentic when nothing is changed; `nil` for kinds that are never.
    let receipt: AppReceipt?
  }

  private func originals() throws -> [Original] {
    let pki = try TestPKI()
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    var originals: [Original] = []
    for form in TestReceipt.Form.allCases {
      var receipt = TestReceipt(pki)
      receipt.form = form
      if form == .ber { receipt.signedAttributes = .init() }
      let bytes = try receipt.bytes()
      originals.append(try Original(bytes: bytes, roots: pki.roots(), now: now, receipt: AppReceipt.decode(bytes)))
    }
    for entry in ReceiptFixtures.listed("pkcs7_receipt") + ReceiptFixtures.listed("transaction_receipt") {
      let submitted = try SubmittedReceipt.decode(contents: ReceiptFixtures.contents(entry.file))
      guard let data = Data(base64Encoded: submitted.base64) else { continue }
      var receipt: AppReceipt?
      if case .app(let decoded) = submitted.content, !decoded.isFromXcode { receipt = decoded }
      originals.append(Original(bytes: [UInt8](data), roots: .apple, now: now, receipt: receipt))
    }
    return originals
  }

  static func mutate(_ bytes: [UInt8], with generator: inout SeededRandom) -> [UInt8] {
    var bytes = bytes
    for _ in 0..<Int.random(in: 1...3, using: &generator) {
      guard !bytes.isEmpty else { break }
      let index = Int.random(in: 0..<bytes.count, using: &generator)
      switch Int.random(in: 0..<7, using: &generator) {
      case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
      case 1: bytes[index] = UInt8.random(in: 0...255, using: &generator)
      case 2: bytes[index] = [0x00, 0x7F, 0x80, 0x81, 0x84, 0xFF][Int.random(in: 0..<6, using: &generator)]
      case 3: bytes.remove(at: index)
      case 4: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: index)
      case 5: bytes.removeSubrange(index..<min(bytes.count, index + Int.random(in: 1...64, using: &generator)))
      default:
        let end = min(bytes.count, index + Int.random(in: 1...64, using: &generator))
        bytes.insert(contentsOf: bytes[index..<end], at: Int.random(in: 0...bytes.count, using: &generator))
      }
    }
    return bytes
  }

  /// A mutation may hit what nothing depends on (an unused certificate, an unsigned field), so that the receipt is still
  /// authentic; but then it must say, field for field, what the original says.
  @Test func `no mutation crashes, and none passes off other content as authentic`() throws {
    let originals = try originals()
    var generator = SeededRandom(seed: 0xC0FFEE)
    var undecodable = 0
    var refused = 0
    var same = 0
    for round in 0..<Self.count {
      let original = originals[round % originals.count]
      let bytes = Self.mutate(original.bytes, with: &generator)
      let inspection = ReceiptInspection(of: bytes, roots: original.roots, now: original.now)
      _ = inspection.json()
      switch inspection.outcome {
      case .undecodable: undecodable += 1
      case .notAuthentic: refused += 1
      case .authentic:
        same += 1
        let submitted = try SubmittedReceipt.decode(contents: bytes)
        guard case .app(let receipt) = submitted.content, let honest = original.receipt else {
          Issue.record("round \(round): something that cannot be proven was accepted")
          continue
        }
        #expect(receipt.saysTheSame(as: honest), "round \(round): changed content was accepted")
      }
    }
    print("mutations: \(Self.count), undecodable \(undecodable), refused \(refused), authentic and unchanged \(same)")
    #expect(undecodable + refused + same == Self.count)
    #expect(refused > 0 && undecodable > 0)
  }
}

extension AppReceipt {
  fileprivate func saysTheSame(as other: AppReceipt) -> Bool {
    receiptType == other.receiptType && bundleID == other.bundleID && createdAt == other.createdAt
      && applicationVersion == other.applicationVersion && expiresAt == other.expiresAt
      && transactions == other.transactions
      && (try? SignedMessage(encoded).content) == (try? SignedMessage(other.encoded).content)
  }
}
