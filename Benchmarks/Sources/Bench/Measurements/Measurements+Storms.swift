import Foundation

extension Measurements {
  func storm() throws {
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

  func overload() throws {
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
}
