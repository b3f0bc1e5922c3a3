import ArgumentParser
import Foundation

/// What `scripts/check-cost` counts: it does not depend on the machine's neighbours.
private struct Counts: Decodable {
  /// Of one receipt, by the number of callers.
  var callers: [String: [String: Double]]
  /// Bytes of the ledger of a new subscription.
  var subscription_bytes: Double
  /// Bytes by which the same receipt, posted again, makes it longer.
  var repeat_bytes: Double

  /// - Parameter ledger: one to begin with.
  init(_ bed: Bed, ledger: String? = nil) throws {
    var arguments = ["--json", "--bin", URL(filePath: bed.countersign).deletingLastPathComponent().path]
    if let ledger { arguments += ["--ledger", ledger] }
    let text = try Child.output(of: "scripts/check-cost", arguments)
    self = try JSONDecoder().decode(Counts.self, from: Data(text.utf8))
  }

  private static let names = [
    "allocations", "bytes allocated", "system calls", "pwrite64", "fdatasync", "context switches",
  ]

  var rows: [Row] {
    var rows = Self.names.map { name in
      func text(_ number: Int) -> String {
        let value = callers["\(number)"]?[name] ?? 0
        return value.text(value < 100 ? 1 : 0)
      }
      return Row(name: name, value: "\(text(1)), 1 caller", ratio: "\(text(32)), 32 callers")
    }
    rows.append(
      Row(
        name: "bytes of the ledger, a new subscription", value: subscription_bytes.text(),
        ratio: "\(repeat_bytes.text()) for the same receipt again"))
    return rows
  }
}

extension Measurements {
  func counts() throws {
    table.section("What a new user's receipt takes, on any machine")
    for row in try Counts(bed).rows { table.add(row) }
  }

  /// The same and its CPU with ledgers of many: copies of users whom the service wrote.
  func measureSizes() throws {
    let upstream = try Upstream(bed)
    defer { upstream.stop() }
    let few = "\(bed.directory)/few.sqlite"
    let first = try Service(bed, upstream, ledger: few)
    let posted = try Load(
      url: "\(first.origin)/v1/validations", connections: 32, seconds: 1, bodies: bed.bodies,
      authorization: first.authorization
    ).run(in: bed.directory)
    first.stop()
    for size in sizes {
      let ledger = "\(bed.directory)/\(size).sqlite"
      try FileManager.default.copyItem(atPath: few, toPath: ledger)
      defer { try? FileManager.default.removeItem(atPath: ledger) }
      let text = try Child.output(of: "scripts/seed-ledger", [ledger, "\(size)"])
      guard let subscriptions = Double(text.trimmingCharacters(in: .whitespacesAndNewlines)),
        let bytes = try FileManager.default.attributesOfItem(atPath: ledger)[.size] as? Int
      else { throw ValidationError("scripts/seed-ledger said: \(text)") }
      table.section("A ledger of \(subscriptions.text()) subscriptions")
      table.add(Row(name: "bytes of the ledger, of each", value: (Double(bytes) / subscriptions).text()))
      try measureValidations(upstream, ledger: ledger, skip: Int(posted.requests) + 32)
      for row in try Counts(bed, ledger: ledger).rows { table.add(row) }
    }
  }

  private func measureValidations(_ upstream: Upstream, ledger: String, skip posted: Int) throws {
    let service = try Service(bed, upstream, ledger: ledger)
    defer { service.stop() }
    var skip = posted
    func load(_ seconds: Int) -> Load {
      Load(
        url: "\(service.origin)/v1/validations", connections: 32, seconds: seconds, bodies: bed.bodies, skip: skip,
        authorization: service.authorization)
    }
    skip += Int(try load(1).run(in: bed.directory).requests) + 64
    let cost = try median { _ in
      let cost = try self.measured(service.child, load(self.seconds))
      skip += Int(cost.rate * Double(self.seconds) * 1.2) + 64
      return cost
    }
    table.add(Row(name: "start to ready", value: "\(service.readyAfter.milliseconds.text()) ms"))
    table.add(
      Row(
        name: "CPU of one receipt, 32 in flight", value: "\(cost.cpu.text()) µs", ratio: "\(cost.rate.text())/s"))
    table.add(Row(name: "peak memory", value: "\(service.child.memory("VmHWM").text()) MB"))
  }
}
