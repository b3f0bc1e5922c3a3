import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// The page as it is served: what a browser is told about it.
@Suite struct SupportPageFilesTests {
  private static let html = String(decoding: Resource.page, as: UTF8.self)
  private static let css = String(decoding: Resource.styleSheet, as: UTF8.self)
  /// The modules in the source, by name.
  private static let modules = try? FileManager.default.contentsOfDirectory(
    atPath: packageFolder.appending(path: "Sources/CountersignServer/Console/Page").path(percentEncoded: false)
  ).filter { $0.hasSuffix(".js") }
  private static var scripts: [String] {
    (modules ?? []).compactMap { Resource.script($0) }.map { String(decoding: $0, as: UTF8.self) }
  }

  @Test func `each module in the source is in the binary`() throws {
    let modules = try #require(Self.modules)
    #expect(modules.contains("page.js"))
    for module in modules { #expect(Resource.script(module) != nil, "\(module)") }
  }

  @Test func `nothing in the page is inline, stored, or from elsewhere`() throws {
    let html = Self.html
    #expect(!html.contains("style=") && !html.contains("<style") && !html.contains("javascript:"))
    #expect(!html.contains(/\son[a-z]+=/), "no inline handlers")
    #expect(
      html.matches(of: /<script\b/).count == 1
        && html.contains(#"<script type="module" src="support/page.js"></script>"#))
    for text in [html, Self.css] + Self.scripts {
      let urls = text.matches(of: /https?:\/\/[^'"\s)]+/).map { String($0.0) }
      #expect(urls.allSatisfy { $0 == "http://www.w3.org/2000/svg" }, "\(urls)")
      for word in ["localStorage", "sessionStorage", "indexedDB", "cookie", "innerHTML", "eval(", "document.write"] {
        #expect(!text.contains(word), "\(word)")
      }
    }
  }

  @Test func `each module that is imported is served`() throws {
    for text in Self.scripts {
      for match in text.matches(of: /from '\.\/([a-z]+\.js)'/) {
        #expect(Resource.script(String(match.1)) != nil, "\(match.1)")
      }
    }
  }

  @Test func `each file says what a browser may do with it`() async throws {
    let clock = Date(timeIntervalSince1970: 1_718_452_800)
    try await RunningService.besideStore(at: clock) { service, store in
      let modules = try #require(Self.modules).map { ("/\($0)", "text/javascript") }
      for (path, type) in [("", "text/html"), ("/page.css", "text/css")] + modules {
        let answer = try await service.send(.get, "/support\(path)", key: nil)
        #expect(answer.status == 200)
        #expect(answer.header("Content-Type") == "\(type); charset=utf-8")
        let policy = try #require(answer.header("Content-Security-Policy")).components(separatedBy: "; ")
        #expect(
          Set(policy) == [
            "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
            "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
            "trusted-types 'none'",
          ])
        #expect(answer.header("X-Content-Type-Options") == "nosniff")
        #expect(answer.header("Referrer-Policy") == "no-referrer")
        #expect(answer.header("X-Frame-Options") == "DENY")
        #expect(answer.header("Cache-Control") == "no-cache")
        #expect(try await service.send(.post, "/support\(path)", key: nil, body: "{}").status == 405)
      }
      for name in ["none.js", "page.html", "..%2Fpage.js"] {
        #expect(try await service.send(.get, "/support/\(name)", key: nil).status == 404)
      }
      let slash = try await service.send(.get, "/support/", key: nil)
      #expect(slash.status == 308)
      #expect(slash.header("Location") == "../support")
    }
  }
}
