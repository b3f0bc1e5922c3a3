import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// The page as it is served: what a browser is told about it.
@Suite struct SupportPageFilesTests {
  private static let html = String(decoding: PackageResources.page_html, as: UTF8.self)
  private static let css = String(decoding: PackageResources.page_css, as: UTF8.self)
  private static let js = String(decoding: PackageResources.page_js, as: UTF8.self)

  @Test func `nothing in the page is inline, stored, or from elsewhere`() throws {
    let html = Self.html
    #expect(!html.contains("style=") && !html.contains("<style") && !html.contains("javascript:"))
    #expect(!html.contains(/\son[a-z]+=/), "no inline handlers")
    #expect(
      html.matches(of: /<script\b/).count == 1 && html.contains(#"<script src="support/page.js" defer></script>"#))
    for text in [html, Self.css, Self.js] {
      let urls = text.matches(of: /https?:\/\/[^'"\s)]+/).map { String($0.0) }
      #expect(urls.allSatisfy { $0 == "http://www.w3.org/2000/svg" }, "\(urls)")
      for word in ["localStorage", "sessionStorage", "indexedDB", "cookie", "innerHTML", "eval(", "document.write"] {
        #expect(!text.contains(word), "\(word)")
      }
    }
  }

  @Test func `each file says what a browser may do with it`() async throws {
    let clock = Date(timeIntervalSince1970: 1_718_452_800)
    try await SimulatedStore.run(at: clock) { store in
      try await RunningService.run(apple: store.apple, now: { clock }) { service in
        for (path, type) in [("", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")] {
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
        let slash = try await service.send(.get, "/support/", key: nil)
        #expect(slash.status == 308)
        #expect(slash.header("Location") == "../support")
      }
    }
  }
}

/// The page as a person uses it, in a real browser.
@Suite(
  .serialized,
  .enabled(
    if: Browser.isInstalled, "The support page is tried in Chromium: install the packages chromium and chromium-driver."
  ))
struct SupportPageTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800)

  private struct World: Sendable {
    var service: RunningService
    var store: SimulatedStore
    var clock: MovingClock

    func advance(days: Double) {
      clock.advance(by: days * 86_400)
      store.simulator.advanceClock(by: .seconds(days * 86_400))
    }
  }

  private func run(body: @Sendable (World) async throws -> Void) async throws {
    let clock = MovingClock(Self.start)
    try await SimulatedStore.run(at: Self.start) { store in
      try await RunningService.run(
        apple: store.apple, jobPause: .seconds(3600), now: { clock.date }
      ) { service in try await body(World(service: service, store: store, clock: clock)) }
    }
  }

  private func enter(_ browser: Browser, _ service: RunningService, key: String = RunningService.supportKey)
    async throws
  {
    try await browser.open("\(service.origin)/support")
    try await browser.type(key + Browser.Key.enter.rawValue, into: "#key")
  }

  /// Anna's charge failed in June; grace and billing retry went by, and in August the subscription was over.
  private func fillIn(_ world: World) async throws -> String {
    let receipt = try world.store.simulator.issueReceipt(.grace, subscriber: 1)
    let id = try #require(receipt.originalTransactionIDs.first)
    _ = try await world.service.validate(receipt.receiptData, user: "anna")
    for days in [14.0, 60] {
      world.advance(days: days)
      _ = try await world.service.validate(originalTransactionID: id, user: "anna")
    }
    return id
  }

  @Test func `why is Anna on free? the page says so, asks Apple again, and keeps the note`() async throws {
    try await run { world in
      let id = try await fillIn(world)
      try await Browser.run { browser in
        try await enter(browser, world.service)
        #expect(try await !browser.isVisible("#key-form"))
        #expect(try await browser.focus() == "query")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#status", says: "anna: the tier is free, expired.")
        #expect(try await browser.focus() == "user-title", "a screen reader goes on where the answer is")
        let card = try await browser.text("#result section")
        #expect(card.contains("Apple could not renew the payment. The subscription ended on 12 June 2024."), "\(card)")
        #expect(card.contains(id))
        #expect(!card.contains("[object"), "\(card)")
        let axis = try await browser.evaluate("return document.querySelectorAll('.picture .grid').length")
        #expect(axis as? Int ?? 0 > 1)
        let history = try await browser.text("ol.history")
        #expect(history.contains("it was pro until then"))
        #expect(history.contains("access to pro runs until 28 June 2024"))
        // The picture: what was decided, what was paid, and the time in grace; told in words too.
        #expect(
          try await browser.evaluate("return document.querySelectorAll('.picture .s-grace').length") as? Int ?? 0 > 0)
        #expect(try await browser.label(".picture svg").contains("Timeline"))
        #expect(try await browser.text(".legend").contains("grace period"))
        try await browser.screenshot("user-light")
        try await browser.prefer("dark")
        try await browser.screenshot("user-dark")

        world.advance(days: 1)
        let note = "<img src=x onerror=alert(1)> says: \"I paid!\""
        try await browser.type(note, into: "#ask-note")
        try await browser.click("form.card[aria-labelledby=ask-title] button")
        try await browser.wait("#status", says: "Asked. The tier is free, expired.")
        #expect(try await browser.text("ol.history").contains(note))
        let entry = try #require(try await world.service.history(of: "anna").entries.first { $0["note"] is String })
        #expect(entry["note"] as? String == note)
        #expect(entry["asked_by"] as? String == "desk")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `a refund and a purchase for life are drawn, and older entries come on demand`() async throws {
    try await run { world in
      let refunded = try world.store.simulator.issueReceipt(.refunded, subscriber: 1).receiptData
      let lifetime = try world.store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      _ = try await world.service.validate(refunded, user: "anna")
      for _ in 0..<55 {
        world.advance(days: 1)
        _ = try await world.service.validate(lifetime, user: "anna")
      }
      try await Browser.run { browser in
        try await enter(browser, world.service)
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#status", says: "anna: the tier is premium, active.")
        #expect(try await browser.text("#result .why").contains("is for life: it does not end."))
        let drawn = try await browser.evaluate(
          """
          return [...document.querySelectorAll('.picture title')].map((one) => one.textContent)
            .filter((text) => text.startsWith('Apple took it back on') || text === 'Bought for life').length
          """)
        #expect(drawn as? Int == 2)
        let count = "return document.querySelectorAll('ol.history > li').length"
        #expect(try await browser.evaluate(count) as? Int == 50)
        try await browser.click("#result section:last-child > div button")
        try await browser.wait("#status", says: "58 entries are shown, which are all.")
        #expect(try await browser.evaluate(count) as? Int == 58)
        try await browser.screenshot("refund-light")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `a purchase is found and moved, with a note, after one was asked to confirm`() async throws {
    try await run { world in
      let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: 1)
      let id = try #require(receipt.originalTransactionIDs.first)
      _ = try await world.service.validate(receipt.receiptData, user: "anna")
      try await Browser.run { browser in
        try await enter(browser, world.service)
        try await browser.click("input[value=transaction]")
        try await browser.type(id + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#status", says: "the purchase belongs to anna")
        try await browser.type("ben", into: "#to-\(id)-production")
        try await browser.type("Ben showed the receipt", into: "#why-\(id)-production")
        try await browser.click("#result form button")
        try await browser.wait("#confirm-text", says: "moves from anna to ben")
        try await browser.screenshot("confirm-light")
        #expect(try await browser.focus() == "confirm-no", "Enter does no harm")
        try await browser.press(.escape)
        #expect(try await !browser.isVisible("#confirm"))
        #expect(try await world.service.profile("anna").verdict == "pro active renewing")

        try await browser.click("#result form button")
        try await browser.click("#confirm-yes")
        try await browser.wait("#status", says: "Moved. The purchase belongs to ben now.")
        #expect(try await browser.text("#result").contains("Ben showed the receipt"))
        #expect(try await world.service.profile("anna").verdict == "free active no_purchases")
        #expect(try await world.service.profile("ben").verdict == "pro active renewing")
        try await browser.screenshot("purchase-light")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `the key is nowhere but in the page's memory, and a wrong one is asked for again`() async throws {
    try await run { world in
      try await Browser.run { browser in
        try await enter(browser, world.service, key: "a-wrong-key")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#alert", says: "does not know this key")
        #expect(try await browser.isVisible("#key-form"))
        try await browser.type(RunningService.serviceKey + Browser.Key.enter.rawValue, into: "#key")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#alert", says: "it needs one of the role")
        try await browser.click("#forget")
        try await browser.type(RunningService.supportKey + Browser.Key.enter.rawValue, into: "#key")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#status", says: "the tier is free")
        let places = try await browser.evaluate(
          """
          return [location.href, document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage),
            document.documentElement.outerHTML, JSON.stringify(Object.values(window).filter((v) => typeof v === 'string')),
            ...[...document.querySelectorAll('input')].map((input) => input.value),
            ...performance.getEntriesByType('resource').map((one) => one.name)].join(' ')
          """)
        let text = try #require(places as? String)
        #expect(!text.contains("key-for-tests"))
        let origins = try await browser.evaluate(
          "return [...new Set(performance.getEntriesByType('resource').map((one) => new URL(one.name).origin))]")
        #expect(origins as? [String] == [world.service.origin])
        try await browser.open("\(world.service.origin)/support")
        #expect(try await browser.isVisible("#key-form"), "a reload forgets it")
        #expect(!world.service.log.text.contains("key-for-tests"))
      }
    }
  }

  @Test func `the keyboard is enough, and everything has a name`() async throws {
    try await run { world in
      _ = try await fillIn(world)
      try await Browser.run { browser in
        try await browser.open("\(world.service.origin)/support")
        #expect(try await browser.focus() == "key")
        try await browser.type(RunningService.supportKey)
        try await browser.press(.enter)
        #expect(try await browser.focus() == "query")
        try await browser.type("anna")
        try await browser.press(.enter)
        try await browser.wait("#status", says: "the tier is free")
        var reached: [String] = []
        for _ in 0..<6 {
          try await browser.press(.tab)
          reached.append(try await browser.focus())
        }
        #expect(reached.prefix(3) == ["Show or move", "ask-note", "Ask Apple again"], "\(reached)")
        #expect(reached.contains("Details"))
        let unnamed = try await browser.evaluate(
          """
          return [...document.querySelectorAll('input, textarea, button')].filter((one) =>
            !(one.labels && one.labels.length) && !one.getAttribute('aria-label') && !one.textContent.trim())
            .map((one) => one.outerHTML)
          """)
        #expect((unnamed as? [String]) == [])
        for (selector, name) in [("#key", "Support key"), ("#query", "ID"), ("#ask-note", "Note: why do you ask?")] {
          if selector != "#key" { #expect(try await browser.label(selector) == name) }
        }
        let ids = try await browser.evaluate("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
        let all = try #require(ids as? [String])
        #expect(Set(all).count == all.count, "no ID twice")
      }
    }
  }

  @Test(arguments: ["light", "dark"])
  func `on a phone nothing has to be scrolled sideways, and the text is readable`(scheme: String) async throws {
    try await run { world in
      let id = try await fillIn(world)
      _ = try await world.service.revalidate("anna", note: String(repeating: "a-word-without-an-end", count: 20))
      try await Browser.run { browser in
        try await browser.resize(width: 360, height: 740)
        try await browser.prefer(scheme)
        try await enter(browser, world.service)
        try await browser.screenshot("search-phone-\(scheme)")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#status", says: "the tier is free")
        try await browser.screenshot("user-phone-\(scheme)")
        let sideways = "return document.scrollingElement.scrollWidth - window.innerWidth"
        #expect(try await browser.evaluate(sideways) as? Int ?? 1 <= 0)
        // WCAG 2.2, 1.4.3: 4.5 to 1 for text, measured on what is drawn.
        let weak = try await browser.evaluate(Self.weakContrasts)
        #expect((weak as? [String]) == [], "\(String(describing: weak))")
        try await browser.click("input[value=transaction]")
        _ = try await browser.evaluate("document.getElementById('query').value = ''")
        try await browser.type(id + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#status", says: "belongs to anna")
        try await browser.screenshot("purchase-phone-\(scheme)")
        #expect(try await browser.evaluate(sideways) as? Int ?? 1 <= 0)
        #expect((try await browser.evaluate(Self.weakContrasts) as? [String]) == [])
      }
    }
  }

  /// Elements with text of their own whose colour is too near to what is behind them.
  private static let weakContrasts = """
    const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number)
    const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
    const behind = (one) => { for (let e = one; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c } return [255, 255, 255] }
    return [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() &&
      !(one instanceof SVGElement) && [...one.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
      .filter((one) => { const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x)
        return (a + 0.05) / (b + 0.05) < 4.5 })
      .map((one) => one.outerHTML.slice(0, 120) + getComputedStyle(one).color + behind(one))
    """
}
