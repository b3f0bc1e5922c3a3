import Foundation

extension Measurements {
  func commits() throws {
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

  func verification() throws {
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
}
