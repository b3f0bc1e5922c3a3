import Foundation
import TestSupport
import Testing

@testable import AppStoreSimulator

/// The simulator as a process of its own, started by the binary that is built beside the tests.
private final class SimulatorProcess {
  let process: ChildProcess
  let ready: [String: Any]

  /// The folder of the products is the one that holds the test bundle or, without a bundle, the test runner.
  static var binary: String? {
    let candidates = CommandLine.arguments.prefix(1) + CommandLine.arguments.filter { $0.contains(".xctest") }
    return candidates.map {
      URL(filePath: $0).deletingLastPathComponent().appending(path: "app-store-simulator").path()
    }
    .first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  init(_ arguments: [String]) async throws {
    process = try await ChildProcess.start(try #require(Self.binary), arguments, keepsInputOpen: true)
    let output = try #require(await process.output { $0.contains("\n") })
    #expect(output.last == "\n" && output.count { $0 == "\n" } == 1)
    ready = try #require(try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any])
  }

  func url(_ key: String) throws -> String { try #require(ready.text(key)) }

  /// The exit status; a process that does not end is killed.
  func ended() async -> Int32 {
    let patience = Task { [process] in
      try await Task.sleep(for: .seconds(60))
      process.signal(SIGKILL)
    }
    defer { patience.cancel() }
    return await process.ending().code
  }
}

@Suite(
  "The command line",
  .enabled(if: SimulatorProcess.binary != nil, "app-store-simulator is not built beside the tests"))
struct CommandLineTests {
  private func command(_ arguments: [String]) async throws -> ChildProcess.Ending {
    try await ChildProcess.run(try #require(SimulatorProcess.binary), arguments)
  }

  @Test(
    "serve prints one JSON line, answers, and ends on SIGTERM, even in the middle of a stalled answer",
    .enabled(if: Tool.curl != nil, "curl is not installed"))
  func serve() async throws {
    let rootFile = try temporaryFile()
    let readyFile = try temporaryFile()
    defer { for file in [rootFile, readyFile] { try? FileManager.default.removeItem(at: file) } }
    let simulator = try await SimulatorProcess([
      "serve", "--clock", "2026-01-15T12:00:00Z", "--shared-secret", "s3cret", "--root-out", rootFile.path(),
      "--ready-file", readyFile.path(),
    ])
    #expect(
      Set(simulator.ready.keys) == [
        "production_url", "sandbox_url", "control_url", "root_file", "server_api_url", "server_api_sandbox_url",
        "server_api_key_id", "server_api_issuer_id", "device_check_url", "device_check_development_url",
        "device_check_key_id", "device_check_team_id",
      ])
    #expect(simulator.ready.text("root_file") == rootFile.path())
    let written = try JSONSerialization.jsonObject(with: Data(contentsOf: readyFile)) as? [String: String]
    #expect(written == simulator.ready as? [String: String])

    let receipt = try await command(["receipt", "--scenario", "grace", "--clock", "2026-01-15T12:00:00Z"])
    let body = requestBody(receipt.output.trimmingCharacters(in: .newlines), password: "s3cret")
    let (url, control) = (try simulator.url("production_url"), try simulator.url("control_url"))
    let exchange = try await Exchange.send("POST", url, root: rootFile.path(), body: body)
    #expect(Verdict(exchange.json ?? [:]).renewals.first?.days("grace_period_expires_date") == 13)

    _ = try await Exchange.send("POST", control + "/trouble", body: #"{"trouble":"stall"}"#)
    async let stalled = Exchange.send("POST", url, root: rootFile.path(), body: body, seconds: 600)
    let deadline = ContinuousClock.now + .seconds(60)
    while ContinuousClock.now < deadline {
      if try await Exchange.send("GET", control + "/calls").json?["in_flight"] as? Int == 1 { break }
    }
    simulator.process.signal(SIGTERM)
    // A stalled answer would go on for ten minutes.
    #expect(await simulator.ended() == 0)
    #expect(try await stalled.code != 28)
  }

  @Test("serve takes an address for the control API", .enabled(if: Tool.curl != nil, "curl is not installed"))
  func controlHost() async throws {
    let simulator = try await SimulatorProcess(["serve", "--control-host", "127.0.0.2"])
    let control = try simulator.url("control_url")
    #expect(control.hasPrefix("http://127.0.0.2:"))
    #expect(try simulator.url("production_url").hasPrefix("https://127.0.0.1:"))
    #expect(try await Exchange.send("GET", control + "/clock").status == 200)
    simulator.process.signal(SIGTERM)
    #expect(await simulator.ended() == 0)
  }

  @Test("serve ends on SIGINT")
  func interrupt() async throws {
    let simulator = try await SimulatorProcess(["serve"])
    simulator.process.signal(SIGINT)
    #expect(await simulator.ended() == 0)
  }

  @Test("serve ends when its standard input is closed, if asked to")
  func standardInput() async throws {
    let simulator = try await SimulatorProcess(["serve", "--exit-with-parent"])
    simulator.process.closeInput()
    #expect(await simulator.ended() == 0)
  }

  @Test("serve ends when its parent does, if asked to, even where standard input is /dev/null")
  func parentEnds() async throws {
    let binary = try #require(SimulatorProcess.binary)
    let readyFile = try temporaryFile()
    defer { try? FileManager.default.removeItem(at: readyFile) }
    // The shell goes when the simulator listens, and so has seen who its parent is.
    let script = #"""
      "$0" serve --exit-with-parent --ready-file "$1" </dev/null >/dev/null 2>&1 & echo $!
      while [ ! -s "$1" ]; do sleep 0.05; done
      """#
    let shell = try await ChildProcess.run("/bin/sh", ["-c", script, binary, readyFile.path()])
    let child = try #require(Int32(shell.output.trimmingCharacters(in: .newlines)))
    let start = ContinuousClock.now
    while kill(child, 0) == 0, ContinuousClock.now - start < .seconds(60) {
      try await Task.sleep(for: .milliseconds(20))
    }
    let isGone = kill(child, 0) != 0
    if !isGone { kill(child, SIGKILL) }
    #expect(isGone)
  }

  @Test("receipt prints what openssl verifies", .enabled(if: Tool.openssl != nil, "openssl is not installed"))
  func receipt() async throws {
    let receipt = try await command([
      "receipt", "--scenario", "upgraded", "--environment", "sandbox", "--format", "ber",
    ])
    #expect(receipt.code == 0)
    let bytes = try #require(Data(base64Encoded: receipt.output.trimmingCharacters(in: .newlines)))
    let root = try await command(["root"]).output
    let content = try #require(try await openssl(Array(bytes), root: root))
    #expect(String(decoding: content, as: UTF8.self).contains("com.example.app.premium.monthly"))
  }

  @Test("device-check-key prints the key of DeviceCheck's callers")
  func deviceCheckKey() async throws {
    #expect(try await command(["device-check-key"]).output == DevelopmentKeys.deviceCheckKey + "\n")
  }

  @Test("transaction prints a signed transaction, and server-api-key the key of the Server API's callers")
  func transaction() async throws {
    let token = "7E3FB204-2D0A-4D0B-9E1B-0D8D5F6F4C3A"
    let printed = try await command([
      "transaction", "--scenario", "grace", "--subscriber", "4", "--clock", "2026-01-15T12:00:00Z",
      "--app-account-token", token,
    ])
    let jws = try await CheckedJWS(printed.output.trimmingCharacters(in: .newlines))
    #expect(jws.payload.text("originalTransactionId") == "480000000040000")
    #expect(jws.payload.text("appAccountToken") == token.lowercased())
    let key = try await command(["server-api-key"])
    #expect(key.output == DevelopmentKeys.serverAPIKey + "\n")
  }

  @Test(
    "serve --notify posts what happens, --server-api-key-out and --device-check-key-out write the keys",
    .enabled(if: Tool.curl != nil, "curl is not installed"))
  func notify() async throws {
    let keyFile = try temporaryFile()
    let deviceCheckKeyFile = try temporaryFile()
    defer { for file in [keyFile, deviceCheckKeyFile] { try? FileManager.default.removeItem(at: file) } }
    let inbox = try await Inbox.open()
    let simulator = try await SimulatorProcess([
      "serve", "--clock", "2026-01-15T12:00:00Z", "--notify", inbox.url, "--server-api-key-out", keyFile.path(),
      "--device-check-key-out", deviceCheckKeyFile.path(),
    ])
    #expect(try String(contentsOf: deviceCheckKeyFile, encoding: .utf8) == DevelopmentKeys.deviceCheckKey + "\n")
    #expect(try String(contentsOf: keyFile, encoding: .utf8) == DevelopmentKeys.serverAPIKey + "\n")
    let control = try simulator.url("control_url")
    _ = try await Exchange.send("POST", control + "/transactions", body: #"{"scenario":"subscriber"}"#)
    _ = try await Exchange.send("POST", control + "/clock", body: #"{"advance":"32d"}"#)
    #expect(try inbox.types() == ["SUBSCRIBED INITIAL_BUY", "DID_RENEW"])
    simulator.process.signal(SIGTERM)
    _ = await simulator.ended()
    await inbox.close()
  }

  @Test("scenarios lists each with a line")
  func scenarios() async throws {
    let lines = try await command(["scenarios"]).output.split(separator: "\n")
    #expect(lines.count == Scenario.allCases.count + Trouble.allCases.count)
  }

  @Test(
    "a mistake ends with a usage error",
    arguments: [
      ["receipt", "--scenario", "gold"], ["transaction", "--scenario", "empty"],
      ["transaction", "--app-account-token", "me"], ["serve", "--notify", "https://127.0.0.1/"],
      ["receipt", "--clock", "soon"], ["receipt", "--environment", "moon"],
      ["serve", "--port", "x"], ["dance"],
    ])
  func mistakes(arguments: [String]) async throws {
    #expect(try await command(arguments).code == 64)
  }

  @Test(
    "help shows examples",
    arguments: [["--help"], ["serve", "--help"], ["receipt", "--help"], ["transaction", "--help"]])
  func help(arguments: [String]) async throws {
    let help = try await command(arguments)
    #expect(help.code == 0)
    #expect(help.output.contains("EXAMPLES"))
  }
}
