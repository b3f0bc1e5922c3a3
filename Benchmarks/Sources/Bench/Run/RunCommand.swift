import ArgumentParser
import Foundation

/// `bench run`: every measurement, each beside its bound, in one run.
struct RunCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Run the benchmarks and print one table.",
    discussion: "The service has the first core to itself; what plays Apple and the callers share the second.")

  @Option(help: "The release build of the service.") var countersign: String
  @Option(help: "The simulator, which signs the receipts.") var simulator: String
  @Option(help: "A directory for receipts and ledgers.") var work: String
  @Option(help: "Only these, by name.") var only: [Measurement] = []
  @Option(help: "How often each load is repeated; medians are shown.") var rounds = 5
  @Option(help: "Seconds of each load.") var seconds = 2
  @Option(help: "Subscriptions of the run of re-validation.") var due = 100_000
  @Option(help: "Subscriptions of the large ledgers, which take some 7 KB of disk each.")
  var sizes = [100_000, 1_000_000]
  @Option(
    help: """
      Another server's program, to measure beside the service. It answers GET /livez and validates the same posts. It \
      has the caller's environment, and PORT, APPLE_URL, APPLE_CA, STORE_URL, ROOTS, API_KEY and RECORD_DB, a file for \
      it to make.
      """)
  var beside: String?
  @Option(help: "A Markdown file for the table.") var output: String?

  func validate() throws {
    if only.contains(.beside), beside == nil { throw ValidationError("--beside names the other server's program") }
  }

  func run() async throws {
    let wanted = only.isEmpty ? Measurement.allCases.filter { $0 != .beside || beside != nil } : only
    let bed = try Bed(
      countersign: countersign, simulator: simulator, work: work,
      receipts: wanted.contains { [.revalidation, .replicas, .beside].contains($0) } ? Swift.max(100_000, due) : 60_000)
    defer { bed.remove() }
    let table = Table()
    print(Machine.description)
    let measurements = Measurements(bed: bed, table: table, rounds: rounds, seconds: seconds, due: due, sizes: sizes)
    measurements.other = beside
    for measurement in wanted { try measurements.run(measurement) }
    guard let output else { return }
    try "\(Machine.description)\n\n\(table.markdown)".write(toFile: output, atomically: true, encoding: .utf8)
  }
}

enum Measurement: String, CaseIterable, ExpressibleByArgument {
  case bounds, parts, validation, counts, sizes, protocols, large, latency, concurrency, reads, commits, verification
  case storm, overload, revalidation, start, replicas, figures, beside

  static var allValueDescriptions: [String: String] {
    Dictionary(uniqueKeysWithValues: allCases.map { ($0.rawValue, $0.meaning) })
  }

  private var meaning: String {
    switch self {
    case .bounds: "What bounds the rest: bare Hummingbird routes, the bare transport."
    case .parts: "CPU of decoding answers of 15 KiB and 1.7 MB, of the rules, of encoding a record."
    case .validation: "Receipts validated, recorded and written to the profile store, 32 in flight."
    case .counts: "What scripts/check-cost counts: allocations, system calls, context switches, bytes of the ledger."
    case .sizes: "The same, and CPU, with large ledgers."
    case .protocols: "Receipts validated, with Apple asked by HTTP/1.1 and by HTTP/2."
    case .large: "Answers of 1.7 MB."
    case .latency: "What 1, 32 and 256 callers wait beyond an upstream that takes 100 ms."
    case .concurrency: "2,000 in flight, an upstream that takes 300 ms."
    case .reads: "Profiles read, as fast as 32 callers can and at 20 a second each."
    case .commits: "Group commit."
    case .verification: "Receipts verified by their signature."
    case .storm: "Each of many receipts posted 25 times at once."
    case .overload: "2,000 callers that post without a pause, while 8 read 10 profiles a second each."
    case .revalidation: "A run of re-validation over all that is due."
    case .start: "Start to ready, and memory at rest."
    case .replicas: "The ledger in PostgreSQL beside one in a file; one replica and three."
    case .figures: "Pages of figures and of experiments about a million subscribers."
    case .beside: "Receipts validated by the service and by another server, in turns: see --beside."
    }
  }
}
