import ArgumentParser
import Foundation

/// What wrk measured.
struct LoadResult {
  var requests: Double
  var seconds: Double
  /// Answers other than 2xx and 3xx, and requests without an answer.
  var failures: Double
  /// Milliseconds.
  var p50: Double
  var p99: Double
  var max: Double
  /// By status, where answers were counted.
  var statuses: [String: Double]

  var rate: Double { requests / seconds }
}

/// wrk, with the bodies of a file or without any.
struct Load {
  var url: String
  var connections: Int
  var seconds: Int
  var bodies: String?
  /// Lines of the file to leave out, as earlier loads have sent them.
  var skip = 0
  /// How often each body is sent, one after the other.
  var repeats = 1
  /// Milliseconds that a connection rests between two requests on average; at random, lest all come at once.
  var pause = 0
  var authorization: String
  var countsStatuses = false
  /// Whether the file may begin anew: what is sent twice costs no less.
  var mayWrap = false
  /// Without bodies: the URL is continued by 0, 1, 2 and so on up to this, again and again.
  var users = 0
  var core = 1

  func run(in directory: String) throws -> LoadResult {
    let script = "\(directory)/load.lua"
    try Self.script(hasPause: pause > 0, countsStatuses: countsStatuses)
      .write(toFile: script, atomically: true, encoding: .utf8)
    let text = try Child.output(
      of: "wrk",
      [
        "-t1", "-c\(connections)", "-d\(seconds)s", "--timeout", "20s", "-s", script, url, "--", bodies ?? "-",
        "\(skip)", "\(repeats)", "\(pause)", authorization, "\(users)",
      ], core: core)
    guard let line = text.split(separator: "\n").last(where: { $0.hasPrefix("{") }) else {
      throw ValidationError("wrk said: \(text)")
    }
    let numbers = String(line).numbers
    func number(_ name: String) -> Double { numbers[name] ?? 0 }
    guard mayWrap || number("wrapped") == 0 else { throw ValidationError("there are too few receipts for this load") }
    return LoadResult(
      requests: number("requests"), seconds: number("us") / 1e6, failures: number("failures"),
      p50: number("p50") / 1e3, p99: number("p99") / 1e3, max: number("max") / 1e3,
      statuses: numbers.filter { $0.key.hasPrefix("s") && $0.key.dropFirst().allSatisfy(\.isNumber) })
  }

  private static func script(hasPause: Bool, countsStatuses: Bool) -> String {
    """
    local threads = {}
    function setup(thread) table.insert(threads, thread) end
    wrapped = 0
    statuses = ""
    local counts = {}
    local file, body, left, times, pause, users
    local user = 0
    local headers = {}
    function init(args)
      headers["Authorization"] = args[5]
      headers["Content-Type"] = "application/json"
      pause = tonumber(args[4])
      times = tonumber(args[3])
      left = 0
      users = tonumber(args[6])
      if args[1] ~= "-" then
        file = io.open(args[1])
        for _ = 1, tonumber(args[2]) do file:read("*l") end
      end
    end
    function request()
      if not file and users == 0 then return wrk.format("GET", nil, headers) end
      if not file then
        user = (user + 1) % users
        return wrk.format("GET", wrk.path .. user, headers)
      end
      if left == 0 then
        body = file:read("*l")
        if not body then wrapped = 1; file:seek("set", 0); body = file:read("*l") end
        left = times
      end
      left = left - 1
      return wrk.format("POST", nil, headers, body)
    end
    \(hasPause ? "function delay() return math.random(0, 2 * pause) end" : "")
    \(countsStatuses
      ? "function response(status) counts[status] = (counts[status] or 0) + 1; statuses = \"\"; for k, v in pairs(counts) do statuses = statuses .. \",\\\"s\" .. k .. \"\\\":\" .. v end end"
      : "")
    function done(summary, latency)
      local wraps, texts = 0, ""
      for _, thread in ipairs(threads) do
        wraps = wraps + thread:get("wrapped")
        texts = texts .. thread:get("statuses")
      end
      local e = summary.errors
      print(string.format(
        '{"requests":%d,"us":%d,"failures":%d,"p50":%d,"p99":%d,"max":%d,"wrapped":%d%s}',
        summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
        latency:percentile(50), latency:percentile(99), latency.max, wraps, texts))
    end
    """
  }
}
