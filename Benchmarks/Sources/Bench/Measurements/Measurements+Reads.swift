import ArgumentParser

extension Measurements {
  func reads() throws {
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
    try access(load, of: service, besides: cost)
    try pacedReads(load, of: service)
  }

  /// What a user may do, and consumption, beside a profile read and a receipt of the same run.
  private func access(_ load: Load, of service: Service, besides read: Cost) throws {
    var load = load
    load.suffix = "/access"
    _ = try load.run(in: bed.directory)
    let access = try median { _ in try self.measured(service.child, load) }
    let times = access.cpu / read.cpu
    table.add(
      Row(
        name: "reads of /access a second, 32 callers", value: "\(access.rate.text())/s, \(access.cpu.text()) µs CPU",
        ratio: "\(times.text(2)) of a profile read", target: "≤ 1.5", holds: times <= 1.5))
    let receipt = try measured(
      service.child,
      Load(
        url: "\(service.origin)/v1/validations", connections: 32, seconds: seconds, bodies: bed.bodies,
        skip: load.users,
        authorization: service.authorization, mayWrap: true))
    load.suffix = "/usage/questions"
    load.method = "POST"
    let consumption = try median { _ in try self.measured(service.child, load) }
    let share = consumption.cpu / receipt.cpu
    table.add(
      Row(
        name: "consumptions a second, 32 callers",
        value: "\(consumption.rate.text())/s, \(consumption.cpu.text()) µs CPU",
        ratio: "\(share.text(2)) of a receipt", target: "≤ 0.33", holds: share <= 0.33))
    // A sum over all that the user consumed in the month would grow with each request.
    load.users = 1
    let ofOne = try median { _ in try self.measured(service.child, load) }
    let growth = ofOne.cpu / consumption.cpu
    table.add(
      Row(
        name: "the same of one user", value: "\(ofOne.rate.text())/s, \(ofOne.cpu.text()) µs CPU",
        ratio: "\(growth.text(2)) of one of many users", target: "≤ 1.2", holds: growth <= 1.2))
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
}
