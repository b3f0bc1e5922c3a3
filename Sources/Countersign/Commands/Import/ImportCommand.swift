import ArgumentParser
import CountersignAPI
import CountersignServer
import Cryptography
import Files
import FoundationEssentials
import Glibc
import HTTPTransport
import Resilience
import Synchronization
import UnixSignals

/// `countersign import`
struct ImportCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Bring the customers of another service into the running one, and print what differs.",
    discussion: """
      FILE has one JSON object per line: a customer as RevenueCat's API answers \
      (GET /v1/subscribers/{app_user_id}), or {user_id, receipt_data} or \
      {user_id, original_transaction_id}, with 'tier' where the other service's verdict \
      is known. Each purchase is posted to the running service, which asks Apple about \
      it, and the tier that both give is compared.

      With --from-csv FILE is a CSV with a header, such as an export of RevenueCat's: the \
      columns are found by their names, and the customers gathered in FILE.jsonl.

      With --from-revenuecat PROJECT the customers come from RevenueCat's REST API of \
      version 2, two requests for each, and FILE keeps them: while it is there, RevenueCat \
      is not asked again. The secret key is in REVENUECAT_KEY or in the file that \
      --revenuecat-key-file names; it reads customers, subscriptions and purchases. \
      FILE.cursor says where the same command goes on.

      Standard output has a line for each customer of whom the two differ, or whose \
      purchase is refused; FILE.differences has them as JSON. FILE.progress has what was \
      settled, so that the same command goes on where it ended, and begins anew where FILE \
      has other lines by now. It takes lines again that were refused or could not be read, \
      and with --again those that differ, too.

      The command needs an API key of the role 'service', in COUNTERSIGN_API_KEY or in \
      the file that --key-file names.

      EXIT CODES
          0  both services give every customer the same
          1  some differ, are refused, or cannot be read, now or in a call before
         64  wrong usage
         69  the service or RevenueCat is away; the same command goes on
         77  the service or RevenueCat refuses the key
        130  interrupted by Ctrl-C, 143 by SIGTERM; the same command goes on

      EXAMPLES
        countersign import customers.jsonl --dry-run --key-file backend.key
        countersign import customers.jsonl --rate 20 --key-file backend.key
        countersign import --from-csv transactions.csv --grant-promotions --key-file backend.key
        countersign import customers.jsonl --from-revenuecat proj1ab2c3d4 \
      --revenuecat-key-file revenuecat.key --dry-run --key-file backend.key
      """)

  @Argument(help: "A file with one JSON object per line, or a CSV.")
  var file: String

  @Option(name: .long, help: "Customers per second, 1 to 1000. Apple is asked as often.")
  var rate = 10

  @Flag(name: .customLong("from-csv"), help: "FILE is a CSV: user_id,original_transaction_id,tier or RevenueCat's.")
  var isCSV = false

  @Flag(name: .long, help: "Give what RevenueCat gave without a purchase, as a grant with the same end.")
  var grantPromotions = false

  @Flag(name: .long, help: "Post nothing: compare with what the service knows already.")
  var dryRun = false

  @Flag(name: .long, help: "Take customers again whose tiers differed.")
  var again = false

  @Flag(name: .long, help: "Print a JSON object on a line for each customer who is not equal, and one with the counts.")
  var json = false

  @OptionGroup var revenueCat: RevenueCatOptions

  @OptionGroup var service: ServiceOptions

  func validate() throws {
    guard !isCSV || revenueCat.project == nil else {
      throw ValidationError("--from-csv and --from-revenuecat exclude each other.")
    }
    guard (1...1_000).contains(rate) else { throw ValidationError("--rate has to be from 1 to 1000.") }
  }

  func run() async throws {
    let environment = ProcessInfo.processInfo.environment
    let (client, transport) = try service.client(environment: environment)
    let isInteractive = Terminal.isInteractive(environment: environment)
    let path = isCSV ? try converted() : file
    if let project = revenueCat.project { try await gather(project, environment, isInteractive) }
    guard let opened = try? OpenFile(path, O_RDONLY) else {
      throw CommandOutput.failure("\(Quotation.of(path, length: 4_096)) cannot be opened.", .usage)
    }
    let progress = dryRun ? nil : ImportProgress(path: path + ".progress")
    let unequal = Mutex<[ImportReport.Line]>([])
    let run = ImportRun(
      client: client, lines: LineReader(opened, limit: ImportedLine.longest), progress: progress, rate: rate,
      isDryRun: dryRun, grantsPromotions: grantPromotions, again: again,
      output: { [json] line in
        unequal.withLock { $0.append(line) }
        print(json ? Self.json(line) : line.text)
      },
      show: { report in
        guard isInteractive else { return }
        LogOutput.standardError.write("\r\u{1B}[K\(report.summary)")
      },
      begunAnew: {
        LogOutput.standardError.write(
          "\(Quotation.of(path, length: 4_096)) has other lines than those that were settled: all are taken again.\n")
      })
    let (end, signal) = await untilInterrupted { await run.run() }
    transport.shutdown()
    if isInteractive { LogOutput.standardError.write("\n") }
    let found = unequal.withLock { $0 }
    let differences = ImportDifferences(path: path + ".differences")
    // An early end says nothing about what was found before.
    if end.failure == nil || !found.isEmpty {
      do {
        try differences.write(found, unequal: progress.map { Set($0.read().unequal.keys) } ?? Set(found.map(\.number)))
      } catch { CommandOutput.error("\(Quotation.of(differences.path, length: 4_096)) cannot be written.") }
    }
    throw report(end, signal, client.url)
  }

  /// Writes the customers of a project of RevenueCat's to the file, unless it has them, or reports what is wrong.
  private func gather(_ project: String, _ environment: [String: String], _ isInteractive: Bool) async throws {
    let (api, transport) = try revenueCat.api(environment: environment)
    defer { transport.shutdown() }
    let name = Quotation.of(file, length: 4_096)
    let customers = RevenueCatCustomers(
      api: api, project: project, path: file,
      show: { count in
        guard isInteractive else { return }
        LogOutput.standardError.write("\r\u{1B}[KRevenueCat: \(count.customers) customers, \(count.lines) to bring.")
      })
    guard !customers.isComplete else {
      LogOutput.standardError.write("\(name) is there, so RevenueCat is not asked. Remove it to ask again.\n")
      return
    }
    let (result, signal) = await untilInterrupted { () -> Result<RevenueCatCustomers.Count, ServiceClient.Failure> in
      do throws(ServiceClient.Failure) { return .success(try await customers.gather()) } catch {
        return .failure(error)
      }
    }
    if isInteractive { LogOutput.standardError.write("\n") }
    switch result {
    case .success(let count):
      LogOutput.standardError.write(
        "RevenueCat: \(count.customers) customers; \(name) has the \(count.lines) with a purchase or with access.\n")
    case .failure(let failure):
      if let signal { throw signal == .sigterm ? ExitCode.terminated : .interrupted }
      let goesOn = failure.exitCode == .unavailable ? " The same command goes on where it ended." : ""
      throw CommandOutput.failure("\(api.url): \(failure.sentence)\(goesOn)", failure.exitCode)
    }
  }

  /// Gathers the customers of a CSV in a file beside it.
  private func converted() throws -> String {
    let path = file + ".jsonl"
    do {
      let text = try CustomersCSV(BoundedFile(path: file, limit: CustomersCSV.largest).bytes).text
      try NewFile.replace(path, with: text)
      return path
    } catch let error as BoundedFile.Unusable {
      CommandOutput.error("\(Quotation.of(file, length: 4_096)) \(error.reason).")
    } catch let error as CustomersCSV.Unreadable {
      CommandOutput.error("\(Quotation.of(file, length: 4_096)): \(error.sentence).")
    } catch { CommandOutput.error("\(Quotation.of(path, length: 4_096)) cannot be written.") }
    throw ExitCode.usage
  }

  private func report(_ end: ImportRun.End, _ signal: UnixSignal?, _ origin: String) -> ExitCode {
    print(json ? Self.json(end.report) : end.report.summary)
    guard let failure = end.failure else { return end.report.isEqual ? .success : .failure }
    if let signal { return signal == .sigterm ? .terminated : .interrupted }
    CommandOutput.error("\(origin): \(failure.sentence) The same command goes on where it ended.")
    return failure.exitCode
  }

  private static func json(_ value: some Encodable) -> String {
    String(decoding: (try? JSONEncoder.countersign.encode(value)) ?? Data(), as: UTF8.self)
  }
}

/// The settled lines, in a file beside the one that is imported.
///
///     20 5f0c…           every line up to this one is settled
///     4 refused 0000…    and those that follow were not equal,
///     4 same 81d2…       or were taken since: the last word about a line counts
///     21 same 07aa…
///
/// The digests say whether the lines of the file are still those. The first is the sum (XOR) of the lines that are the same or
/// differ; a line below changes the sum where it comes in or goes out. A line that was refused may be mended in the file.
struct ImportProgress: Sendable {
  struct Settled: Hashable, Sendable {
    /// Zero where there is none yet.
    var through = 0
    /// The sum (XOR) of the digests of the lines that are not taken again by themselves, which `has` names.
    var digest: UInt64 = 0
    /// The lines that were not equal.
    var unequal: [Int: ImportReport.Word] = [:]

    /// Whether a line is not taken again by itself.
    func has(_ number: Int) -> Bool {
      number <= through && (unequal[number] == nil || unequal[number] == .differs)
    }
  }

  var path: String

  func read() -> Settled {
    var settled = Settled()
    let lines = (try? String(contentsOfFile: path, encoding: .utf8))?.split(separator: "\n") ?? []
    let head = lines.first?.split(separator: " ") ?? []
    guard head.count == 2, let through = Int(head[0]), let digest = Self.digest(hexadecimal: head[1]) else {
      return settled
    }
    (settled.through, settled.digest) = (through, digest)
    for line in lines.dropFirst() {
      let words = line.split(separator: " ")
      // The last one may have been cut off.
      guard words.count == 3, let number = Int(words[0]), let word = ImportReport.Word(rawValue: String(words[1])),
        let digest = Self.digest(hexadecimal: words[2])
      else { continue }
      let hadIt = settled.has(number)
      settled.through = max(settled.through, number)
      settled.unequal[number] = word == .same ? nil : word
      if settled.has(number) != hadIt { settled.digest ^= digest }
    }
    return settled
  }

  static func digest(_ line: LineReader.Line) -> UInt64 {
    SHA256Digest(of: Data("\(line.number) ".utf8) + (line.bytes ?? Data())).bytes.prefix(8)
      .reduce(0) { $0 << 8 | UInt64($1) }
  }

  private static func digest(hexadecimal text: Substring) -> UInt64? {
    text.count == 16 ? UInt64(text, radix: 16) : nil
  }

  private static func hexadecimal(_ digest: UInt64) -> String {
    let digits = String(digest, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  /// Writes the file anew, as short as it can be.
  /// - Returns: where `note` goes on.
  func begin(_ settled: Settled) throws -> OpenFile {
    // The sum is right already.
    let lines = settled.unequal.sorted { $0.key < $1.key }.map { Self.note($0.key, $0.value, digest: 0) }
    let head = "\(settled.through) \(Self.hexadecimal(settled.digest))\n"
    try Data((head + lines.joined()).utf8).write(to: URL(filePath: path), options: .atomic)
    return try OpenFile(path, O_WRONLY | O_APPEND)
  }

  static func note(
    _ number: Int, _ word: ImportReport.Word, digest: UInt64, in file: OpenFile
  ) throws(OpenFile.Failure) {
    try file.write(Array(note(number, word, digest: digest).utf8))
  }

  private static func note(_ number: Int, _ word: ImportReport.Word, digest: UInt64) -> String {
    "\(number) \(word.rawValue) \(hexadecimal(digest))\n"
  }
}

/// Takes a file line by line, some at the same time, and notes how far it has come.
struct ImportRun {
  struct End: Sendable {
    var report: ImportReport
    /// `nil` at the end of the file.
    var failure: ServiceClient.Failure?
  }

  var client: ServiceClient
  var lines: LineReader
  var progress: ImportProgress?
  /// Customers a second.
  var rate: Int
  var isDryRun: Bool
  /// Whether what the other service gave without a purchase is given here.
  var grantsPromotions = false
  /// Whether customers whose tiers differed are taken again.
  var again = false
  var output: @Sendable (ImportReport.Line) -> Void
  var show: @Sendable (ImportReport) -> Void = { _ in }
  /// The file has other lines than those that were settled.
  var begunAnew: @Sendable () -> Void = {}
  var clock: @Sendable () -> ContinuousClock.Instant = { .now }
  var now: @Sendable () -> Date = { Date() }
  var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0, clock: .continuous) }

  /// Lines that are on their way at the same time.
  private static let width = 8

  private struct Settled: Sendable {
    var number: Int
    var digest: UInt64
    var user: String?
    var result: Result<ImportReport.Outcome, ServiceClient.Failure>
  }

  func run() async -> End {
    var report = ImportReport()
    do throws(ServiceClient.Failure) {
      let importer = Importer(
        client: client, tiers: try await tiers(), isDryRun: isDryRun, grantsPromotions: grantsPromotions, sleep: sleep)
      var lines = lines
      let settled = try settledBefore()
      let log: OpenFile?
      do { log = try progress?.begin(settled) } catch { throw unwritable }
      while true {
        let startedAt = clock()
        var batch: [LineReader.Line] = []
        while batch.count < Self.width {
          let line: LineReader.Line?
          do { line = try lines.next() } catch { throw .unreachable("the file cannot be read") }
          guard let line else { break }
          let former = settled.unequal[line.number]
          if line.number <= settled.through, former == nil || former == .differs && !again {
            report.skipped += 1
            report.skippedDifferent += former == nil ? 0 : 1
          } else if line.bytes?.isEmpty != true {
            batch.append(line)
          }
        }
        guard !batch.isEmpty else { return End(report: report, failure: nil) }
        let results = await mapConcurrently(batch, width: Self.width) { line in await take(line, importer) }
        var failure: ServiceClient.Failure?
        for result in results.sorted(by: { $0.number < $1.number }) {
          switch result.result {
          case .success(let outcome) where failure == nil:
            report.count(outcome)
            if let line = ImportReport.Line(result.number, user: result.user, outcome) { output(line) }
            do {
              if let log { try ImportProgress.note(result.number, outcome.word, digest: result.digest, in: log) }
            } catch { throw unwritable }
          // It is taken again with the next call: a purchase that is posted twice counts once.
          case .success: break
          case .failure(let reason): failure = failure ?? reason
          }
        }
        show(report)
        if let failure { throw failure }
        // Cancelled before all had begun.
        guard results.count == batch.count else { throw .cancelled }
        let pause = Duration.seconds(1) * batch.count / rate - (clock() - startedAt)
        if pause > .zero { do { try await sleep(pause) } catch { throw .cancelled } }
      }
    } catch { return End(report: report, failure: error) }
  }

  /// The lines that earlier calls settled; none where the file's lines have changed since.
  private func settledBefore() throws(ServiceClient.Failure) -> ImportProgress.Settled {
    guard let settled = progress?.read(), settled.through > 0 else { return ImportProgress.Settled() }
    var lines = lines
    var digest: UInt64 = 0
    do {
      while let line = try lines.next(), line.number <= settled.through {
        if settled.has(line.number), line.bytes?.isEmpty != true { digest ^= ImportProgress.digest(line) }
      }
      try lines.rewind()
    } catch { throw .unreachable("the file cannot be read") }
    guard digest != settled.digest else { return settled }
    begunAnew()
    return ImportProgress.Settled()
  }

  private var unwritable: ServiceClient.Failure {
    .unreachable("the progress cannot be written to \(progress?.path ?? "")")
  }

  private func take(_ line: LineReader.Line, _ importer: Importer) async -> Settled {
    let digest = ImportProgress.digest(line)
    guard let bytes = line.bytes else {
      return Settled(
        number: line.number, digest: digest,
        result: .success(.unreadable("it is longer than \(ImportedLine.longest / 1024 / 1024) MiB")))
    }
    let imported: ImportedLine
    do throws(ImportedLine.Unreadable) { imported = try ImportedLine(bytes, at: now()) } catch {
      return Settled(number: line.number, digest: digest, result: .success(.unreadable(error.sentence)))
    }
    do throws(ServiceClient.Failure) {
      return Settled(
        number: line.number, digest: digest, user: imported.user, result: .success(try await importer.take(imported)))
    } catch { return Settled(number: line.number, digest: digest, user: imported.user, result: .failure(error)) }
  }

  private func tiers() async throws(ServiceClient.Failure) -> [String] {
    let response = try await client.send(.get, "/v1/plans")
    let plans: PlansResponse = try ServiceClient.decode(
      response.body, or: "the plans cannot be read; is it Countersign that listens there?")
    return plans.plans.map(\.tier)
  }
}
