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
  @Option(help: "A Markdown file for the table.") var output: String?

  func run() async throws {
    let wanted = only.isEmpty ? Measurement.allCases : only
    let bed = try Bed(
      countersign: countersign, simulator: simulator, work: work,
      receipts: wanted.contains(.revalidation) ? Swift.max(60_000, due) : 60_000)
    defer { bed.remove() }
    let table = Table()
    print(Machine.description)
    let measurements = Measurements(bed: bed, table: table, rounds: rounds, seconds: seconds, due: due)
    for measurement in wanted { try measurements.run(measurement) }
    guard let output else { return }
    try "\(Machine.description)\n\n\(table.markdown)".write(toFile: output, atomically: true, encoding: .utf8)
  }
}

enum Measurement: String, CaseIterable, ExpressibleByArgument {
  case bounds, parts, validation, protocols, large, latency, crowd, reads, commits, verification, storm, overload
  case revalidation, start

  static var allValueDescriptions: [String: String] {
    Dictionary(uniqueKeysWithValues: allCases.map { ($0.rawValue, $0.meaning) })
  }

  private var meaning: String {
    switch self {
    case .bounds: "What bounds the rest: bare Hummingbird routes, the bare transport."
    case .parts: "CPU of decoding answers of 15 KiB and 1.7 MB, of the rules, of encoding a record."
    case .validation: "Receipts validated, recorded and written to the profile store, 32 in flight."
    case .protocols: "The same with Apple asked by HTTP/1.1 and by HTTP/2."
    case .large: "Answers of 1.7 MB."
    case .latency: "What 1, 32 and 256 callers wait beyond an upstream that takes 100 ms."
    case .crowd: "2,000 in flight, an upstream that takes 300 ms."
    case .reads: "Profiles read, as fast as 32 callers can and at 20 a second each."
    case .commits: "Group commit."
    case .verification: "Receipts verified by their signature."
    case .storm: "Each of many receipts posted 25 times at once."
    case .overload: "2,000 callers that post without a pause, while 8 read 10 profiles a second each."
    case .revalidation: "A run of re-validation over all that is due."
    case .start: "Start to ready, and memory at rest."
    }
  }
}

/// The measurements. What a ratio needs is measured in the same run, once.
final class Measurements {
  let bed: Bed
  let table: Table
  let rounds: Int
  let seconds: Int
  let due: Int

  init(bed: Bed, table: Table, rounds: Int, seconds: Int, due: Int) {
    self.bed = bed
    self.table = table
    self.rounds = rounds
    self.seconds = seconds
    self.due = due
  }

  func run(_ measurement: Measurement) throws {
    switch measurement {
    case .bounds: try bounds()
    case .parts: try parts()
    case .validation: try validation()
    case .protocols: try protocols()
    case .large: try large()
    case .latency: try latency()
    case .crowd: try crowd()
    case .reads: try reads()
    case .commits: try commits()
    case .verification: try verification()
    case .storm: try storm()
    case .overload: try overload()
    case .revalidation: try revalidation()
    case .start: try start()
    }
  }

  // MARK: - What bounds the rest

  struct Cost {
    /// Microseconds of CPU of one request.
    var cpu: Double
    var rate: Double
  }

  private var transport: [Int: Cost] = [:]
  private var routes: (get: Cost, post: Cost)?

  /// The bare transport against an upstream: CPU of one exchange.
  func transportCost(periods: Int, receiptBytes: Int, count: Int, http2: Bool = true) throws -> Cost {
    let key = periods * 2 + (http2 ? 1 : 0)
    if let known = transport[key] { return known }
    let upstream = try Upstream(bed, periods: periods, receiptBytes: receiptBytes)
    defer { upstream.stop() }
    var costs: [Cost] = []
    for _ in 0..<rounds {
      let numbers = try Child.output(
        of: bed.bench,
        [
          "transport", "--url", "\(upstream.secure)/verifyReceipt", "--ca-file", bed.certificate, "--bodies",
          bed.bodies, "--in-flight", "32", "--count", "\(count)", "--http2", http2 ? "1" : "0",
        ], core: Bed.serviceCore
      ).numbers
      costs.append(Cost(cpu: numbers["cpu_us"] ?? 0, rate: numbers["rate"] ?? 0))
    }
    let cost = Cost(cpu: costs.map(\.cpu).median, rate: costs.map(\.rate).median)
    transport[key] = cost
    return cost
  }

  /// Bare routes of Hummingbird.
  func routeCosts() throws -> (get: Cost, post: Cost) {
    if let routes { return routes }
    let child = try Child(bed.bench, ["route"], core: Bed.serviceCore, waitsForLine: true)
    defer { child.stop() }
    let origin = "http://127.0.0.1:\(Int(child.firstLine.numbers["port"] ?? 0))/"
    func cost(bodies: String?) throws -> Cost {
      let load = Load(
        url: origin, connections: 32, seconds: seconds, bodies: bodies, authorization: "none", mayWrap: true)
      _ = try load.run(in: bed.directory)
      return try median { _ in try self.measured(child, load) }
    }
    let found = (get: try cost(bodies: nil), post: try cost(bodies: bed.bodies))
    routes = found
    return found
  }

  /// One load, with the CPU that a process spent on it.
  func measured(_ child: Child, _ load: Load) throws -> Cost {
    let before = child.cpu
    let result = try load.run(in: bed.directory)
    let cpu = child.cpu - before
    guard result.failures == 0 else { throw ValidationError("\(result.failures) requests failed") }
    return Cost(cpu: cpu.microseconds / result.requests, rate: result.rate)
  }

  func median(_ measure: (Int) throws -> Cost) throws -> Cost {
    let costs = try (0..<rounds).map(measure)
    return Cost(cpu: costs.map(\.cpu).median, rate: costs.map(\.rate).median)
  }

  private func bounds() throws {
    table.section("Bounds: what the parts cost by themselves, on one core")
    let routes = try routeCosts()
    table.add(
      Row(
        name: "bare Hummingbird route, GET", value: "\(routes.get.cpu.text()) µs CPU",
        ratio: "\(routes.get.rate.text())/s"))
    table.add(
      Row(
        name: "bare Hummingbird route, POST of a receipt", value: "\(routes.post.cpu.text()) µs CPU",
        ratio: "\(routes.post.rate.text())/s"))
    let two = try transportCost(periods: 6, receiptBytes: 5_760, count: 10_000)
    let one = try transportCost(periods: 6, receiptBytes: 5_760, count: 10_000, http2: false)
    table.add(
      Row(
        name: "bare transport, 32 in flight, HTTP/2", value: "\(two.cpu.text()) µs CPU", ratio: "\(two.rate.text())/s"))
    table.add(
      Row(
        name: "bare transport, 32 in flight, HTTP/1.1", value: "\(one.cpu.text()) µs CPU", ratio: "\(one.rate.text())/s"
      ))
  }

  private func parts() throws {
    table.section("The parts of a validation that are neither network nor disk: CPU, one at a time")
    let numbers = try Child.output(of: bed.bench, ["parts", "--rounds", "\(rounds)"], core: Bed.serviceCore).numbers
    func text(_ microseconds: Double) -> String {
      microseconds < 10_000
        ? "\(microseconds.text(microseconds < 100 ? 1 : 0)) µs" : "\((microseconds / 1000).text(1)) ms"
    }
    func number(_ name: String) -> Double { numbers[name] ?? 0 }
    for (name, _, _) in PartsCommand.answers {
      let bytes = number("\(name)_bytes")
      let whole = number("\(name)_whole_us")
      let size = bytes < 1e6 ? "\((bytes / 1024).text()) KiB" : "\((bytes / 1e6).text(1)) MB"
      table.add(Row(name: "answer of \(size), jansson reads all of it", value: text(whole)))
      for (part, title) in [
        ("pass", "the first pass"), ("selected", "first pass, jansson reads the rest"),
        ("history", "all, to a history"),
      ] {
        let cost = number("\(name)_\(part)_us")
        table.add(
          Row(
            name: "answer of \(size), \(title)", value: text(cost),
            ratio: "\((cost / Swift.max(0.1, whole) * 100).text()) % of jansson reading all"))
      }
    }
    for (part, title) in [("judge", "the rules"), ("encode", "encoded for the ledger")] {
      for rows in PartsCommand.subscribers {
        let cost = number("\(part)_\(rows)_us")
        table.add(
          Row(
            name: "subscriber of \(rows) \(rows == 1 ? "row" : "rows"), \(title)", value: text(cost),
            ratio: "\((cost / Double(rows)).text(2)) µs a row"))
      }
    }
  }

  // MARK: - Validations

  private func validation() throws {
    // As the service asks with the default of 64 calls at once: by HTTP/1.1.
    let bare = try transportCost(periods: 6, receiptBytes: 5_760, count: 10_000, http2: false)
    let routes = try routeCosts()
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    table.section(
      "A receipt validated, recorded and written to the profile store (answers of \((upstream.bytes / 1024).text()) KiB)"
    )
    for (name, level) in [("", "info"), (", log level warning", "warning")] {
      var skip = 0
      let cost: Cost
      var perFsync = 0.0
      do {
        let service = try Service(bed, upstream, level: level)
        defer { service.stop() }
        func load(_ seconds: Int) -> Load {
          Load(
            url: "\(service.origin)/v1/validations", connections: 32, seconds: seconds, bodies: bed.bodies, skip: skip,
            authorization: service.authorization)
        }
        skip += Int(try load(1).run(in: bed.directory).requests) + 64
        let writes = try service.metric("countersign_ledger_commit_writes_sum")
        let commits = try service.metric("countersign_ledger_commit_writes_count")
        cost = try median { _ in
          let cost = try self.measured(service.child, load(self.seconds))
          skip += Int(cost.rate * Double(self.seconds) * 1.2) + 64
          return cost
        }
        perFsync =
          (try service.metric("countersign_ledger_commit_writes_sum") - writes)
          / Swift.max(1, try service.metric("countersign_ledger_commit_writes_count") - commits)
      }
      let ratio = cost.cpu / bare.cpu
      table.add(
        Row(
          name: "CPU of one receipt, 32 in flight\(name)", value: "\(cost.cpu.text()) µs",
          ratio: "\(ratio.text(2)) × bare transport", target: level == "info" ? "≤ 3.5 ×" : "",
          holds: level == "info" ? ratio <= 3.5 : nil))
      table.add(
        Row(
          name: "receipts a second\(name)", value: "\(cost.rate.text())/s",
          ratio: "\((cost.rate / routes.post.rate * 100).text()) % of the bare POST route"))
      table.add(Row(name: "writes of the ledger per fsync\(name)", value: perFsync.text(1)))
    }
  }

  /// `app_store.concurrency` decides: one connection for each call up to 256, HTTP/2 above.
  private func protocols() throws {
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    table.section("A receipt validated, 32 in flight: how Apple is asked")
    let kinds = [("HTTP/1.1", 256), ("HTTP/2", 257)]
    let services = try kinds.map {
      try Service(bed, upstream, settings: ["app_store": ["concurrency: \($0.1)"]])
    }
    defer { for service in services { service.stop() } }
    var skips = [0, 0]
    var costs: [[Cost]] = [[], []]
    // In turns, so that a machine that slows down slows both.
    for round in 0...rounds {
      for (index, service) in services.enumerated() {
        let cost = try measured(
          service.child,
          Load(
            url: "\(service.origin)/v1/validations", connections: 32, seconds: round == 0 ? 1 : seconds,
            bodies: bed.bodies, skip: skips[index], authorization: service.authorization))
        skips[index] += Int(cost.rate * Double(seconds) * 1.2) + 64
        if round > 0 { costs[index].append(cost) }
      }
    }
    let cpu = costs.map { $0.map(\.cpu).median }
    for (index, kind) in kinds.enumerated() {
      table.add(
        Row(
          name: "CPU of one receipt, \(kind.0) (concurrency \(kind.1))", value: "\(cpu[index].text()) µs",
          ratio: index == 0 ? "" : "\((cpu[index] / Swift.max(1, cpu[0])).text(2)) × \(kinds[0].0)",
          target: "\(costs[index].map(\.rate).median.text())/s"))
    }
  }

  private func large() throws {
    let periods = 900
    let receiptBytes = 300_000
    let bare = try transportCost(periods: periods, receiptBytes: receiptBytes, count: 400, http2: false)
    let upstream = try Upstream(bed, periods: periods, receiptBytes: receiptBytes)
    defer { upstream.stop() }
    table.section("Answers of \((upstream.bytes / 1e6).text(1)) MB, \(2 * periods) rows")
    let service = try Service(bed, upstream)
    defer { service.stop() }
    var skip = 0
    func load(_ seconds: Int) -> Load {
      Load(
        url: "\(service.origin)/v1/validations", connections: 8, seconds: seconds, bodies: bed.bodies, skip: skip,
        authorization: service.authorization)
    }
    skip += Int(try load(1).run(in: bed.directory).requests) + 64
    let cost = try median { _ in
      let cost = try self.measured(service.child, load(self.seconds))
      skip += Int(cost.rate * Double(self.seconds) * 1.2) + 64
      return cost
    }
    let ratio = cost.cpu / bare.cpu
    table.add(
      Row(
        name: "CPU of one receipt", value: "\((cost.cpu / 1000).text(2)) ms",
        ratio: "\(ratio.text(2)) × bare transport",
        target: "≤ 6 ×", holds: ratio <= 6))
    table.add(Row(name: "peak memory", value: "\(service.child.memory("VmHWM").text()) MB"))
  }

  private func latency() throws {
    let delay = 100
    let upstream = try Upstream(bed, delay: delay)
    defer { upstream.stop() }
    table.section("Latency added to an upstream that takes \(delay) ms")
    for connections in [1, 32, 256] {
      let service = try Service(bed, upstream, settings: ["app_store": ["concurrency: 512"]])
      defer { service.stop() }
      var skip = 0
      var results: [LoadResult] = []
      for round in 0...rounds {
        let result = try Load(
          url: "\(service.origin)/v1/validations", connections: connections, seconds: seconds, bodies: bed.bodies,
          skip: skip, authorization: service.authorization
        ).run(in: bed.directory)
        guard result.failures == 0 else { throw ValidationError("\(result.failures) requests failed") }
        skip += Int(result.requests) + connections
        if round > 0 { results.append(result) }
      }
      table.add(
        Row(
          name: "\(connections) in flight",
          value: "p50 \((results.map(\.p50).median - Double(delay)).text(1)) ms",
          ratio: "p99 \((results.map(\.p99).median - Double(delay)).text(1)) ms",
          target: "\(results.map(\.rate).median.text())/s"))
    }
  }

  /// Right is each verdict whose subscription is the one of the user's own receipt. Those that were in flight when the load
  /// ended have one or have none; nobody may have another, and at least as many have theirs as were answered.
  private func wrong(_ service: Service, first: Int, answered: Int, inFlight: Int) throws -> Int {
    let posts = try PostedBodies.read(bed.bodies, limit: first + answered + inFlight).suffix(answered + inFlight)
    let list = "\(bed.directory)/profiles.txt"
    let config = posts.map { "url = \"\(service.origin)/v1/profiles/\($0.userID)\"\n" }.joined()
    try config.write(toFile: list, atomically: true, encoding: .utf8)
    let text = try Child.output(
      of: "curl",
      ["-sS", "-w", "\\n", "-H", "Authorization: \(service.authorization)", "-K", list], core: Bed.othersCore)
    struct Answer: Decodable {
      var user_id: String
      var tier: String
      var original_transaction_id: String?
    }
    var theirs: [String: String] = [:]
    for post in posts { theirs[post.userID] = AnswerTemplate.originalTransactionID(of: post.receiptData.utf8) }
    var right = 0
    var others = 0
    for line in text.split(separator: "\n") {
      let answer = try JSONDecoder().decode(Answer.self, from: Data(line.utf8))
      guard let id = answer.original_transaction_id else { continue }
      if answer.tier == "pro", id == theirs[answer.user_id] { right += 1 } else { others += 1 }
    }
    return others + Swift.max(0, answered - right)
  }

  private func crowd() throws {
    let delay = 300
    let upstream = try Upstream(bed, delay: delay)
    defer { upstream.stop() }
    table.section("2,000 in flight, an upstream that takes \(delay) ms")
    let service = try Service(
      bed, upstream,
      settings: ["app_store": ["concurrency: 2048"], "server": ["max_bytes_in_flight: 64MiB"]])
    defer { service.stop() }
    var skip = 0
    var results: [LoadResult] = []
    var costs: [Double] = []
    var wrongAnswers = 0
    for round in 0...Swift.min(rounds, 3) {
      let before = service.child.cpu
      let calls = try upstream.calls()
      let result = try Load(
        url: "\(service.origin)/v1/validations", connections: 2_000, seconds: 6, bodies: bed.bodies, skip: skip,
        authorization: service.authorization, countsStatuses: true
      ).run(in: bed.directory)
      if round > 0 {
        results.append(result)
        // By those that were begun: many are in flight when the load ends, and most of their work is done.
        costs.append((service.child.cpu - before).microseconds / Swift.max(1, try upstream.calls() - calls))
        wrongAnswers += Int(result.failures)
        wrongAnswers += try wrong(
          service, first: skip, answered: Int(result.requests - result.failures), inFlight: 2_000)
      }
      skip += Int(result.requests) + 2_000
    }
    let peak = service.child.memory("VmHWM")
    table.add(
      Row(name: "wrong or missing answers", value: "\(wrongAnswers)", target: "0", holds: wrongAnswers == 0))
    table.add(Row(name: "CPU of one receipt", value: "\(costs.median.text()) µs"))
    table.add(
      Row(
        name: "receipts a second", value: "\(results.map(\.rate).median.text())/s",
        ratio: "of \(2000 * 1000 / delay)/s offered"))
    table.add(Row(name: "peak memory", value: "\(peak.text()) MB", target: "< 160 MB", holds: peak < 160))
    let added = results.map(\.p99).median - Double(delay)
    table.add(Row(name: "p50 added", value: "\((results.map(\.p50).median - Double(delay)).text()) ms"))
    table.add(Row(name: "p99 added", value: "\(added.text()) ms", target: "< 100 ms", holds: added < 100))
  }

  // MARK: - Reads, commits, signatures

  private func reads() throws {
    let routes = try routeCosts()
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    let service = try Service(bed, upstream)
    defer { service.stop() }
    table.section("Reads of profiles, of one user after the other")
    let posted = try Load(
      url: "\(service.origin)/v1/validations", connections: 32, seconds: 2, bodies: bed.bodies,
      authorization: service.authorization
    ).run(in: bed.directory)
    let users = Int(posted.requests)
    let load = Load(
      url: "\(service.origin)/v1/profiles/user-", connections: 32, seconds: seconds,
      authorization: service.authorization, users: users)
    _ = try load.run(in: bed.directory)
    let cost = try median { _ in try self.measured(service.child, load) }
    let share = cost.rate / routes.get.rate
    table.add(
      Row(
        name: "reads a second, 32 callers", value: "\(cost.rate.text())/s, \(cost.cpu.text()) µs CPU",
        ratio: "\((share * 100).text()) % of the bare route", target: "≥ 70 %", holds: share >= 0.7))
    try pacedReads(load, of: service)
  }

  /// Callers that rest between two reads, so that hardly any waits for another: what is left is how long a read takes. The
  /// same of a bare route tells how much of it is Hummingbird's, and how much it takes to wake two cores that were idle.
  private func pacedReads(_ load: Load, of service: Service) throws {
    let perSecond = 20
    let route = try Child(bed.bench, ["route"], core: Bed.serviceCore, waitsForLine: true)
    defer { route.stop() }
    var paced = load
    paced.pause = 1000 / perSecond
    // At 20 a second each, less is too few for a p99.
    paced.seconds = Swift.max(seconds, 2)
    var bare = paced
    bare.url = "http://127.0.0.1:\(Int(route.firstLine.numbers["port"] ?? 0))/"
    bare.users = 0
    var results: [LoadResult] = []
    var bounds: [LoadResult] = []
    for _ in 0..<rounds {
      bounds.append(try bare.run(in: bed.directory))
      results.append(try paced.run(in: bed.directory))
    }
    guard (results + bounds).allSatisfy({ $0.failures == 0 }) else { throw ValidationError("reads failed") }
    let p99 = results.map(\.p99).median
    func row(_ name: String, _ results: [LoadResult]) -> Row {
      Row(
        name: "p99, 32 callers of \(perSecond) a second each\(name)", value: "\(results.map(\.p99).median.text(2)) ms",
        ratio: "p50 \(results.map(\.p50).median.text(2)) ms, \(results.map(\.rate).median.text())/s")
    }
    var read = row("", results)
    read.target = "< 1 ms"
    read.holds = p99 < 1
    table.add(read)
    table.add(row(", bare route", bounds))
  }

  private func commits() throws {
    table.section("Group commit: each acknowledged after its own fsync")
    let numbers = try (0..<rounds).map { round in
      let directory = "\(bed.directory)/commits-\(round)"
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      return try Child.output(of: bed.bench, ["commit", "--directory", directory], core: Bed.serviceCore).numbers
    }
    func middle(_ name: String) -> Double { numbers.map { $0[name] ?? 0 }.median }
    let gain = middle("rate") / Swift.max(1, middle("alone_rate"))
    table.add(
      Row(
        name: "ledger alone, 256 callers", value: "\(middle("rate").text())/s, \(middle("cpu_us").text()) µs CPU",
        ratio: "\(gain.text(1)) × one commit per row", target: "\(middle("per_commit").text(1)) per fsync"))
    table.add(
      Row(
        name: "ledger alone, one caller",
        value: "\(middle("alone_rate").text())/s, \(middle("alone_cpu_us").text()) µs CPU"))
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    let service = try Service(bed, upstream, settings: ["app_store": ["concurrency: 256"]])
    defer { service.stop() }
    let before = try service.metric("countersign_ledger_commit_writes_count")
    let result = try Load(
      url: "\(service.origin)/v1/validations", connections: 256, seconds: seconds * 2, bodies: bed.bodies,
      authorization: service.authorization
    ).run(in: bed.directory)
    let commits = try service.metric("countersign_ledger_commit_writes_count") - before
    let perFsync = result.requests / Swift.max(1, commits)
    table.add(
      Row(
        name: "the service, 256 in flight", value: "\(result.rate.text())/s",
        ratio: "\(perFsync.text(1)) validations per fsync", target: "≥ 10", holds: perFsync >= 10))
  }

  private func verification() throws {
    table.section("Receipts verified here, the chain seen before")
    let numbers = try Child.output(
      of: bed.bench, ["verification", "--bodies", bed.bodies, "--root", bed.root, "--rounds", "\(rounds)"],
      core: Bed.serviceCore
    ).numbers
    let rsa = numbers["rsa_us"] ?? 0
    let verify = numbers["verify_us"] ?? 1
    let whole = numbers["whole_us"] ?? 1
    table.add(Row(name: "bare RSA-2048 verification", value: "\(rsa.text(1)) µs", ratio: "\((1e6 / rsa).text())/s"))
    table.add(
      Row(
        name: "signature of a decoded receipt", value: "\(verify.text(1)) µs",
        ratio: "\((rsa / verify * 100).text()) % of bare RSA", target: "≥ 60 %", holds: rsa / verify >= 0.6))
    table.add(
      Row(
        name: "base64 to verified purchases", value: "\(whole.text(1)) µs",
        ratio: "\((rsa / whole * 100).text()) % of bare RSA"))
  }

  // MARK: - Storms

  private func storm() throws {
    let upstream = try Upstream(bed, delay: 100)
    defer { upstream.stop() }
    let service = try Service(bed, upstream)
    defer { service.stop() }
    table.section("A storm: each of many receipts posted 25 times at once, 1,000 callers")
    let calls = try upstream.calls()
    let result = try Load(
      url: "\(service.origin)/v1/validations", connections: 1_000, seconds: 4, bodies: bed.bodies, repeats: 25,
      authorization: service.authorization, countsStatuses: true
    ).run(in: bed.directory)
    let asked = try upstream.calls() - calls
    let receipts = (result.requests / 25).rounded(.up)
    table.add(Row(name: "answers", value: "\(result.requests.text())", ratio: "\(result.rate.text())/s"))
    table.add(
      Row(
        name: "refused or failed", value: result.failures.text(), target: "0", holds: result.failures == 0))
    // What is in flight when the load ends was asked about, and is not counted as answered.
    table.add(
      Row(
        name: "calls to Apple", value: asked.text(), ratio: "\(receipts.text()) receipts answered",
        target: "one per receipt", holds: asked <= receipts + 41))
    table.add(Row(name: "peak memory", value: "\(service.child.memory("VmHWM").text()) MB"))
  }

  private func overload() throws {
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    let service = try Service(bed, upstream)
    defer { service.stop() }
    table.section("Overload")
    var skip = 0
    func post(_ connections: Int, seconds: Int) -> Load {
      Load(
        url: "\(service.origin)/v1/validations", connections: connections, seconds: seconds, bodies: bed.bodies,
        skip: skip, authorization: service.authorization, countsStatuses: true)
    }
    func goodput(_ result: LoadResult) -> Double { (result.statuses[200]?.count ?? 0) / result.seconds }
    let first = try post(32, seconds: seconds + 1).run(in: bed.directory)
    skip += Int(first.requests) + 32
    let peak = try post(32, seconds: seconds + 1).run(in: bed.directory)
    skip += Int(peak.requests) + 32
    // They read before the storm, and stay connected when it comes. Meanwhile others come one at a time.
    let long = Swift.max(6, seconds)
    let reads = Load(
      url: "\(service.origin)/v1/profiles/user-", connections: 8, seconds: long, pause: 100,
      authorization: service.authorization, users: Int(first.requests))
    let calm = try reads.run(in: bed.directory)
    let readsEnded = try reads.begin(in: bed.directory)
    usleep(300_000)
    let ended = try post(2_000, seconds: long).begin(in: bed.directory)
    let newcomers = newcomers(to: service, until: .now.advanced(by: .seconds(long - 1)))
    let meanwhile = try readsEnded()
    let over = try ended()

    table.add(Row(name: "peak, 32 callers", value: "\(goodput(peak).text())/s", ratio: "p99 \(peak.p99.text()) ms"))
    let share = goodput(over) / goodput(peak)
    table.add(
      Row(
        name: "2,000 callers that ask again at once", value: "\(goodput(over).text())/s",
        ratio: "\((share * 100).text()) % of the peak", target: "≥ 90 %", holds: share >= 0.9))
    let verdicts = over.statuses[200]
    table.add(
      Row(
        name: "p99 of validations", value: "\((verdicts?.p99 ?? 0).text()) ms",
        ratio: "p50 \((verdicts?.p50 ?? 0).text()) ms"))
    let refused = over.statuses[503]
    table.add(
      Row(
        name: "refused with 503", value: "\((refused?.count ?? 0).text())",
        ratio: refused.map { "p50 \($0.p50.text(1)) ms, p99 \($0.p99.text(1)) ms" } ?? ""))
    let others = over.requests - (verdicts?.count ?? 0) - (refused?.count ?? 0)
    table.add(Row(name: "answers of other statuses", value: others.text(), target: "0", holds: others == 0))
    for (name, result) in [("before", calm), ("meanwhile", meanwhile)] {
      table.add(
        Row(
          name: "p99 of reads \(name), 8 callers of 10 a second each", value: "\(result.p99.text(1)) ms",
          ratio: "p50 \(result.p50.text(1)) ms, \(result.failures.text()) of \(result.requests.text()) failed"))
    }
    table.add(
      Row(
        name: "reads meanwhile on new connections, the median", value: "\(newcomers.median.text(1)) ms",
        ratio: "of \(newcomers.count), the slowest \((newcomers.max() ?? 0).text(1)) ms"))
  }

  /// Milliseconds of reads one after the other, each on a connection of its own; ten seconds are the most that one waits.
  private func newcomers(to service: Service, until end: ContinuousClock.Instant) -> [Double] {
    var times: [Double] = []
    while .now < end {
      let seconds = try? Child.output(
        of: "curl",
        [
          "-sS", "-f", "-m", "10", "-o", "/dev/null", "-w", "%{time_total}", "-H",
          "Authorization: \(service.authorization)", "\(service.origin)/v1/profiles/user-0",
        ], core: Bed.othersCore)
      times.append(seconds.flatMap(Double.init).map { $0 * 1000 } ?? 10_000)
      usleep(100_000)
    }
    return times
  }

  // MARK: - Jobs and start

  private func revalidation() throws {
    let rate = 500.0
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    table.section("A run of re-validation over \(due) subscriptions, configured for \(rate.text())/s")
    let ledger = "\(bed.directory)/due.sqlite"
    _ = try Child.output(of: bed.bench, ["seed", "--ledger", ledger, "--bodies", bed.bodies, "--count", "\(due)"])
    let service = try Service(
      bed, upstream, settings: ["revalidation": ["rate: \(Int(rate))"]], ledger: ledger)
    defer { service.stop() }
    let begin = ContinuousClock.now
    let calls = try upstream.calls()
    _ = try Child.output(
      of: "curl",
      [
        "-sS", "-f", "-X", "POST", "-H", "Authorization: \(service.authorization)", "-H",
        "Content-Type: application/json",
        "-d", "{\"expiring_within\":\"24h\",\"limit\":\(due)}", "\(service.origin)/v1/revalidations",
      ])
    var memory: [Double] = []
    var previous = calls
    var paces: [Double] = []
    let cpu = service.child.cpu
    while true {
      let mark = ContinuousClock.now
      sleep(10)
      let now = try upstream.calls()
      if now - calls >= Double(due) { break }
      paces.append((now - previous) / (ContinuousClock.now - mark).seconds)
      previous = now
      memory.append(service.child.memory())
      guard (ContinuousClock.now - begin).seconds < Double(due) / rate * 2 + 60 else { break }
    }
    let asked = try upstream.calls() - calls
    let pace = paces.dropFirst().map { $0 }.median
    let off = abs(pace - rate) / rate
    let growth = (memory.max() ?? 0) - (memory.dropFirst().first ?? 0)
    table.add(Row(name: "asked about", value: asked.text(), target: "\(due)", holds: asked >= Double(due)))
    table.add(
      Row(
        name: "pace, median of ten seconds", value: "\(pace.text(1))/s", ratio: "\((off * 100).text(1)) % off",
        target: "≤ 5 %", holds: off <= 0.05))
    table.add(
      Row(
        name: "memory: growth after the first 20 s", value: "\(growth.text(1)) MB",
        ratio: "\((memory.last ?? 0).text()) MB at the end", target: "≤ 20 MB", holds: growth <= 20))
    table.add(
      Row(
        name: "CPU of one subscription",
        value: "\(((service.child.cpu - cpu).microseconds / Swift.max(1, asked)).text()) µs"))
  }

  private func start() throws {
    table.section("Start")
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    var starts: [Double] = []
    var memories: [Double] = []
    for _ in 0..<Swift.max(rounds, 3) {
      let service = try Service(bed, upstream)
      starts.append(service.readyAfter.milliseconds)
      sleep(2)
      memories.append(service.child.memory())
      service.stop()
    }
    table.add(
      Row(
        name: "start to ready, with a new ledger", value: "\(starts.median.text()) ms", target: "< 150 ms",
        holds: starts.median < 150))
    table.add(
      Row(
        name: "idle memory", value: "\(memories.median.text(1)) MB", target: "< 40 MB", holds: memories.median < 40))
  }
}
