import Foundation
import Testing

@testable import CountersignClient

@Suite struct StorageTests {
  private let folder = FileManager.default.temporaryDirectory
    .appendingPathComponent("countersign-\(UUID().uuidString)", isDirectory: true)

  @Test func `files are readable by their owner alone`() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let storage = FileStorage(directory: folder)
    #expect(try storage.read("token@host@a|b/../c") == nil)
    try storage.write(Data("one".utf8), to: "token@host@a|b/../c")
    try storage.write(Data("two".utf8), to: "token@host@a|b/../c")
    #expect(try storage.read("token@host@a|b/../c") == Data("two".utf8))
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    #expect(files.count == 1)
    for path in files.map({ folder.appendingPathComponent($0).path }) {
      #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
    }
    #expect(try FileManager.default.attributesOfItem(atPath: folder.path)[.posixPermissions] as? Int == 0o700)
    try storage.write(nil, to: "token@host@a|b/../c")
    try storage.write(nil, to: "token@host@a|b/../c")
    #expect(try storage.read("token@host@a|b/../c") == nil)
  }

  @Test(arguments: [
    ("https://a.example.com/", "a.example.com"), ("https://a.example.com", "a.example.com"),
    ("https://a.example.com:8443/staging/", "a.example.com:8443/staging"),
  ])
  func `stored state is of one service, also of one beside others on its host`(url: String, name: String) throws {
    #expect(try #require(URL(string: url)).account == name)
  }

  @Test func `broken posts in the storage are as good as none`() {
    #expect(WaitingPosts(Data("{".utf8)).posts.isEmpty)
    #expect(WaitingPosts(nil).json == nil)
  }

  @Test func `keys of other kinds are left out`() {
    let json = #"{"keys":[{"kty":"RSA","kid":"r","n":"n","e":"e"},{"kty":"EC","kid":"k","x":"x","y":"y"}]}"#
    #expect(KeySet.parse(Data(json.utf8)) == [SigningKey(kid: "k", x: "x", y: "y")])
    #expect(KeySet.parse(Data("no".utf8)) == nil)
    #expect(SigningKey(kid: "k", x: "AA", y: "AA").rawRepresentation == nil)
    let zeros = String(repeating: "A", count: 43)
    #expect(SigningKey(kid: "k", x: zeros, y: zeros).rawRepresentation == Data(count: 64))
  }
}
