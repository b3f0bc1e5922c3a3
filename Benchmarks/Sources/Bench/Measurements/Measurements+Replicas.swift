import ArgumentParser
import Foundation

extension Measurements {
  /// The ledger in PostgreSQL beside the ledger in a file, in turns; and three replicas beside three services that have a
  /// ledger each.
  ///
  /// All share the service's core, and the server has the other one with the callers and what plays Apple. So a second's
  /// receipts say nothing of machines of their own; CPU does. Three processes on one core cost more than one does, whatever
  /// they do, and machines of their own would not: the cost of the shared ledger is the difference to three that share none.
  /// Where a receipt costs three replicas what it costs those, three machines do three times as much as one, as long as the
  /// database's machine can.
  func replicas() throws {
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    let server = try DatabaseServer()
    defer { server.stop() }
    var skip = 0
    let bodies = try bodiesOfUUIDs()
    let ledger = try seededLedger(upstream, server, bodies: bodies, posted: &skip)
    let databases = try ["own_1", "own_2"].map { try server.copy(as: $0) }
    let file = try Service(bed, upstream, ledger: ledger)
    defer { file.stop() }
    let first = try Service(bed, upstream, database: server.url)
    defer { first.stop() }
    func load(_ service: Service, connections: Int, part: Int = 0) -> Load {
      Load(
        url: "\(service.origin)/v1/validations", connections: connections, seconds: seconds, bodies: bodies,
        skip: skip + part * Self.perLoad, authorization: service.authorization)
    }
    func begin(_ services: [Service]) throws -> (replica: Double, database: Double, rate: Double) {
      let before = (services.map(\.child.cpu).reduce(.zero, +), server.cpu)
      let loads = try services.enumerated().map { part, service in
        try load(service, connections: max(1, 32 / services.count), part: part).begin(in: bed.directory)
      }
      let results = try loads.map { try $0() }
      let after = (services.map(\.child.cpu).reduce(.zero, +), server.cpu)
      let requests = results.map(\.requests).reduce(0, +)
      let failures = results.map(\.failures).reduce(0, +)
      guard failures == 0, requests > 0 else { throw ValidationError("\(failures) requests failed") }
      // No receipt is posted twice.
      skip += services.count == 1 ? Int(requests) + 100 : Self.perLoad * services.count
      return (
        (after.0 - before.0).microseconds / requests, (after.1 - before.1).microseconds / requests,
        results.map(\.rate).reduce(0, +)
      )
    }
    typealias Round = (replica: Double, database: Double, rate: Double)
    var rounds: [[Round]] = [[], [], [], []]
    for round in 0...self.rounds {
      let two = [try begin([file]), try begin([first])]
      if round > 0 { for (index, one) in two.enumerated() { rounds[index].append(one) } }
    }
    let others = try (0..<2).map { _ in try Service(bed, upstream, database: server.url) }
    defer { for other in others { other.stop() } }
    let separate = try databases.map { try Service(bed, upstream, database: $0) }
    defer { for service in separate { service.stop() } }
    for round in 0...self.rounds {
      let two = [try begin([first] + others), try begin([first] + separate)]
      if round > 0 { for (index, three) in two.enumerated() { rounds[2 + index].append(three) } }
    }
    let conflicts = try ([first] + others).map { try $0.metric("countersign_ledger_conflicts_total") }.reduce(0, +)
    let commits = try ([first] + others).map { try $0.metric("countersign_ledger_commit_writes_count") }.reduce(0, +)
    let cpu = rounds.map { $0.map(\.replica).median }
    let database = rounds.map { $0.map(\.database).median }
    table.section("Replicas: the ledger in PostgreSQL, \(Self.seeded) users, 32 in flight")
    table.add(Row(name: "CPU of one receipt, ledger in a file", value: "\(cpu[0].text()) µs"))
    table.add(
      Row(
        name: "CPU of one receipt, one replica", value: "\(cpu[1].text()) µs",
        ratio: "\((cpu[1] / max(1, cpu[0])).text(2)) × the ledger in a file", target: "≤ 1.5 ×",
        holds: cpu[1] / max(1, cpu[0]) <= 1.5))
    table.add(
      Row(
        name: "CPU of PostgreSQL for it", value: "\(database[1].text()) µs",
        ratio: "\((database[1] / max(1, cpu[1])).text(2)) × the replica"))
    table.add(
      Row(
        name: "CPU of one receipt, each of three services with a ledger each", value: "\(cpu[3].text()) µs",
        ratio: "\((cpu[3] / max(1, cpu[1])).text(2)) × one, for the shared core"))
    table.add(
      Row(
        name: "CPU of one receipt, each of three replicas", value: "\(cpu[2].text()) µs",
        ratio: "\((cpu[2] / max(1, cpu[3])).text(2)) × those"))
    table.add(
      Row(
        name: "CPU of PostgreSQL for it, three replicas", value: "\(database[2].text()) µs",
        ratio: "\((database[2] / max(1, database[1])).text(2)) × with one"))
    table.add(
      Row(name: "conflicts of an operation that was committed", value: (conflicts / max(1, commits)).text(3)))
    // Three machines do no more than three times as much.
    let gain = min(3, 3 * cpu[3] / max(1, cpu[2]))
    table.add(
      Row(
        name: "receipts a second, 1 → 3 replicas, by the model", value: "\(gain.text(2)) ×",
        ratio: "a core each; \((gain * database[2] / max(1, cpu[1])).text(1)) for the database", target: "≥ 2.5 ×",
        holds: gain >= 2.5))
  }

  /// Subscriptions that are known before. In a new ledger each operation would meet each other one in the few pages of the
  /// indexes.
  private static let seeded = 100_000
  /// More receipts than one of three services is posted in a load.
  private static let perLoad = 1_000

  /// The posts, in no order, with users as apps name them. Neighbours in an index are conflicts of each other, and users with
  /// numbers would all be neighbours.
  private func bodiesOfUUIDs() throws -> String {
    let path = "\(bed.directory)/posts.txt"
    let program = """
      import random, re, sys, uuid
      lines, chance = open(sys.argv[1]).readlines(), random.Random(1)
      chance.shuffle(lines)
      with open(sys.argv[2], "w") as out:
        for line in lines:
          user = str(uuid.UUID(int=chance.getrandbits(128), version=4))
          out.write(re.sub(r'"user-\\d+"', '"%s"' % user, line, count=1))
      """
    _ = try Child.output(of: "python3", ["-c", program, bed.bodies, path])
    return path
  }

  /// Makes a ledger, and copies it into the server.
  private func seededLedger(
    _ upstream: Upstream, _ server: DatabaseServer, bodies: String, posted: inout Int
  ) throws -> String {
    let ledger = "\(bed.directory)/replicas.sqlite"
    let service = try Service(bed, upstream, ledger: ledger)
    defer { service.stop() }
    let load = Load(
      url: "\(service.origin)/v1/validations", connections: 32, seconds: 1, bodies: bodies,
      authorization: service.authorization)
    posted = Int(try load.run(in: bed.directory).requests) + 64
    service.child.stop()
    _ = try Child.output(of: "scripts/seed-ledger", [ledger, "\(Self.seeded)"])
    _ = try Child.output(
      of: bed.countersign, ["ledger", "copy", "--to", server.url, "--config", "\(service.directory)/countersign.yaml"])
    _ = try Child.output(of: "psql", [server.url, "-qc", "ANALYZE"])
    return ledger
  }
}
