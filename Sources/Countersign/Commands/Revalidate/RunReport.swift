import JSON

/// A run as the service reports it.
struct RunReport: Hashable, Sendable {
  enum State: Hashable, Sendable {
    case running
    case finished
    /// Why; the service's word.
    case stopped(reason: String)
    /// Counted only.
    case dryRun
  }

  /// `nil` for a dry run.
  var id: String?
  var state: State
  var expiringWithin: String
  var due: Int
  var done: Int
  var changed: Int
  var failed: Int
  var heldBack: Int
  var remaining: Int
  /// Subscriptions a second.
  var rate: Double?
  /// What the run waits for; the service's word.
  var waitingFor: String?
  /// The answer as it came, one line of JSON.
  var json: String

  var settled: Int { done + failed + heldBack }

  init(body: [UInt8]) async throws(JSONReader.Failure) {
    let json = String(decoding: body.last == UInt8(ascii: "\n") ? body.dropLast() : body[...], as: UTF8.self)
    self = try await JSONReader.shared.read(body) { value throws(JSONError) in try RunReport(value, json: json) }
  }

  private init(_ value: JSONValue, json: String) throws(JSONError) {
    self.json = json
    id = try value.text("id")
    switch try value.text("state") {
    case "running": state = .running
    case "finished": state = .finished
    case "stopped": state = .stopped(reason: try value.text("stopped_reason") ?? "unknown")
    case "dry_run": state = .dryRun
    case .some: throw value.unreadable("state")
    case nil: throw value.missing("state")
    }
    expiringWithin = try value.text("expiring_within") ?? ""
    due = try value.count("due")
    done = try value.count("done")
    changed = try value.count("changed")
    failed = try value.count("failed")
    heldBack = try value.count("held_back")
    remaining = try value.count("remaining")
    rate = try value.number("rate")
    waitingFor = try value.text("waiting_for")
    if id == nil, state != .dryRun { throw value.missing("id") }
  }
}

extension JSONValue {
  fileprivate func text(_ key: String) throws(JSONError) -> String? {
    guard let member = self[key] else { return nil }
    // It is shown on a terminal.
    guard case .string(let text) = member.kind, text.unicodeScalars.allSatisfy({ (" "..."~").contains($0) })
    else { throw unreadable(key) }
    return text
  }

  fileprivate func count(_ key: String) throws(JSONError) -> Int {
    guard let member = self[key] else { throw missing(key) }
    guard case .integer(let number) = member.kind, let count = Int(exactly: number), count >= 0 else {
      throw unreadable(key)
    }
    return count
  }

  fileprivate func number(_ key: String) throws(JSONError) -> Double? {
    guard let member = self[key] else { return nil }
    switch member.kind {
    case .real(let number): return number
    case .integer(let number): return Double(number)
    default: throw unreadable(key)
    }
  }
}
