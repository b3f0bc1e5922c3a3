import ArgumentParser

/// The measurements. What a ratio needs is measured in the same run, once.
final class Measurements {
  let bed: Bed
  let table: Table
  let rounds: Int
  let seconds: Int
  let due: Int
  let sizes: [Int]
  /// The program to measure beside the service.
  var other: String?

  init(bed: Bed, table: Table, rounds: Int, seconds: Int, due: Int, sizes: [Int]) {
    self.bed = bed
    self.table = table
    self.rounds = rounds
    self.seconds = seconds
    self.due = due
    self.sizes = sizes
  }

  func run(_ measurement: Measurement) throws {
    switch measurement {
    case .bounds: try bounds()
    case .parts: try parts()
    case .validation: try validation()
    case .counts: try counts()
    case .sizes: try measureSizes()
    case .protocols: try protocols()
    case .large: try large()
    case .latency: try latency()
    case .concurrency: try concurrency()
    case .reads: try reads()
    case .commits: try commits()
    case .verification: try verification()
    case .storm: try storm()
    case .overload: try overload()
    case .revalidation: try revalidation()
    case .start: try start()
    case .replicas: try replicas()
    case .figures: try figures()
    case .beside: try beside()
    }
  }

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
}
