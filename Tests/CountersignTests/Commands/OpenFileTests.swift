import Foundation
import HTTPTransport
import Testing

@testable import Countersign

@Suite struct OpenFileTests {
  @Test func `a file is written and read in parts`() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("f", "old\n")
    try OpenFile(path, O_WRONLY | O_APPEND).write(Array("new\n".utf8))
    let file = try OpenFile(path, O_RDONLY)
    #expect(
      try [3, 100, 100].map { String(decoding: try file.read(upTo: $0), as: UTF8.self) } == ["old", "\nnew\n", ""])
  }

  @Test func `a call that the system refuses is an error in its words`() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("f", "")
    #expect(throws: OpenFile.Failure(code: ENOENT)) { try OpenFile("\(path)-not", O_RDONLY) }
    #expect(throws: OpenFile.Failure(code: EEXIST)) { try OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600) }
    #expect(throws: OpenFile.Failure(code: EBADF)) { try OpenFile(path, O_RDONLY).write([0]) }
    #expect(throws: OpenFile.Failure(code: EBADF)) { try OpenFile(path, O_WRONLY).read(upTo: 1) }
    #expect("\(OpenFile.Failure(code: ENOENT))" == "No such file or directory")
  }

  @Test func `a full disk is an error, and not the end of the program`() throws {
    let full = try OpenFile("/dev/full", O_WRONLY)
    #expect(throws: OpenFile.Failure(code: ENOSPC)) { try full.write([0]) }
  }

  @Test(arguments: [
    ("user-1", "user-1"), ("a.b~c_d", "a.b~c_d"), ("user+1|$", "user%2B1%7C%24"), ("é/ü ?", "%C3%A9%2F%C3%BC%20%3F"),
    ("\u{1}\u{7f}%", "%01%7F%25"), ("٣", "%D9%A3"), ("", ""),
  ])
  func `a text is a part of a path`(text: String, encoded: String) { #expect(text.percentEncoded == encoded) }
}
