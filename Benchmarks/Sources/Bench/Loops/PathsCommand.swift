import AppStore
import ArgumentParser
import Entitlements
import Foundation
import Ledger

/// `bench paths`: fast paths of docs/performance.md beside the plainer code that would do the same, in turns.
///
/// A path saves per receipt what one use saves, times the uses of a receipt.
struct PathsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "paths", abstract: "Measure fast paths beside the plainer code that does the same.")

  @Option(help: "The folder samples/ of the repository.") var samples = "../samples"
  @Option(help: "How often each is measured; medians are printed.") var rounds = 9
  @Option(help: "Milliseconds of each measurement, about.") var milliseconds = 40

  private struct Path {
    var name: String
    /// The uses of a receipt.
    var uses: Double
    var fast: () throws -> Void
    var plain: () throws -> Void
  }

  func run() throws {
    let paths = try proofs() + texts()
    print("path\tfast µs\tplain µs\tuses\tsaved µs per receipt")
    for path in paths {
      let costs = try medians(of: path)
      let saved = (costs.plain - costs.fast) * path.uses
      print("\(path.name)\t\(costs.fast.text(2))\t\(costs.plain.text(2))\t\(path.uses.text(0))\t\(saved.text(1))")
    }
  }

  /// The medians of both, measured in turns, so that a machine that slows down slows both.
  private func medians(of path: Path) throws -> (fast: Double, plain: Double) {
    let counts = try [path.fast, path.plain].map { body in
      _ = try microseconds(3, body)
      return max(3, Int(Double(milliseconds) * 1000 / max(0.01, try microseconds(100, body))))
    }
    var fast: [Double] = []
    var plain: [Double] = []
    for _ in 0..<rounds {
      fast.append(try microseconds(counts[0], path.fast))
      plain.append(try microseconds(counts[1], path.plain))
    }
    return (fast.median, plain.median)
  }

  private func microseconds(_ count: Int, _ body: () throws -> Void) rethrows -> Double {
    let before = ProcessTime.now
    for _ in 0..<count { try body() }
    return (ProcessTime.now - before).microseconds / Double(count)
  }

  private func check(_ holds: Bool, _ sentence: String) throws {
    guard holds else { throw ValidationError(sentence) }
  }

  // MARK: - The paths

  private func proofs() throws -> [Path] {
    let digits = Array(try Data(contentsOf: URL(filePath: "\(samples)/receipts/renewing.b64"))).filter { $0 > 32 }
    guard let der = Data(base64Encoded: Data(digits)).map(Array.init) else {
      throw ValidationError("the sample is not base64")
    }
    let roots = try TrustedRoots(files: ["\(samples)/simulator-root.pem"])
    let verifier = ReceiptVerifier(roots: roots)
    let receipt = try AppReceipt.decode(der)
    // After each of the samples was signed.
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    _ = try verifier.verify(receipt, now: now)

    struct Signed: Decodable { var receipt_data: String }
    let jws = try JSONDecoder().decode(
      Signed.self, from: Data(contentsOf: URL(filePath: "\(samples)/requests/storekit2.json"))
    ).receipt_data
    let signed = SignedDataVerifier(roots: roots)
    _ = try signed.transaction(jws, now: now)
    return [
      Path(
        name: "a receipt of a known frame, decoded", uses: 1,
        fast: { _ = try AppReceipt.decode(der) }, plain: { _ = try AppStoreMeasured.decodeUnknown(der) }),
      Path(
        name: "a receipt of a known frame, verified", uses: 1,
        fast: { _ = try verifier.verify(receipt, now: now) },
        plain: { _ = try ReceiptVerifier(roots: roots).verify(receipt, now: now) }),
      Path(
        name: "a signed transaction of a known chain", uses: 1,
        fast: { _ = try signed.transaction(jws, now: now) },
        plain: { _ = try SignedDataVerifier(roots: roots).transaction(jws, now: now) }),
    ]
  }

  private func texts() throws -> [Path] {
    let entry = BenchEntry.validation(number: 0, purchases: 6, period: 0)
    let verdict = entry.evaluate()
    let text = try StoredFormMeasured.write(verdict)
    try check(try StoredFormMeasured.encode(verdict) == text, "the two writers of a verdict differ")
    let id = UserID("6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11")
    return [
      Path(
        name: "a user's UUID", uses: 8, fast: { try check(id.accountToken != nil, "no UUID") },
        plain: { try check(Self.isUUID(id.rawValue.lowercased()), "no UUID") }),
      Path(
        name: "the ledger's verdict, written", uses: 1, fast: { _ = try StoredFormMeasured.write(verdict) },
        plain: { _ = try StoredFormMeasured.encode(verdict) }),
      Path(
        name: "the ledger's verdict, read", uses: 1, fast: { _ = try StoredFormMeasured.read(text) },
        plain: { _ = try StoredFormMeasured.decode(text) }),
    ]
  }

  private static func isUUID(_ text: String) -> Bool {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    return parts.map(\.utf8.count) == [8, 4, 4, 4, 12] && parts.allSatisfy { $0.utf8.allSatisfy { $0 < 103 } }
  }
}
