import ArgumentParser
import Entitlements
import Foundation
import HTTPTypes
import NIOCore
import Testing

@testable import Countersign
@testable import CountersignServer

/// The lists in the pages of `docs/` are those of the program. `scripts/check-docs` runs their examples and checks
/// links.
@Suite struct DocumentationTests {
  private static let folder = packageFolder.appending(path: "docs")

  static func page(_ path: String) throws -> String {
    String(decoding: try Data(contentsOf: folder.appending(path: path)), as: UTF8.self)
  }

  @Test func `the table of the configuration is the reference`() throws {
    let page = try Self.page("reference/configuration.md")
    let begin = try #require(page.range(of: "<!-- configuration -->\n"))
    let end = try #require(page.range(of: "<!-- /configuration -->\n"))
    try #require(begin.upperBound <= end.lowerBound)
    let table = ConfigurationReference.markdownTable()
    #expect(
      page[begin.upperBound..<end.lowerBound] == table, "docs/reference/configuration.md needs this table:\n\(table)")
  }

  @Test func `the reference explains each source of a verdict`() throws {
    let row = try Self.page("reference/http.md").split(separator: "\n").first { $0.hasPrefix("| `source` |") }
    for source in EvidenceSource.allCases { #expect(row?.contains("`\(source.rawValue)`") == true, "\(source)") }
  }

  @Test func `the reference explains each cause for which a row was passed over`() throws {
    let row = try Self.page("reference/http.md").split(separator: "\n").first { $0.hasPrefix("| `verdict` |") }
    for cause in Explanation.PassedOver.Cause.allCases {
      #expect(row?.contains("`\(cause.rawValue)`") == true, "\(cause)")
    }
  }

  @Test func `the keys that most services set are keys`() throws {
    let page = try Self.page("reference/configuration.md")
    let section = try #require(page.split(separator: "\n## ").first { $0.hasPrefix("Most services set these") })
    let rows = section.split(separator: "\n").filter { $0.hasPrefix("| `") }
    let keys = rows.compactMap { $0.split(separator: "|").first }.flatMap {
      $0.matches(of: /`([^`]+)`/).map { String($0.1) }
    }
    #expect(keys.count > 12)
    for key in keys { #expect(ConfigurationKey.allFileNames.contains(key), "\(key)") }
  }

  @Test func `every command is in the manual of the Debian package`() throws {
    let manual = String(
      decoding: try Data(contentsOf: Self.folder.appending(path: "../packaging/debian/countersign.1")), as: UTF8.self)
    let commands = Countersign.configuration.subcommands.map { $0._commandName }
    #expect(commands.count > 10)
    for command in commands { #expect(manual.contains("\n.B \(command)\n"), "\(command)") }
  }

  @Test(arguments: Problem.Code.allCases)
  func `every problem is listed with its status`(code: Problem.Code) throws {
    struct Body: Decodable { var status: Int }
    let body = Problem(code, "").body(requestID: "")
    let status = try JSONDecoder().decode(Body.self, from: Data(body.readableBytesView)).status
    let row = "| \(status) | [`\(code.rawValue)`](#\(code.rawValue)) |"
    #expect(try Self.page("reference/problems.md").contains(row))
  }

  @Test(arguments: Problem.Code.allCases)
  func `every problem has its section, with what is seen, the cause and the fix`(code: Problem.Code) throws {
    let sections = try Self.page("reference/problems.md").split(separator: "\n## ")
    let section = try #require(sections.first { $0.hasPrefix(code.rawValue + "\n") })
    #expect(section.hasPrefix("\(code.rawValue)\n\n\(code.status.code)"))
    for part in ["**You see:**", "**Cause:**", "**Fix:**"] { #expect(section.contains(part)) }
  }

  @Test(arguments: EntitlementReason.allCases)
  func `every reason is explained`(reason: EntitlementReason) throws {
    #expect(try Self.page("backend.md").contains("`\(reason.rawValue)`"))
  }

  @Test(arguments: SubscriptionStatus.allCases)
  func `every status is explained`(status: SubscriptionStatus) throws {
    #expect(try Self.page("backend.md").contains("`\(status.rawValue)`"))
  }

  @Test func `the answer in the quick start is the sample's`() throws {
    let answer = try SamplesTests.text("answers/renewing.json")
    #expect(try Self.page("quickstart.md").contains("```json\n\(answer)```\n"))
  }
}
