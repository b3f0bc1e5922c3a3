import Entitlements
import Foundation
import HTTPTypes
import NIOCore
import Testing

@testable import Countersign
@testable import CountersignServer

/// What the README lists is what the program has.
@Suite struct ReadmeTests {
  static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appending(path: "README.md")

  private static func readme() throws -> String { String(decoding: try Data(contentsOf: file), as: UTF8.self) }

  @Test func `the table of the configuration is the reference`() throws {
    let readme = try Self.readme()
    let begin = try #require(readme.range(of: "<!-- configuration -->\n"))
    let end = try #require(readme.range(of: "<!-- /configuration -->\n"))
    try #require(begin.upperBound <= end.lowerBound)
    let table = ConfigurationReference.markdownTable()
    #expect(readme[begin.upperBound..<end.lowerBound] == table, "README.md needs this table:\n\(table)")
  }

  @Test(arguments: Problem.Code.allCases)
  func `every problem is listed with its status`(code: Problem.Code) throws {
    struct Body: Decodable { var status: Int }
    let body = Problem(code, "").body(requestID: "")
    let status = try JSONDecoder().decode(Body.self, from: Data(body.readableBytesView)).status
    #expect(try Self.readme().contains("| \(status) | `\(code.rawValue)` |"))
  }

  @Test(arguments: Problem.Code.allCases)
  func `every problem has its page, which says why and what mends it`(code: Problem.Code) throws {
    let pages = try SamplesTests.text("PROBLEMS.md")
    let page = try #require(pages.split(separator: "\n## ").first { $0.hasPrefix(code.rawValue + "\n") })
    #expect(page.contains("\n\n\(code.status.code)"))
    for part in ["**Why:**", "**Mend it:**"] { #expect(page.contains(part)) }
  }

  @Test(arguments: EntitlementReason.allCases)
  func `every reason is explained`(reason: EntitlementReason) throws {
    #expect(try Self.readme().contains("`\(reason.rawValue)`"))
  }

  @Test(arguments: SubscriptionStatus.allCases)
  func `every status is explained`(status: SubscriptionStatus) throws {
    #expect(try Self.readme().contains("`\(status.rawValue)`"))
  }

  @Test func `the answer in the quick start is the sample's`() throws {
    let answer = try SamplesTests.text("answers/renewing.json")
    #expect(try Self.readme().contains("```json\n\(answer)```\n"))
  }
}
