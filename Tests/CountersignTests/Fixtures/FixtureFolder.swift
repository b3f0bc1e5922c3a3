import Foundation

/// A folder of real and made-up cases that is not part of the project: tests that read it run where it is.
///
/// `COUNTERSIGN_FIXTURES` names it; `../shared/fixtures` beside the checkout otherwise.
enum FixtureFolder {
  static let root: URL = {
    if let named = ProcessInfo.processInfo.environment["COUNTERSIGN_FIXTURES"] { return URL(filePath: named) }
    return packageFolder.appending(path: "../shared/fixtures")
  }()

  static var isThere: Bool {
    FileManager.default.fileExists(atPath: root.appending(path: "manifest.json").path(percentEncoded: false))
  }

  static func data(_ path: String) throws -> Data { try Data(contentsOf: root.appending(path: path)) }

  static func text(_ path: String) throws -> String {
    String(decoding: try data(path), as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
  }
}
