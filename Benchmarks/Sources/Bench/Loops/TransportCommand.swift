import ArgumentParser
import Foundation
import HTTPTransport

/// `bench transport`: the transport of the service alone, as many requests in flight as told. Nothing is served, decoded
/// or recorded.
struct TransportCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "transport", abstract: "Drive the bare transport.")

  @Option var url: String
  @Option var caFile: String
  @Option(help: "A file with one request body in each line.") var bodies: String
  @Option var inFlight = 32
  @Option var count = 20_000
  @Option(help: "Offer HTTP/2.") var http2 = 1

  func run() async throws {
    var configuration = CurlTransport.Configuration(caFile: caFile)
    configuration.http2 = http2 == 1
    configuration.maxInFlight = max(64, inFlight)
    let transport = try CurlTransport(configuration: configuration)
    defer { transport.shutdown() }
    let bodies = try String(contentsOfFile: bodies, encoding: .utf8).split(separator: "\n").prefix(512).map {
      Array($0.utf8)
    }
    guard !bodies.isEmpty else { throw ValidationError("there are no bodies") }
    try await drive(transport, bodies, count: 200)
    let begin = ContinuousClock.now
    let before = ProcessTime.now
    try await drive(transport, bodies, count: count)
    let cpu = ProcessTime.now - before
    let wall = ContinuousClock.now - begin
    print(
      "{\"cpu_us\":\(cpu.microseconds / Double(count)),\"rate\":\(Double(count) / wall.seconds),"
        + "\"connections\":\(transport.statistics.connectionsOpened)}")
  }

  private func drive(_ transport: CurlTransport, _ bodies: [[UInt8]], count: Int) async throws {
    let next = Counter()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<inFlight {
        group.addTask {
          while true {
            let number = next.take()
            guard number < count else { return }
            let request = TransportRequest(
              method: .post, url: url, headers: [TransportHeader("Content-Type", "application/json")],
              body: bodies[number % bodies.count], responseBodyLimit: 8 * 1024 * 1024)
            let response = try await transport.send(request, deadline: .now.advanced(by: .seconds(10)))
            guard response.status == 200, response.body.count > 1000 else { throw ValidationError("no answer") }
          }
        }
      }
      try await group.waitForAll()
    }
  }
}
