import ArgumentParser
import Foundation

extension Measurements {
  /// The ledger in PostgreSQL beside the ledger in a file, in turns; and three replicas beside one.
  ///
  /// Replicas share the service's core, and the server has the other one with the callers and what plays Apple. So a second's
  /// receipts say nothing of machines of their own; CPU does: where a receipt costs three replicas what it costs one, three
  /// machines do three times as much, as long as the database's machine can.
  func replicas() throws {
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    let server = try DatabaseServer()
    defer { server.stop() }
    let file = try Service(bed, upstream)
    defer { file.stop() }
    let first = try Service(bed, upstream, database: server.url)
    defer { first.stop() }
    var skip = 0
    func load(_ service: Service, connections: Int, part: Int = 0) -> Load {
      Load(
        url: "\(service.origin)/v1/validations", connections: connections, seconds: seconds, bodies: bed.bodies,
        skip: skip + part * 1_500, authorization: service.authorization)
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
      skip += services.count == 1 ? Int(requests) + 100 : 1_500 * services.count
      return (
        (after.0 - before.0).microseconds / requests, (after.1 - before.1).microseconds / requests,
        results.map(\.rate).reduce(0, +)
      )
    }
    typealias Round = (replica: Double, database: Double, rate: Double)
    var rounds: [[Round]] = [[], [], []]
    for round in 0...self.rounds {
      let two = [try begin([file]), try begin([first])]
      if round > 0 { for (index, one) in two.enumerated() { rounds[index].append(one) } }
    }
    let others = try (0..<2).map { _ in try Service(bed, upstream, database: server.url) }
    defer { for other in others { other.stop() } }
    for round in 0...self.rounds {
      // One replica once more: the ledger has grown meanwhile.
      let one = try begin([first])
      let three = try begin([first] + others)
      if round > 0 {
        rounds[1].append(one)
        rounds[2].append(three)
      }
    }
    let cpu = rounds.map { $0.map(\.replica).median }
    let database = rounds.map { $0.map(\.database).median }
    table.section("Replicas: the ledger in PostgreSQL, 32 in flight")
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
        name: "CPU of one receipt, each of three replicas", value: "\(cpu[2].text()) µs",
        ratio: "\((cpu[2] / max(1, cpu[1])).text(2)) × one replica"))
    table.add(
      Row(
        name: "CPU of PostgreSQL for it, three replicas", value: "\(database[2].text()) µs",
        ratio: "\((database[2] / max(1, database[1])).text(2)) × with one"))
    let gain = 3 * cpu[1] / max(1, cpu[2])
    table.add(
      Row(
        name: "receipts a second, 1 → 3 replicas, by the model", value: "\(gain.text(2)) ×",
        ratio: "a core each; \((3 * database[2] / max(1, cpu[2])).text(1)) for the database", target: "≥ 2.5 ×",
        holds: gain >= 2.5))
  }
}
