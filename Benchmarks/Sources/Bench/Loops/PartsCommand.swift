import AppStore
import ArgumentParser
import Entitlements
import Foundation
import HTTPTransport
import JSON
import Ledger
import NIOCore

/// `bench parts`: CPU of those parts of a validation that are neither network nor disk, one at a time.
struct PartsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "parts", abstract: "Decode answers of Apple's, judge subscribers, encode records.")

  /// Answers by their name: rows in each of the two lists, bytes of `latest_receipt`.
  static let answers = [(name: "usual", periods: 6, receiptBytes: 5_760), ("large", 900, 300_000)]
  /// Rows of a subscriber.
  static let subscribers = [1, 12, 900]

  @Option(help: "How often each is measured; medians are printed.") var rounds = 5
  @Option(help: "Milliseconds of each measurement, about.") var milliseconds = 60

  private struct Part {
    var name: String
    var run: () async throws -> Void
  }

  func run() async throws {
    var fields: [(name: String, value: Double)] = []
    var parts: [Part] = []
    for (name, periods, receiptBytes) in Self.answers {
      let template = AnswerTemplate(periods: periods, receiptBytes: receiptBytes, now: Date())
      let answer = Array(template.answer(to: ByteBuffer().readableBytesView).readableBytesView)
      fields.append(("\(name)_bytes", Double(answer.count)))
      parts += try await decoding(answer, name)
    }
    for rows in Self.subscribers { parts += try judging(rows) }
    var counts: [Int] = []
    for part in parts {
      _ = try await microseconds(part, count: 3)
      counts.append(max(3, Int(Double(milliseconds) * 1000 / max(1, try await microseconds(part, count: 3)))))
    }
    var costs = parts.map { _ in [Double]() }
    // In turns, so that a machine that slows down slows all of them.
    for _ in 0..<rounds {
      for index in parts.indices {
        costs[index].append(try await microseconds(parts[index], count: counts[index]))
      }
    }
    fields += zip(parts, costs).map { ("\($0.name)_us", $1.median) }
    print("{" + fields.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}")
  }

  private func decoding(_ answer: [UInt8], _ name: String) async throws -> [Part] {
    let client = VerifyReceiptClient(
      transport: ReadyTransport(answer: answer),
      configuration: VerifyReceiptClient.Configuration(
        productionURL: "https://127.0.0.1", sandboxURL: "https://127.0.0.1", sharedSecret: Secret("benchmark")))
    guard JSONMeasured.index(answer) else { throw ValidationError("the answer is not plain") }
    return [
      Part(name: "\(name)_whole") { try JSONMeasured.parse(answer) },
      Part(name: "\(name)_pass") { _ = JSONMeasured.index(answer) },
      Part(name: "\(name)_history") {
        let answer = try await client.verify("MIIT", deadline: .now.advanced(by: .seconds(60)))
        guard !answer.history.purchases.isEmpty else { throw ValidationError("no purchases") }
      },
    ]
  }

  private func judging(_ rows: Int) throws -> [Part] {
    let entry = BenchEntry.validation(number: 0, purchases: rows, period: 0)
    guard entry.evaluate().tier == "pro", try entry.prepare() == 1 else { throw ValidationError("no subscriber") }
    return [
      Part(name: "judge_\(rows)") { _ = entry.evaluate() },
      Part(name: "encode_\(rows)") { _ = try entry.prepare() },
    ]
  }

  private func microseconds(_ part: Part, count: Int) async throws -> Double {
    let before = ProcessTime.now
    for _ in 0..<count { try await part.run() }
    return (ProcessTime.now - before).microseconds / Double(count)
  }
}

/// Has its answer at hand.
private struct ReadyTransport: Transport {
  let answer: [UInt8]

  func send(
    _ request: TransportRequest, deadline: ContinuousClock.Instant
  ) async throws(TransportError) -> TransportResponse {
    TransportResponse(status: 200, body: answer)
  }
}
