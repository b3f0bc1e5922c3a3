import Foundation
import Testing

@testable import AppStore

@Suite("Trusted roots")
struct TrustedRootsTests {
  /// Apple publishes them on https://www.apple.com/certificateauthority/
  private static let apple = [
    "AppleIncRootCertificate.der": "b0b1730ecbc7ff4505142c49f1295e6eda6bcaed7e2c68c5be91b5a11001f024",
    "AppleRootCA-G2.der": "c2b9b042dd57830e7d117dac55ac8ae19407d38e41d88f3215bc3a890444a050",
    "AppleRootCA-G3.der": "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179",
  ]

  private static let folder = URL(filePath: #filePath).resolvingSymlinksInPath()
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appending(path: "certs")

  /// Writes a file for the time of `body`.
  private func withFile(_ contents: [UInt8], _ body: (String) throws -> Void) throws {
    let path = NSTemporaryDirectory() + "countersign-roots-\(UUID().uuidString)"
    try Data(contents).write(to: URL(filePath: path))
    defer { try? FileManager.default.removeItem(atPath: path) }
    try body(path)
  }

  private func pem(_ der: [UInt8]) -> String {
    let body = Data(der).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
    return "-----BEGIN CERTIFICATE-----\n\(body)\n-----END CERTIFICATE-----\n"
  }

  @Test func `the built-in roots are Apple's three, byte for byte those of the folder certs`() throws {
    let fingerprints = TrustedRoots.apple.certificates.map { ReceiptFingerprint(of: $0).hex }
    #expect(Set(fingerprints) == Set(Self.apple.values))
    for (file, fingerprint) in Self.apple {
      let bytes = try [UInt8](Data(contentsOf: Self.folder.appending(path: file)))
      #expect(ReceiptFingerprint(of: bytes).hex == fingerprint)
      #expect(TrustedRoots.apple.certificates.contains(bytes))
    }
  }

  @Test func `a file holds one root in DER, or any number in PEM`() throws {
    let first = try TestPKI().root
    let second = try TestPKI(rootKey: TestPKI.Keys.otherRoot).root
    try withFile(first) { path in
      let roots = try TrustedRoots(files: [path])
      #expect(roots.certificates == [first])
    }
    let text = "Subject: a comment\r\n" + pem(first).replacing("\n", with: "\r\n") + "\n" + pem(second)
    try withFile(Array(text.utf8)) { path in
      let roots = try TrustedRoots(files: [path])
      #expect(roots.certificates == [first, second])
      let several = try TrustedRoots(files: [path, path])
      #expect(several.certificates.count == 4)
    }
  }

  @Test func `a file that is no root is refused with a sentence that names it`() throws {
    let pki = try TestPKI()
    let cases: [([UInt8], String)] = [
      ([], "no certificate"), (Array("hello".utf8), "no certificate"), ([0x30, 0x03, 1, 2, 3], "cannot be read"),
      (pki.root + [0], "cannot be read"), (pki.intermediate, "not a root"),
      (Array(pem(pki.intermediate).utf8), "not a root"),
      (Array(pem([1, 2, 3]).utf8), "cannot be read"), (Array(pem(pki.root).dropLast(30).utf8), "cannot be read"),
      (Array(repeating: 0x41, count: TrustedRoots.fileLimit + 1), "larger than"),
    ]
    for (contents, words) in cases {
      try withFile(contents) { path in
        let error = #expect(throws: TrustedRoots.Invalid.self) { try TrustedRoots(files: [path]) }
        #expect(error.map { "\($0)".contains(path) && "\($0)".contains(words) } == true)
      }
    }
  }

  @Test(arguments: ["/nonexistent/root.der", "/", "/dev/zero", ""])
  func `a file that is not regular is refused without waiting`(path: String) {
    #expect(throws: TrustedRoots.Invalid.unreadable(path: path)) { try TrustedRoots(files: [path]) }
  }

  @Test func `a pipe is refused without waiting for a writer`() throws {
    let path = NSTemporaryDirectory() + "countersign-pipe-\(UUID().uuidString)"
    try #require(mkfifo(path, 0o600) == 0)
    defer { try? FileManager.default.removeItem(atPath: path) }
    #expect(throws: TrustedRoots.Invalid.unreadable(path: path)) { try TrustedRoots(files: [path]) }
  }

  @Test func `no files are no roots`() {
    #expect(throws: TrustedRoots.Invalid.noFiles) { try TrustedRoots(files: []) }
  }
}
