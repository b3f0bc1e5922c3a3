import ArgumentParser
import Foundation

extension Measurements {
  private struct BesideLoad {
    var name: String
    var connections: Int
    /// Milliseconds that Apple takes.
    var delay = 0
    var periods = 6
    var receiptBytes = 5_760
    var concurrency = 256
  }

  /// The service and another server in turns, with the same receipts, and the same Apple and profile store.
  func beside() throws {
    guard let other else { throw ValidationError("--beside names the other server's program") }
    let name = URL(filePath: other).lastPathComponent
    for load in [
      BesideLoad(name: "32 in flight", connections: 32),
      BesideLoad(name: "one caller", connections: 1),
      BesideLoad(name: "answers of 1.8 MB, 8 in flight", connections: 8, periods: 900, receiptBytes: 300_000),
      BesideLoad(
        name: "2,000 in flight, Apple takes 300 ms", connections: 2_000, delay: 300, concurrency: 512),
    ] {
      let upstream = try Upstream(bed, delay: load.delay, periods: load.periods, receiptBytes: load.receiptBytes)
      defer { upstream.stop() }
      table.section("The service beside \(name): \(load.name)")
      let servers = [
        try Service(bed, upstream, settings: ["app_store": ["concurrency: \(load.concurrency)"]]),
        try Service(bed, upstream, program: other),
      ]
      defer { for server in servers { server.stop() } }
      var costs: [[Double]] = [[], []]
      var results: [[LoadResult]] = [[], []]
      var skip = 0
      for round in 0...rounds {
        var sent = 0.0
        for (index, server) in servers.enumerated() {
          let calls = try callsAtRest(upstream)
          let before = server.child.cpu
          let result = try Load(
            url: "\(server.origin)/v1/validations", connections: load.connections,
            seconds: round == 0 ? 1 : seconds, bodies: bed.bodies, skip: skip, authorization: server.authorization
          ).run(in: bed.directory)
          sent = Swift.max(sent, result.requests)
          guard round > 0 else { continue }
          results[index].append(result)
          // By the receipts begun: of 2,000 in flight, many have no answer when the load ends.
          let begun = try callsAtRest(upstream) - calls
          costs[index].append((server.child.cpu - before).microseconds / Swift.max(1, begun))
        }
        skip += Int(sent) + load.connections
      }
      let failures = results.map { $0.map(\.failures).reduce(0, +) }
      if failures != [0, 0] {
        table.add(
          Row(
            name: "requests that failed", value: failures[0].text(), ratio: "\(name)'s \(failures[1].text())",
            target: "0", holds: failures[0] == 0))
      }
      let cpu = costs.map(\.median)
      let ratio = cpu[0] / Swift.max(1, cpu[1])
      table.add(
        Row(
          name: "CPU of one receipt", value: "\(cpu[0].text()) µs",
          ratio: "\(ratio.text(2)) × \(name)'s \(cpu[1].text()) µs"))
      let p50 = results.map { $0.map(\.p50).median }
      table.add(Row(name: "p50", value: "\(p50[0].text(1)) ms", ratio: "\(p50[1].text(1)) ms"))
      let peak = servers.map { $0.child.memory("VmHWM") }
      let share = peak[0] / Swift.max(1, peak[1])
      table.add(
        Row(
          name: "peak memory", value: "\(peak[0].text()) MB",
          ratio: "\(share.text(2)) × \(name)'s \(peak[1].text()) MB"))
    }
  }

  /// The calls so far, once a server has made those that a load left behind.
  private func callsAtRest(_ upstream: Upstream) throws -> Double {
    var calls = try upstream.calls()
    for _ in 0..<60 {
      usleep(500_000)
      let now = try upstream.calls()
      if now == calls { return now }
      calls = now
    }
    throw ValidationError("a server goes on calling Apple half a minute after the load")
  }
}
