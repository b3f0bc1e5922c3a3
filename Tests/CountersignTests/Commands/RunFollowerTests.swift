import ArgumentParser
import CountersignAPI
import Foundation
import HTTPTransport
import Synchronization
import TestSupport
import Testing

@testable import Countersign

/// `countersign revalidate` without its process: what it asks for, shows and ends with.
@Suite struct RunFollowerTests {
  /// The output that was shown, and a clock that goes on as the follower rests.
  final class Screen: Sendable {
    private let state = Mutex((output: "", error: ""))
    let time = SleepingClock()

    var output: String { state.withLock { $0.output } }
    var error: String { state.withLock { $0.error } }

    func display(_ style: RunDisplay.Style) -> RunDisplay {
      RunDisplay(
        style: style, columns: { 100 }, output: { [self] text in state.withLock { $0.output += text } },
        error: { [self] text in state.withLock { $0.error += text } })
    }
  }

  private static let order = RunRequest(expiringWithin: "24h", limit: nil)

  private static func answer(_ status: Int, _ json: String, retryAfter: String? = nil) -> Result<
    TransportResponse, TransportError
  > {
    .success(
      TransportResponse(
        status: status, headers: retryAfter.map { [TransportHeader("Retry-After", $0)] } ?? [], body: Array(json.utf8)))
  }

  private func follow(
    _ answers: [Result<TransportResponse, TransportError>], order: RunRequest = order,
    style: RunDisplay.Style = .lines
  ) async -> (end: RunFollower.End, screen: Screen, transport: StubTransport) {
    let transport = StubTransport(answers: answers) { _ in Issue.record("an unplanned call") }
    let screen = Screen()
    let end = await follower(transport, screen, style).run(order)
    #expect(transport.answersLeft == 0)
    return (end, screen, transport)
  }

  private func follower(_ transport: any Transport, _ screen: Screen, _ style: RunDisplay.Style) -> RunFollower {
    RunFollower(
      client: RunClient(
        service: ServiceClient(transport: transport, url: "https://countersign.example.com", key: "the-key"),
        idempotencyKey: "wish-1"),
      display: screen.display(style), clock: { screen.time.now },
      sleep: { try await screen.time.sleep(until: screen.time.now + $0) })
  }

  private static func code(_ end: RunFollower.End) -> Int32? {
    switch end {
    case .reported(let report): Revalidate.exitCode(report).rawValue
    case .lost(let failure, _): failure.exitCode.rawValue
    case .interrupted: nil
    }
  }

  @Test func `a run is ordered with its members, key and idempotency key, and read by its ID`() async throws {
    let order = RunRequest(expiringWithin: "7d", limit: 5)
    let (_, _, transport) = await follow(
      [Self.answer(202, ReceivedRun.sample()), Self.answer(200, ReceivedRun.sample(state: "finished"))], order: order)
    let requests = transport.requests
    #expect(requests.map(\.method) == [.post, .get])
    #expect(
      requests.map(\.url) == [
        "https://countersign.example.com/v1/revalidations", "https://countersign.example.com/v1/revalidations/7",
      ])
    #expect(String(decoding: requests[0].body, as: UTF8.self) == #"{"expiring_within":"7d","limit":5}"#)
    for request in requests { #expect(request.headers.contains(TransportHeader("Authorization", "Bearer the-key"))) }
    #expect(requests[0].headers.contains(TransportHeader("Idempotency-Key", "wish-1")))
  }

  @Test func `a long run prints a line now and then, and not more`() async throws {
    let running = (0..<60).map { Self.answer(200, ReceivedRun.sample(due: 60, done: $0, rate: "0.5")) }
    let (end, screen, _) = await follow(
      [Self.answer(202, ReceivedRun.sample(due: 60))] + running
        + [Self.answer(200, ReceivedRun.sample(state: "finished", due: 60, done: 60))])
    // Two minutes, a line each half.
    #expect(
      screen.output.split(separator: "\n").map { $0.prefix(15) } == [
        "Run 7: 0 of 60,", "Run 7: 14 of 60", "Run 7: 29 of 60", "Run 7: 44 of 60", "Run 7: 59 of 60",
      ])
    #expect(screen.error == "")
    #expect(Self.code(end) == 0)
  }

  @Test func `on a terminal one line is drawn again and again`() async throws {
    let (end, screen, _) = await follow(
      [
        Self.answer(202, ReceivedRun.sample(due: 10)),
        Self.answer(200, ReceivedRun.sample(due: 10, done: 5, rate: "10")),
        Self.answer(200, ReceivedRun.sample(state: "finished", due: 10, done: 10, rate: "10")),
      ], style: .bar)
    #expect(screen.output == "")
    let drawn = screen.error.components(separatedBy: "\r\u{1B}[K")
    #expect(drawn.count == 4)
    #expect(drawn.last?.hasPrefix("[########################################]  100 %  10 of 10") == true)
    #expect(screen.error.filter { $0 == "\n" }.count == 1 && screen.error.hasSuffix("\n"))
    #expect(Self.code(end) == 0)
  }

  @Test func `a run that is under way is followed, and said to be`() async throws {
    let (end, screen, _) = await follow(
      [Self.answer(200, ReceivedRun.sample()), Self.answer(200, ReceivedRun.sample(state: "finished", done: 10_000))],
      style: .silent)
    #expect(screen.error.contains("run 7 is under way already (expiring within 1d)"))
    #expect(Self.code(end) == 0)
  }

  @Test func `a dry run is one question`() async throws {
    let order = RunRequest(expiringWithin: "24h", limit: nil, isDryRun: true)
    let (end, screen, transport) = await follow(
      [Self.answer(200, ReceivedRun.sample(id: nil, state: "dry_run", due: 42))], order: order)
    #expect(Self.code(end) == 0)
    #expect(screen.output + screen.error == "")
    #expect(String(decoding: transport.requests[0].body, as: UTF8.self).contains(#""dry_run":true"#))
  }

  @Test func `ended connections and a service that starts anew are waited for`() async throws {
    let (end, screen, _) = await follow([
      .failure(.connect), Self.answer(503, "{}", retryAfter: "5"), Self.answer(202, ReceivedRun.sample()),
      .failure(.reset), .failure(.connect), .failure(.timedOut), Self.answer(502, "<html>"),
      Self.answer(200, ReceivedRun.sample(done: 100)),
      .failure(.connect), Self.answer(200, ReceivedRun.sample(state: "finished", done: 10_000)),
    ])
    #expect(Self.code(end) == 0)
    // Once for each time that it went away.
    #expect(screen.error.components(separatedBy: "trying again").count - 1 == 3)
  }

  @Test(arguments: [("5", 5), ("0", 1), ("600", 60), ("+5", nil), ("-1", nil)] as [(String, Int?)])
  func `a busy service says when to ask again, within a minute`(header: String, seconds: Int?) async {
    let transport = StubTransport(answers: [Self.answer(503, "{}", retryAfter: header)]) { _ in
      Issue.record("an unplanned call")
    }
    let client = ServiceClient(transport: transport, url: "https://countersign.example.com", key: "the-key")
    await #expect(
      throws: ServiceClient.Failure.away("the service answers 503", retryAfter: seconds.map { .seconds($0) })
    ) { try await client.send(.get, "/v1/revalidations/7") }
  }

  @Test func `a service that does not come back is given up, and the run said to go on`() async throws {
    let screen = Screen()
    let asked = Mutex(0)
    let transport = StubTransport { _ throws(TransportError) in
      let number = asked.withLock { asked in
        asked += 1
        return asked
      }
      guard number == 1 else { throw .connect }
      return TransportResponse(status: 202, body: Array(ReceivedRun.sample(done: 3).utf8))
    }
    let end = await follower(transport, screen, .lines).run(Self.order)
    guard case .lost(.away, let last?) = end else {
      Issue.record("\(end)")
      return
    }
    #expect(last.done == 3)
    #expect(Self.code(end) == 69)
    #expect(screen.time.elapsed > .seconds(560) && screen.time.elapsed < .seconds(640), "\(screen.time.elapsed)")
  }

  @Test func `before there is a run nobody waits for long`() async throws {
    let screen = Screen()
    let transport = StubTransport { _ throws(TransportError) in throw .connect }
    let end = await follower(transport, screen, .lines).run(Self.order)
    #expect(Self.code(end) == 69)
    #expect(screen.time.elapsed < .seconds(15))
    #expect((2...6).contains(transport.requests.count))
  }

  struct Ending: Sendable {
    var answers: [Result<TransportResponse, TransportError>]
    var code: Int32
  }

  static let endings: [Ending] = [
    Ending(answers: [answer(202, ReceivedRun.sample(state: "finished", due: 0))], code: 0),
    Ending(answers: [answer(202, ReceivedRun.sample(state: "finished", due: 3, done: 3))], code: 0),
    Ending(answers: [answer(202, ReceivedRun.sample(state: "finished", due: 3, done: 2, failed: 1))], code: 1),
    Ending(
      answers: [answer(202, ReceivedRun.sample(state: "stopped", due: 3, done: 1, reason: "downgrade_brake"))], code: 2),
    Ending(answers: [answer(202, ReceivedRun.sample(state: "finished", due: 3, done: 2, heldBack: 1))], code: 2),
    Ending(answers: [answer(400, #"{"detail":"'limit' has to be from 1 to 100000."}"#)], code: 64),
    Ending(answers: [answer(401, "{}")], code: 77),
    Ending(answers: [answer(403, "{}")], code: 77),
    Ending(answers: [answer(404, "<html>")], code: 69),
    Ending(answers: [answer(301, "")], code: 69),
    Ending(answers: [answer(200, "<html>hello</html>")], code: 69),
    Ending(answers: [.failure(.resolve)], code: 69),
    Ending(answers: [.failure(.tls("self-signed certificate"))], code: 69),
    Ending(answers: [answer(202, ReceivedRun.sample()), answer(404, "{}")], code: 69),
    Ending(answers: [answer(202, ReceivedRun.sample()), answer(401, "{}")], code: 77),
  ]

  @Test(arguments: endings.indices) func `each end has its exit code`(_ index: Int) async throws {
    let ending = Self.endings[index]
    #expect(Self.code(await follow(ending.answers).end) == ending.code, "\(index)")
  }

  @Test func `an interrupt is answered with what of the run was done`() async throws {
    let screen = Screen()
    let (asked, asking) = AsyncStream<Void>.makeStream()
    let transport = StubTransport { request throws(TransportError) in
      if request.method == .post {
        return TransportResponse(status: 202, body: Array(ReceivedRun.sample(done: 12).utf8))
      }
      asking.yield()
      do { try await Task.sleep(for: .seconds(600)) } catch { throw .cancelled }
      throw .timedOut
    }
    let follower = follower(transport, screen, .lines)
    let task = Task { await follower.run(Self.order) }
    for await _ in asked { break }
    task.cancel()
    guard case .interrupted(let last?) = await task.value else {
      Issue.record("not interrupted")
      return
    }
    #expect(last.done == 12)
  }

  // MARK: The key and the address

  @Test func `the key is taken from the file before the environment, without what is around it`() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("key", "  from-the-file\n")
    let environment = ["COUNTERSIGN_API_KEY": "from-the-environment\n"]
    #expect(try ServiceOptions.key(file: path, environment: environment) == "from-the-file")
    #expect(try ServiceOptions.key(file: nil, environment: environment) == "from-the-environment")
    #expect(throws: CommandUsage.self) { try ServiceOptions.key(file: nil, environment: [:]) }
    #expect(throws: CommandUsage.self) { try ServiceOptions.key(file: path + ".not", environment: environment) }
    #expect(throws: CommandUsage.self) { try ServiceOptions.key(file: "/dev/zero", environment: environment) }
    for bad in ["", "\n", "two words", "a\nb", "caf\u{E9}"] {
      #expect(throws: CommandUsage.self) {
        try ServiceOptions.key(file: nil, environment: ["COUNTERSIGN_API_KEY": bad])
      }
    }
  }

  @Test func `the key goes to another machine in clear only where that is asked for`() throws {
    for url in ["http://a.example", "HTTP://10.0.0.7:8080", "http://127.0.0.1.example", "http://localhost.example"] {
      let error = #expect(throws: CommandUsage.self) { try ServiceOptions.origin(url) }
      #expect(error?.description.contains("--insecure") == true)
      #expect(try ServiceOptions.origin(url, isInsecure: true) == url)
    }
    for url in ["http://localhost:1", "http://[::1]:8080", "HTTP://127.0.0.2", "HTTPS://a.example"] {
      #expect(try ServiceOptions.origin(url) == url)
    }
    #expect(try ServiceOptions.parse(["--insecure"]).insecure && !ServiceOptions.parse([]).insecure)
  }

  @Test func `the address has no slash at its end, and no secrets`() throws {
    #expect(try ServiceOptions.origin("https://a.example/") == "https://a.example")
    #expect(try ServiceOptions.origin("http://127.0.0.1:8080") == "http://127.0.0.1:8080")
    for bad in ["", "127.0.0.1:8080", "ftp://a.example", "https://user:pass@a.example", "https://a.example?x=1"] {
      #expect(throws: CommandUsage.self) { try ServiceOptions.origin(bad) }
    }
  }
}
