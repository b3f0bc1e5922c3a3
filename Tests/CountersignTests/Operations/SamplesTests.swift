import AppStore
import ArgumentParser
import CountersignAPI
import Entitlements
import Foundation
import HTTPTransport
import TestSupport
import Testing
import YAML

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// The files of `samples/` show the service as it is. `scripts/make-samples` writes them anew.
@Suite struct SamplesTests {
  static let folder = packageFolder.appending(path: "samples")
  /// 2026-01-15T12:00:00Z, the moment at which the samples were made.
  static let clock = Date(timeIntervalSince1970: 1_768_478_400)

  static func text(_ path: String) throws -> String {
    String(decoding: try Data(contentsOf: folder.appending(path: path)), as: UTF8.self)
  }

  /// The files of a folder by name, without their endings, in the order in which requests have to be posted.
  static func names(_ folder: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(
      at: Self.folder.appending(path: folder), includingPropertiesForKeys: nil
    ).map { $0.deletingPathExtension().lastPathComponent }.sorted()
  }

  /// The same text for the same JSON, whatever the order of its members.
  static func canonical(_ json: [UInt8]) throws -> String {
    let object = try JSONSerialization.jsonObject(with: Data(json))
    return String(
      decoding: try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys, .withoutEscapingSlashes]),
      as: UTF8.self)
  }

  /// As the quick start's configuration has it.
  private static var settings: Settings {
    var settings = Settings(policy: ["reuse": "0", "provisional": "24h"])
    settings.catalog["original_purchase"] = "[{ before: 2024-01-01, tier: pro }]"
    settings.trials = ["week": "{ tier: pro, length: 7d, sessions: 30 }"]
    return settings
  }

  /// The path and the body of a post before the requests.
  private static func post(_ name: String) throws -> (path: String, body: String) {
    let file = try JSONSerialization.jsonObject(with: Data(try text("posts/\(name).json").utf8)) as? [String: Any]
    let body = try JSONSerialization.data(withJSONObject: try #require(file?["body"]))
    return (try #require(file?["path"] as? String), String(decoding: body, as: UTF8.self))
  }

  @Test func `every request gets the answer that is shown for it`() async throws {
    let requests = try Self.names("requests")
    let posts = try Self.names("posts")
    let answers = try Self.names("answers")
    let problems = try Self.names("problems")
    #expect(requests.count > 40 && posts.count > 4)
    // A post that is refused has no request of its name.
    #expect((answers + problems).sorted() == Set(requests + posts).sorted())
    try await RunningService.besideStore(at: Self.clock, settings: Self.settings) { service, _ in
      func send(_ name: String, _ path: String, _ body: String) async throws -> Answer {
        try await service.send(.post, path, body: body, headers: [TransportHeader("X-Request-Id", "sample-\(name)")])
      }
      func expectShown(_ answer: Answer, _ name: String) throws {
        let shown = try Self.text("\(answers.contains(name) ? "answers" : "problems")/\(name).json")
        let status = answers.contains(name) ? (name == "app_store_away" ? 202 : 200) : nil
        #expect(status == nil ? answer.status >= 400 : answer.status == status, "\(name): \(answer.status)")
        #expect(try Self.canonical(answer.body) == Self.canonical(Array(shown.utf8)), "\(name)")
      }
      for name in posts {
        let post = try Self.post(name)
        let answer = try await send(name, post.path, post.body)
        if requests.contains(name) {
          #expect((200..<300).contains(answer.status), "\(name): \(answer.text)")
        } else {
          try expectShown(answer, name)
        }
      }
      for name in requests {
        let answer = try await send(name, "/v1/validations", try Self.text("requests/\(name).json"))
        try expectShown(answer, name)
      }
    }
  }

  @Test func `the answers show every reason`() throws {
    struct Verdict: Decodable { var reason: String }
    let shown = try Self.names("answers").map {
      try JSONDecoder().decode(Verdict.self, from: Data(try Self.text("answers/\($0).json").utf8)).reason
    }
    #expect(Set(shown) == Set(EntitlementReason.allCases.map(\.rawValue)))
  }

  @Test func `every receipt is the one that its request posts, and authentic but for two kinds`() throws {
    let roots = try TrustedRoots(files: [Self.folder.appending(path: "simulator-root.pem").path(percentEncoded: false)])
    let names = try Self.names("receipts")
    #expect(names.count > 30)
    for name in names {
      let receipt = try Self.text("receipts/\(name).b64")
      let request = try JSONDecoder().decode(
        ValidationRequest.self, from: Data(try Self.text("requests/\(name).json").utf8))
      #expect(request.receiptData == receipt.trimmingCharacters(in: .newlines), "\(name)")
      let inspection = ReceiptInspection(of: Array(receipt.utf8), roots: roots, now: Self.clock)
      // An iOS 6-style receipt carries no chain, and Xcode's leads nowhere.
      #expect(inspection.outcome == (["ios6", "xcode"].contains(name) ? .notAuthentic : .authentic), "\(name)")
    }
  }

  @Test func `the root is the simulator's`() throws {
    #expect(try Self.text("simulator-root.pem") == DevelopmentPKI.rootPEM)
  }

  @Test func `the quick start's configuration is sound, and takes the key that it names`() throws {
    let root = Self.folder.appending(path: "simulator-root.pem").path(percentEncoded: false)
    let configuration = try ServiceConfiguration.load(
      file: Self.folder.appending(path: "quickstart.yaml").path(percentEncoded: false),
      environment: ["COUNTERSIGN_APP_STORE_CA_FILE": root, "COUNTERSIGN_APP_STORE_ROOTS": root])
    #expect(configuration.server.host == "127.0.0.1")
    // A checkout may let everybody read the file.
    #expect(configuration.warnings.count { !$0.sentence.contains("chmod 600") } == 5)
    #expect(configuration.policy.reuse == .zero)
    #expect(configuration.policy.provisional == .seconds(86_400))
    #expect(APIKeyring(configuration.auth.apiKeys).caller(presenting: "quickstart")?.roles == [.service])
    let sold = Product.allCases.filter { $0 != .unknown }.map(\.id)
    #expect(Set(configuration.catalog.products.keys.map(\.rawValue)) == Set(sold))
  }

  // MARK: Cron

  /// The arguments that a sample gives the program, told by the program's own parser to be right.
  private static func accepts(_ arguments: [String]) throws {
    let command = try #require(try Countersign.parseAsRoot(arguments) as? Revalidate)
    #expect(command.expiringWithin == "24h")
    #expect(command.service.keyFile != nil)
    _ = try ServiceOptions.origin(try #require(command.service.url), isInsecure: command.service.insecure)
  }

  @Test func `the crontab's line is right`() throws {
    let text = try Self.text("cron/crontab")
    #expect(text.hasSuffix("\n"))
    let jobs = text.split(separator: "\n").filter { !$0.hasPrefix("#") && !$0.prefix { $0 != " " }.contains("=") }
    #expect(jobs.count == 1)
    let fields = try #require(jobs.first).split(separator: " ").map(String.init)
    #expect(Array(fields.prefix(7)) == ["10", "2", "*", "*", "*", "countersign", "countersign"])
    // cron would end the command there.
    #expect(!fields.contains { $0.contains("%") })
    try Self.accepts(Array(fields.dropFirst(7)))
  }

  @Test func `the systemd unit starts the program rightly`() throws {
    let text = try Self.text("cron/countersign-revalidate.service")
    let start = try #require(text.split(separator: "\n").first { $0.hasPrefix("ExecStart=") })
    let words = start.dropFirst("ExecStart=".count).split(separator: " ").map(String.init)
    #expect(words.first == "/usr/local/bin/countersign")
    try Self.accepts(Array(words.dropFirst()))
    #expect(text.contains("Type=oneshot\n"))
    let timer = try Self.text("cron/countersign-revalidate.timer")
    #expect(timer.contains("OnCalendar=*-*-* 02:10:00\n") && timer.contains("WantedBy=timers.target\n"))
  }

  static let systemdAnalyze = "/usr/bin/systemd-analyze"

  @Test(
    .enabled(if: FileManager.default.isExecutableFile(atPath: systemdAnalyze), "systemd-analyze is not installed"))
  func `systemd takes the units`() async throws {
    // It looks for the program, which is installed nowhere here.
    let directory = try TemporaryDirectory()
    let names = ["countersign-revalidate.service", "countersign-revalidate.timer"]
    for name in names {
      try Self.text("cron/\(name)").replacingOccurrences(of: "/usr/local/bin/countersign", with: "/bin/true")
        .write(to: directory.url.appending(path: name), atomically: true, encoding: .utf8)
    }
    let ending = try await ChildProcess.run(
      Self.systemdAnalyze,
      ["verify", "--man=no"] + names.map { directory.url.appending(path: $0).path(percentEncoded: false) })
    let said = ending.output + ending.error
    #expect(ending.code == 0, "\(said)")
    #expect(!said.contains("countersign-revalidate"), "\(said)")
  }

  @Test func `the CronJob is one, and starts the program rightly`() throws {
    let object = try #require(
      try Node.value(of: try Self.text("cron/kubernetes-cronjob.yaml")) as? [String: Any])
    #expect(object["apiVersion"] as? String == "batch/v1")
    #expect(object["kind"] as? String == "CronJob")
    let spec = try #require(object["spec"] as? [String: Any])
    #expect(spec["schedule"] as? String == "10 2 * * *")
    #expect(spec["concurrencyPolicy"] as? String == "Forbid")
    let job = try #require((spec["jobTemplate"] as? [String: Any])?["spec"] as? [String: Any])
    let pod = try #require((job["template"] as? [String: Any])?["spec"] as? [String: Any])
    // Kubernetes refuses a pod failure policy with any other.
    #expect(pod["restartPolicy"] as? String == "Never")
    let rules = try #require((job["podFailurePolicy"] as? [String: Any])?["rules"] as? [[String: Any]])
    let codes = try #require((rules.first?["onExitCodes"] as? [String: Any])?["values"] as? [Int])
    // In ascending order and without 0, says the API; 69 is tried again.
    #expect(codes == [1, 2, 64, 77])
    let container = try #require((pod["containers"] as? [[String: Any]])?.first)
    let command = try #require(container["command"] as? [String])
    #expect(command.first == "countersign")
    try Self.accepts(Array(command.dropFirst()))
    // The key is where the command looks for it.
    let mount = try #require((container["volumeMounts"] as? [[String: Any]])?.first)
    let path = try #require(mount["mountPath"] as? String)
    #expect(command.contains("--key-file=\(path)/key"))
    let volume = try #require((pod["volumes"] as? [[String: Any]])?.first)
    #expect(volume["name"] as? String == mount["name"] as? String)
  }
}
