import Foundation
import HTTPTransport
import Resilience
import Synchronization
import TestSupport

#if canImport(Glibc)
  import Glibc
#endif

/// Chromium's shell without a window, which takes half the CPU of the browser, driven by Debian's chromedriver as a person drives it with keys and clicks.
///
/// https://www.w3.org/TR/webdriver2/
final class Browser: Sendable {
  private let driver: ChildProcess
  private let client: CurlTransport
  private let session: String
  private let processID: Int32
  private let directory: URL

  static let program = "/usr/lib/chromium/chromium-headless-shell"
  static let driverProgram = "/usr/bin/chromedriver"

  static var isInstalled: Bool {
    [program, driverProgram].allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }
  }

  /// Keys that are no characters (WebDriver, section "Keyboard actions").
  enum Key: String {
    case tab = "\u{E004}"
    case enter = "\u{E007}"
    case escape = "\u{E00C}"
    case left = "\u{E012}"
  }

  /// More at once take no less time, as each start costs two seconds of CPU.
  private static let places = AsyncSemaphore(permits: 2)
  /// Browsers between two tests.
  private static let idle = Mutex<[Browser]>([])
  private static let endsWithProcess: Void = {
    atexit { Browser.idle.withLock { for browser in $0 { browser.end() } } }
  }()

  static func run<Result>(body: (Browser) async throws -> Result) async throws -> Result {
    guard await places.acquire() else { throw CancellationError() }
    defer { places.release() }
    let browser = if let idle = idle.withLock({ $0.popLast() }) { idle } else { try await begin() }
    do {
      let result = try await body(browser)
      try await browser.forget()
      idle.withLock { $0.append(browser) }
      return result
    } catch {
      browser.end()
      throw error
    }
  }

  private static func begin() async throws -> Browser {
    _ = endsWithProcess
    let directory = FileManager.default.temporaryDirectory.appending(path: "chromium-\(UUID())")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let (driver, port) = try await started(in: directory)
    var configuration = CurlTransport.Configuration()
    configuration.allowedSchemes = [.http]
    let client = try CurlTransport(configuration: configuration)
    let capabilities: [String: Any] = [
      "browserName": "chrome", "goog:loggingPrefs": ["browser": "ALL"],
      "goog:chromeOptions": [
        "binary": program,
        "args": [
          "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
          "--window-size=1100,1000",
        ],
      ],
    ]
    let origin = "http://127.0.0.1:\(port)"
    let answer = try await send(
      client, .post, "\(origin)/session", ["capabilities": ["alwaysMatch": capabilities]])
    guard let answer = answer as? [String: Any], let id = answer["sessionId"] as? String,
      let processID = (answer["capabilities"] as? [String: Any])?["goog:processID"] as? Int32
    else { throw RunningService.Failure("chromedriver: \(answer ?? "nothing")") }
    return Browser(
      driver: driver, client: client, session: "\(origin)/session/\(id)", processID: processID,
      directory: directory)
  }

  private init(driver: ChildProcess, client: CurlTransport, session: String, processID: Int32, directory: URL) {
    self.driver = driver
    self.client = client
    self.session = session
    self.processID = processID
    self.directory = directory
  }

  /// Leaves the page, and everything that a test set.
  private func forget() async throws {
    try await open("about:blank")
    try await devTools("Emulation.clearDeviceMetricsOverride", [:])
    try await devTools("Emulation.setEmulatedMedia", ["features": [[String: String]]()])
    try await devTools("Emulation.setTimezoneOverride", ["timezoneId": ""])
    _ = try await complaints()
  }

  private func end() {
    driver.signal(SIGKILL)
    kill(processID, SIGKILL)
    client.shutdown()
    // A browser that is being killed may still write.
    for _ in 0..<50 where FileManager.default.fileExists(atPath: directory.path(percentEncoded: false)) {
      try? FileManager.default.removeItem(at: directory)
      usleep(20_000)
    }
  }

  /// Drivers that start at the same moment may choose the same free port, of which only one gets it.
  private static func started(in directory: URL) async throws -> (ChildProcess, Int) {
    for _ in 0..<4 {
      if let driver = try? await start(in: directory) { return driver }
    }
    return try await start(in: directory)
  }

  private static func start(in directory: URL) async throws -> (ChildProcess, Int) {
    let temporary = ["TMPDIR": directory.path(percentEncoded: false)]
    let process = try await ChildProcess.start(
      driverProgram, ["--port=0"], environment: ProcessInfo.processInfo.environment.merging(temporary) { $1 })
    func port(in text: String) -> Int? {
      text.firstMatch(of: /started successfully on port (\d+)/).flatMap { Int($0.1) }
    }
    guard let port = await process.output({ port(in: $0) != nil }).flatMap(port) else {
      throw RunningService.Failure("chromedriver did not start")
    }
    return (process, port)
  }

  /// How often is looked for what has to come, every tenth of a second.
  private let looks = 900

  // MARK: What a person does

  func open(_ url: String) async throws { _ = try await post("url", ["url": url]) }

  func click(_ selector: String) async throws {
    try await once(isReady: selector) { try await post("element/\($0)/click", [:]) }
  }

  func type(_ text: String, into selector: String) async throws {
    try await once(isReady: selector) { try await post("element/\($0)/value", ["text": text]) }
  }

  /// Waits, as a person does, for an element that is not there yet, not shown yet, or behind another: a dialog that opens
  /// when the service has answered. WebDriver, section 6.6, has the names of these errors; none of them has done anything.
  private func once(isReady selector: String, _ act: (String) async throws -> Any?) async throws {
    let passing: Set = [
      "no such element", "stale element reference", "element not interactable", "element click intercepted",
    ]
    for _ in 0..<looks {
      do {
        _ = try await act(element(selector))
        return
      } catch let error as DriverError where passing.contains(error.code) {
        try await Task.sleep(for: .milliseconds(100))
      }
    }
    _ = try await act(element(selector))
  }

  /// Presses keys where the focus is.
  func press(_ keys: Key...) async throws {
    for key in keys {
      let actions = ["keyDown", "keyUp"].map { ["type": $0, "value": key.rawValue] }
      _ = try await post("actions", ["actions": [["type": "key", "id": "keyboard", "actions": actions]]])
    }
  }

  func type(_ text: String) async throws {
    let actions = text.flatMap { key in ["keyDown", "keyUp"].map { ["type": $0, "value": String(key)] } }
    _ = try await post("actions", ["actions": [["type": "key", "id": "keyboard", "actions": actions]]])
  }

  func resize(width: Int, height: Int) async throws {
    try await devTools(
      "Emulation.setDeviceMetricsOverride",
      ["width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500])
  }

  func prefer(_ scheme: String) async throws {
    try await devTools(
      "Emulation.setEmulatedMedia", ["features": [["name": "prefers-color-scheme", "value": scheme]]])
  }

  /// - Parameter zone: an IANA name.
  func live(in zone: String) async throws {
    try await devTools("Emulation.setTimezoneOverride", ["timezoneId": zone])
  }

  // MARK: What a person sees

  func text(_ selector: String) async throws -> String {
    try await get("element/\(try await element(selector))/text") as? String ?? ""
  }

  func isVisible(_ selector: String) async throws -> Bool {
    try await get("element/\(try await element(selector))/displayed") as? Bool ?? false
  }

  /// The name that a screen reader says.
  func label(_ selector: String) async throws -> String {
    try await get("element/\(try await element(selector))/computedlabel") as? String ?? ""
  }

  /// The element with the focus: its ID, or else its text.
  func focus() async throws -> String {
    try await evaluate("return document.activeElement.id || document.activeElement.textContent.trim()") as? String ?? ""
  }

  func evaluate(_ script: String) async throws -> Any? {
    try await post("execute/sync", ["script": script, "args": [String]()])
  }

  /// The complaints of the page, or of the browser about it, since they were asked for last.
  func complaints() async throws -> [String] {
    let lines = try await post("se/log", ["type": "browser"]) as? [[String: Any]] ?? []
    return lines.compactMap { $0["message"] as? String }
  }

  /// Waits until an element says something; what it says last, if it never does.
  @discardableResult func wait(_ selector: String, says part: String) async throws -> String {
    var last = ""
    for _ in 0..<looks {
      last = (try? await text(selector)) ?? ""
      if last.contains(part) { return last }
      try await Task.sleep(for: .milliseconds(100))
    }
    throw RunningService.Failure("\(selector) says '\(last)', not '\(part)'; \(try await complaints())")
  }

  /// Waits until a script says `true`.
  func waitUntil(_ script: String) async throws {
    for _ in 0..<looks {
      if try await evaluate(script) as? Bool == true { return }
      try await Task.sleep(for: .milliseconds(100))
    }
    throw RunningService.Failure("it never came to: \(script)")
  }

  /// Writes a picture of the whole page where `COUNTERSIGN_SCREENSHOTS` says, if it does.
  func screenshot(_ name: String) async throws {
    guard let folder = ProcessInfo.processInfo.environment["COUNTERSIGN_SCREENSHOTS"] else { return }
    let answer = try await devTools("Page.captureScreenshot", ["captureBeyondViewport": true]) as? [String: Any]
    guard let text = answer?["data"] as? String, let data = Data(base64Encoded: text) else { return }
    try data.write(to: URL(filePath: folder).appending(path: "\(name).png"))
  }

  // MARK: The protocol

  private struct DriverError: Error, CustomStringConvertible {
    let code: String
    let description: String
  }

  private func element(_ selector: String) async throws -> String {
    let found = try await post("element", ["using": "css selector", "value": selector]) as? [String: Any]
    guard let id = found?.values.first as? String else { throw RunningService.Failure("there is no \(selector)") }
    return id
  }

  @discardableResult private func devTools(_ command: String, _ parameters: [String: Any]) async throws -> Any? {
    try await post("goog/cdp/execute", ["cmd": command, "params": parameters])
  }

  private func get(_ path: String) async throws -> Any? {
    try await Self.send(client, .get, "\(session)/\(path)", nil)
  }

  private func post(_ path: String, _ body: [String: Any]) async throws -> Any? {
    try await Self.send(client, .post, "\(session)/\(path)", body)
  }

  private static func send(
    _ client: CurlTransport, _ method: TransportRequest.Method, _ url: String, _ body: [String: Any]?
  ) async throws -> Any? {
    let data = try body.map { try JSONSerialization.data(withJSONObject: $0) } ?? Data()
    let response = try await client.send(
      TransportRequest(
        method: method, url: url, headers: [TransportHeader("Content-Type", "application/json")], body: Array(data),
        responseBodyLimit: 1 << 25),
      deadline: .now.advanced(by: .seconds(90)))
    let answer = try JSONSerialization.jsonObject(with: Data(response.body)) as? [String: Any]
    let value = answer?["value"]
    guard response.status == 200 else {
      let error = value as? [String: Any]
      throw DriverError(
        code: error?["error"] as? String ?? "", description: "chromedriver, \(url): \(error?["message"] ?? "")")
    }
    return value is NSNull ? nil : value
  }
}
