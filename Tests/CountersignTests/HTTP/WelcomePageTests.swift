import HTTPTransport
import Testing

@testable import Countersign
@testable import CountersignServer

/// The page for a person who follows the address of the service, or the `type` of a problem.
@Suite struct WelcomePageTests {
  @Test func `the root says what this is and where to go on`() async throws {
    try await RunningService.besideStore { service, store in
      let answer = try await service.send(.get, "/", key: nil)
      #expect(answer.status == 200)
      #expect(answer.header("Content-Type") == "text/plain; charset=utf-8")
      let text = String(decoding: answer.body, as: UTF8.self)
      #expect(text.hasPrefix("Countersign validates App Store receipts"))
      for path in ["/openapi.yaml", "/support", "/livez"] {
        #expect(text.contains(path))
        #expect(try await service.send(.get, path, key: nil).status == 200)
      }
      #expect(try await service.send(.post, "/", key: nil, body: "{}").status == 405)
    }
  }

  @Test func `the type of a problem is the address of its page`() async throws {
    try await RunningService.besideStore { service, store in
      let refused = try await service.send(.get, "/v1/profiles/user-1", key: nil)
      #expect(refused["type"] == "/problems/unauthenticated")
      for code in Problem.Code.allCases {
        let page = try await service.send(.get, code.path, key: nil)
        #expect(page.status == 200)
        let text = String(decoding: page.body, as: UTF8.self)
        #expect(text.hasPrefix("\(code.rawValue)\n"))
        for part in ["Cause", "Fix"] { #expect(text.contains(part), "\(code)") }
        #expect(!text.contains("]("), "links are of no use outside the documentation")
      }
      #expect(try await service.send(.get, "/problems/none", key: nil).status == 404)
      #expect(try await service.send(.get, "/problems/", key: nil).status == 404)
    }
  }
}
