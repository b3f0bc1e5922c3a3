import AppStore
import Entitlements
import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// What `samples/` shows is what the service does. `scripts/make-samples` writes them anew.
@Suite struct SamplesTests {
  static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appending(path: "samples")
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

  @Test func `every request gets the answer that is shown for it`() async throws {
    let requests = try Self.names("requests")
    let answers = try Self.names("answers")
    let problems = try Self.names("problems")
    #expect(requests.count > 20)
    #expect((answers + problems).sorted() == requests)
    try await SimulatedStore.run(at: Self.clock) { store in
      try await RunningService.run(apple: store.apple, now: { Self.clock }) { service in
        for name in requests {
          let shown = try Self.text("\(answers.contains(name) ? "answers" : "problems")/\(name).json")
          let answer = try await service.send(
            .post, "/v1/validations", body: try Self.text("requests/\(name).json"),
            headers: [TransportHeader("X-Request-Id", "sample-\(name)")])
          let status = answers.contains(name) ? (name == "app_store_away" ? 202 : 200) : nil
          #expect(status == nil ? answer.status >= 400 : answer.status == status, "\(name): \(answer.status)")
          #expect(try Self.canonical(answer.body) == Self.canonical(Array(shown.utf8)), "\(name)")
        }
      }
    }
  }

  @Test func `every receipt is the one that its request posts, and authentic but for two kinds`() throws {
    let roots = try TrustedRoots(files: [Self.folder.appending(path: "simulator-root.pem").path(percentEncoded: false)])
    let names = try Self.names("receipts")
    #expect(names.count > 12)
    for name in names {
      let receipt = try Self.text("receipts/\(name).b64")
      let request = try JSONDecoder().decode(
        ValidationsController.RequestBody.self, from: Data(try Self.text("requests/\(name).json").utf8))
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
    #expect(configuration.warnings.count == 4)
    #expect(APIKeyring(configuration.auth.apiKeys).caller(presenting: "quickstart")?.role == .service)
    let sold = Product.allCases.filter { $0 != .unknown }.map(\.id)
    #expect(Set(configuration.catalog.products.keys.map(\.rawValue)) == Set(sold))
  }
}
