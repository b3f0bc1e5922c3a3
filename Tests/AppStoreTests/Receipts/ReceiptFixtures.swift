import Foundation

/// Real receipts that belong to others and lie outside the repository; tests over them run where the folder is.
enum ReceiptFixtures {
  struct Case: CustomStringConvertible, Sendable {
    let id: String
    let kind: String
    let file: String
    private let expectation: Data
    var description: String { id }

    init(id: String, kind: String, file: String, expectation: [String: Any]) throws {
      self.id = id
      self.kind = kind
      self.file = file
      self.expectation = try JSONSerialization.data(withJSONObject: expectation)
    }

    func expect() throws -> [String: Any] {
      try JSONSerialization.jsonObject(with: expectation) as? [String: Any] ?? [:]
    }
  }

  static let folder: URL = {
    if let path = ProcessInfo.processInfo.environment["COUNTERSIGN_FIXTURES"] { return URL(filePath: path) }
    // …/Tests/AppStoreTests/Receipts/ReceiptFixtures.swift
    let root = URL(filePath: #filePath).resolvingSymlinksInPath()
      .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    return root.appending(path: "../shared/fixtures").standardizedFileURL
  }()

  static var areThere: Bool { FileManager.default.fileExists(atPath: folder.appending(path: "manifest.json").path()) }

  /// For `arguments:`, which is evaluated even where the test is skipped.
  static func listed(_ kind: String) -> [Case] { (try? cases(of: kind)) ?? [] }

  static func cases(of kind: String) throws -> [Case] {
    guard areThere else { return [] }
    let manifest = try JSONSerialization.jsonObject(with: bytes("manifest.json"))
    let cases = (manifest as? [String: Any])?["cases"] as? [[String: Any]] ?? []
    return try cases.compactMap { entry in
      guard let id = entry["id"] as? String, let file = entry["file"] as? String, entry["kind"] as? String == kind
      else {
        return nil
      }
      return try Case(id: id, kind: kind, file: file, expectation: entry["expect"] as? [String: Any] ?? [:])
    }
  }

  static func bytes(_ path: String) throws -> Data { try Data(contentsOf: folder.appending(path: path)) }

  static func contents(_ path: String) throws -> [UInt8] { try [UInt8](bytes(path)) }
}
