import ArgumentParser
import Foundation

extension Measurements {
  func validation() throws {
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
  func protocols() throws {
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

  func large() throws {
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

  func latency() throws {
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

  func concurrency() throws {
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
}
