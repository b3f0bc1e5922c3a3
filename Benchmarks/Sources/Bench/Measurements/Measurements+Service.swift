import Foundation

extension Measurements {
  func revalidation() throws {
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

  func start() throws {
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
