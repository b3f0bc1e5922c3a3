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
  var statuses: [Int: Answers]

  var rate: Double { requests / seconds }

  /// The answers of one status.
  struct Answers {
    var count: Double
    /// Milliseconds.
    var p50: Double
    var p99: Double
  }
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
  /// Whether answers are counted and timed by their status. Requests then have an ID that the answers repeat, and what is
  /// refused with 503 is sent again.
  var countsStatuses = false
  /// Whether the file may begin anew: what is sent twice costs no less.
  var mayWrap = false
  /// Without bodies: the URL is continued by 0, 1, 2 and so on up to this, again and again.
  var users = 0
  /// What the URL of each of those ends with.
  var suffix = ""
  /// The method of those.
  var method = "GET"
  var core = 1

  func run(in directory: String) throws -> LoadResult { try begin(in: directory)() }

  /// Starts it, so that another one can run at the same time.
  ///
  /// - Returns: waits for its end.
  func begin(in directory: String) throws -> () throws -> LoadResult {
    let script = "\(directory)/load-\(UUID().uuidString).lua"
    try Self.script(hasPause: pause > 0, countsStatuses: countsStatuses)
      .write(toFile: script, atomically: true, encoding: .utf8)
    let output = try Child.begin(
      "wrk",
      [
        "-t1", "-c\(connections)", "-d\(seconds)s", "--timeout", "20s", "-s", script, url, "--", bodies ?? "-",
        "\(skip)", "\(repeats)", "\(pause)", authorization, "\(users)", method, suffix,
      ], core: core)
    return {
      let text = try output()
      try FileManager.default.removeItem(atPath: script)
      return try result(of: text)
    }
  }

  private func result(of text: String) throws -> LoadResult {
    let lines = text.split(separator: "\n").filter { $0.hasPrefix("{") }
    guard let line = lines.last else { throw ValidationError("wrk said: \(text)") }
    let numbers = String(line).numbers
    func number(_ name: String) -> Double { numbers[name] ?? 0 }
    guard mayWrap || number("wrapped") == 0 else { throw ValidationError("there are too few receipts for this load") }
    var statuses: [Int: LoadResult.Answers] = [:]
    for line in lines.dropLast() {
      let numbers = String(line).numbers
      guard let status = numbers["status"] else { continue }
      statuses[Int(status)] = LoadResult.Answers(
        count: numbers["count"] ?? 0, p50: (numbers["p50"] ?? 0) / 1e3, p99: (numbers["p99"] ?? 0) / 1e3)
    }
    return LoadResult(
      requests: number("requests"), seconds: number("us") / 1e6, failures: number("failures"),
      p50: number("p50") / 1e3, p99: number("p99") / 1e3, max: number("max") / 1e3, statuses: statuses)
  }

  private static func script(hasPause: Bool, countsStatuses: Bool) -> String {
    """
    local threads = {}
    function setup(thread) table.insert(threads, thread) end
    wrapped = 0
    local file, body, left, times, pause, users, method, suffix
    local user = 0
    local headers = {}
    function init(args)
      headers["Authorization"] = args[5]
      headers["Content-Type"] = "application/json"
      pause = tonumber(args[4])
      times = tonumber(args[3])
      left = 0
      users = tonumber(args[6])
      method, suffix = args[7], args[8] or ""
      if args[1] ~= "-" then
        file = io.open(args[1])
        for _ = 1, tonumber(args[2]) do file:read("*l") end
      end
    end
    local function take()
      if left == 0 then
        body = file:read("*l")
        if not body then wrapped = 1; file:seek("set", 0); body = file:read("*l") end
        left = times
      end
      left = left - 1
      return body
    end
    local function post(body)
      return wrk.format("POST", nil, headers, body)
    end
    function request()
      if not file and users == 0 then return wrk.format("GET", nil, headers) end
      if not file then
        user = (user + 1) % users
        return wrk.format(method, wrk.path .. user .. suffix, headers)
      end
      return post(take())
    end
    \(hasPause ? "function delay() return math.random(0, 2 * pause) end" : "")
    \(countsStatuses ? countingScript : "")
    function done(summary, latency)
      \(countsStatuses ? "printStatuses(threads)" : "")
      local wraps = 0
      for _, thread in ipairs(threads) do wraps = wraps + thread:get("wrapped") end
      local e = summary.errors
      print(string.format(
        '{"requests":%d,"us":%d,"failures":%d,"p50":%d,"p99":%d,"max":%d,"wrapped":%d}',
        summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
        latency:percentile(50), latency:percentile(99), latency.max, wraps))
    end
    """
  }

  /// Names each request, and counts the answers to it by status and by how long it took, in steps of 1 %. The table that
  /// they are counted in is shared by address: wrk copies no table that has tables in it.
  private static let countingScript = #"""
    local ffi = require("ffi")
    ffi.cdef[[
      typedef struct { long seconds, nanoseconds; } moment;
      int clock_gettime(int, moment *);
    ]]
    local moment = ffi.new("moment")
    local function now()
      ffi.C.clock_gettime(1, moment)
      return tonumber(moment.seconds) * 1e6 + tonumber(moment.nanoseconds) / 1e3
    end
    local step, steps = math.log(1.01), 2000
    local counts = ffi.new("uint32_t[?]", 600 * steps)
    address = tonumber(ffi.cast("intptr_t", counts))
    local sent, again, number = {}, {}, 0
    function request()
      number = number + 1
      local body = table.remove(again) or take()
      sent[tostring(number)] = { body, now() }
      headers["X-Request-Id"] = number
      return post(body)
    end
    function response(status, names)
      local id = names["X-Request-Id"] or names["x-request-id"] or ""
      local place = 0
      if sent[id] then
        place = math.floor(math.log(math.max(1, now() - sent[id][2])) / step)
        if status == 503 then table.insert(again, sent[id][1]) end
        sent[id] = nil
      end
      place = status * steps + math.min(place, steps - 1)
      counts[place] = counts[place] + 1
    end
    function printStatuses(threads)
      for _, thread in ipairs(threads) do
        local counts = ffi.cast("uint32_t *", thread:get("address"))
        for status = 100, 599 do
          local all = 0
          for place = 0, steps - 1 do all = all + counts[status * steps + place] end
          local function percentile(share)
            local rest = all * share
            for place = 0, steps - 1 do
              rest = rest - counts[status * steps + place]
              if rest <= 0 then return math.exp((place + 1) * step) end
            end
          end
          if all > 0 then
            print(string.format('{"status":%d,"count":%d,"p50":%d,"p99":%d}',
              status, all, percentile(0.5), percentile(0.99)))
          end
        end
      end
    end
    """#
}
