import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Validation

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

  private func run(
    withKey: Bool = false, directory: URL? = nil, body: @Sendable (World) async throws -> Void
  ) async throws {
    let clock = MovingClock(Self.start)
    try await SimulatedStore.run(at: Self.start) { store in
      try await RunningService.run(
        apple: withKey ? store.apple() : store.apple, settings: Settings(appStore: ["deadline": "2s"]),
        directory: directory, jobPause: .seconds(3600), now: { clock.date }
      ) { service in try await body(World(service: service, store: store, clock: clock)) }
    }
  }

  private func enter(_ browser: Browser, _ service: RunningService, key: String = RunningService.supportKey)
    async throws
  {
    try await browser.open("\(service.origin)/support")
    try await browser.type(key + Browser.Key.enter.rawValue, into: "#key")
  }

  private func lookUp(_ browser: Browser, _ id: String) async throws {
    _ = try await browser.evaluate("document.getElementById('query').value = ''")
    try await browser.type(id + Browser.Key.enter.rawValue, into: "#query")
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

  /// What the page shows of customers.
  private func result(_ browser: Browser) async throws -> String { try await browser.text("#result") }

  private static let giveForm = "form[aria-labelledby=give-title]"
  private static let askForm = "form[aria-labelledby=ask-title]"
  private static func moveForm(_ id: String) -> String { "form[aria-labelledby=move-\(id)-production]" }

  /// Whether an element is within the window.
  private func isInView(_ browser: Browser, _ selector: String) async throws -> Bool {
    try await browser.evaluate(
      """
      const box = document.querySelector('\(selector)').getBoundingClientRect()
      return box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight
      """) as? Bool ?? false
  }

  @Test func `why is Anna on free? the page says so, asks Apple again, and keeps the note`() async throws {
    try await run { world in
      let id = try await fillIn(world)
      try await Browser.run { browser in
        try await browser.resize(width: 1280, height: 720)
        try await enter(browser, world.service)
        #expect(try await !browser.isVisible("#key-form"))
        #expect(try await browser.focus() == "query")
        try await lookUp(browser, "anna")
        try await browser.wait("#status", says: "User anna: the tier is free, expired.")
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
        // Every state of the button is seen, however fast the answer is.
        _ = try await browser.evaluate(
          """
          const button = document.querySelector('\(Self.askForm) button')
          window.seen = []
          new MutationObserver(() => window.seen.push(`${button.textContent} ${button.disabled}`))
            .observe(button, {attributes: true, childList: true, characterData: true, subtree: true})
          """)
        try await browser.click("\(Self.askForm) button")
        try await browser.wait("\(Self.askForm) .message", says: "Asked. The tier is free, expired.")
        #expect(try await isInView(browser, "\(Self.askForm) .message"), "where the eye is")
        #expect(try await browser.focus() == "Ask Apple again")
        let states = try await browser.evaluate("return window.seen") as? [String] ?? []
        #expect(states.contains("Asking… true") && states.last == "Ask Apple again false", "\(states)")
        #expect(try await browser.evaluate("return document.getElementById('ask-note').value") as? String == "")
        #expect(try await browser.text("ol.history").contains(note))
        try await browser.screenshot("asked-dark")
        let entry = try #require(try await world.service.history(of: "anna").entries.first { $0["note"] is String })
        #expect(entry["note"] as? String == note)
        #expect(entry["asked_by"] as? String == "desk")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `a look-up that fails leaves nothing of the customer before on the page`() async throws {
    try await run { world in
      _ = try await fillIn(world)
      try await Browser.run { browser in
        try await enter(browser, world.service)
        try await lookUp(browser, "anna")
        try await browser.wait("#status", says: "User anna")
        try await browser.type("half a note", into: "#ask-note")
        // What is shown while the next look-up is under way.
        _ = try await browser.evaluate(
          """
          const button = document.querySelector('#search-form button')
          window.during = null
          new MutationObserver(() => { if (button.disabled) window.during ??= document.getElementById('result').textContent })
            .observe(button, {attributes: true})
          """)
        await world.service.ledger.close()
        try await lookUp(browser, "berta")
        try await browser.wait("#status", says: "The ledger cannot be read now; try again. (request ")
        #expect(try await browser.evaluate("return window.during") as? String == "")
        #expect(try await result(browser).isEmpty)
        #expect(try await browser.evaluate("return document.querySelectorAll('#ask-note').length") as? Int == 0)
        #expect(try await browser.evaluate("return location.hash") as? String == "")
        #expect(try await isInView(browser, "#status"))
        #expect(try await browser.focus() == "query")
        try await browser.screenshot("failed-light")
      }
    }
  }

  @Test func `a missing field is named at the field, and trouble is a warning in the form`() async throws {
    try await run { world in
      let id = try await fillIn(world)
      try await Browser.run { browser in
        try await browser.resize(width: 390, height: 844)
        try await enter(browser, world.service)
        try await lookUp(browser, "anna")
        try await browser.wait("#status", says: "User anna")
        try await browser.type("  ", into: "#ask-note")
        try await browser.click("\(Self.askForm) button")
        try await browser.wait("#ask-note-error", says: "Say in the note why you ask.")
        #expect(try await isInView(browser, "#ask-note-error"))
        #expect(try await browser.focus() == "ask-note")
        try await browser.screenshot("note-phone-light")
        try await browser.type("because", into: "#ask-note")
        #expect(try await browser.text("#ask-note-error").isEmpty)
        world.store.simulator.setTrouble(.http503)
        try await browser.click("\(Self.askForm) button")
        try await browser.wait("\(Self.askForm) .message.warn", says: "Apple could not be asked about everything.")
        #expect(try await isInView(browser, "\(Self.askForm) .message"))
        try await browser.screenshot("stale-phone-light")

        try await lookUp(browser, id)
        try await browser.wait("#status", says: "belongs to anna")
        try await browser.click("\(Self.moveForm(id)) button")
        try await browser.wait("#to-\(id)-production-error", says: "Name the new owner.")
        try await browser.type("ben", into: "#to-\(id)-production")
        try await browser.click("\(Self.moveForm(id)) button")
        try await browser.wait("#why-\(id)-production-error", says: "Say in the note why it is moved.")
        #expect(try await !browser.isVisible("#confirm"))
      }
    }
  }

  /// Names a tier, among the plans or in words.
  private func choose(_ browser: Browser, tier: String) async throws {
    let isList = "return document.getElementById('grant-tier') instanceof HTMLSelectElement"
    if try await browser.evaluate(isList) as? Bool == true {
      try await browser.click("#grant-tier option[value=\(tier)]")
    } else {
      _ = try await browser.evaluate("document.getElementById('grant-tier').value = ''")
      try await browser.type(tier, into: "#grant-tier")
    }
  }

  /// Has `/v1/plans` answer what a test says.
  private func tellPlans(_ browser: Browser, status: Int = 200, _ body: String) async throws {
    _ = try await browser.evaluate(
      """
      const former = window.fetch
      window.fetch = (url, ...rest) => new URL(url).pathname === '/v1/plans'
        ? Promise.resolve(new Response('\(body)', {status: \(status)})) : former(url, ...rest)
      """)
  }

  /// The grants of a user, as the service lists them.
  private func grants(_ world: World, of user: String) async throws -> [[String: Any]] {
    try await world.service.send(.get, "/v1/profiles/\(user)/grants").array("grants")
  }

  @Test(arguments: [1280, 390])
  func `access is given with a note and ended with one, and the verdict, the list and the history say so`(width: Int)
    async throws
  {
    try await run { world in
      _ = try await fillIn(world)
      let before = try await world.service.profile("anna").verdict
      try await Browser.run { browser in
        try await browser.resize(width: width, height: 760)
        try await enter(browser, world.service)
        try await lookUp(browser, "anna")
        try await browser.wait("#status", says: "User anna: the tier is free, expired.")
        #expect(try await result(browser).contains("Nothing was given to this user yet."))
        #expect(try await !browser.isVisible("#grant-until"))

        let note = "<img src=x onerror=alert(1)> an apology"
        try await choose(browser, tier: "premium")
        try await browser.click("#grant-length option[value='30d']")
        try await browser.click("#grant-kind option[value=promotion]")
        try await browser.type(note, into: "#grant-note")
        try await browser.click("\(Self.giveForm) button")
        let told = "Given: premium until 27 September 2024, 12:00 UTC. The tier is premium, active."
        try await browser.wait("\(Self.giveForm) .message.good", says: told)
        #expect(try await isInView(browser, "\(Self.giveForm) .message"), "where the eye is")
        #expect(try await browser.focus() == "Give access")
        #expect(try await browser.evaluate("return document.getElementById('grant-note').value") as? String == "")
        #expect(try await browser.text("#result section .state") == "premium\nactive")
        let card = try await browser.text("#result section")
        #expect(card.contains("Access to premium was given, not bought") && card.contains("Given until"), "\(card)")
        let item = try await browser.text("ol.given li")
        #expect(item.contains("premium\nrunning\npromotion"), "\(item)")
        #expect(item.contains("From 28 August 2024, 12:00 UTC until 27 September 2024, 12:00 UTC, by desk."), "\(item)")
        #expect(item.contains(note))
        #expect(try await browser.text("ol.history").contains(note))
        #expect(try await browser.text(".legend").contains("access that was given"))
        try await browser.screenshot("given-\(width)-light")

        // Another one, until a day that is named; then the first is ended, and the second is left.
        world.advance(days: 1)
        try await choose(browser, tier: "pro")
        try await browser.click("#grant-length option[value='']")
        try await browser.type("a tester", into: "#grant-note")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("#grant-until-error", says: "Say until when: a date and a time.")
        #expect(try await browser.focus() == "grant-until")
        _ = try await browser.evaluate(
          "const one = document.getElementById('grant-until'); one.value = '2024-12-31T23:00'; one.dispatchEvent(new Event('input'))"
        )
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("\(Self.giveForm) .message.good", says: "Given: pro until 31 December 2024, 23:00 UTC.")
        #expect(try await grants(world, of: "anna").first?["ends_at"] as? String == "2024-12-31T23:00:00Z")

        let first = "ol.given li:last-child"
        try await browser.click("\(first) form > button")
        #expect(try await browser.focus() == "end-note-1")
        try await browser.click("\(first) button[type=submit]")
        try await browser.wait("#end-note-1-error", says: "Say in the note why it is ended.")
        #expect(try await isInView(browser, "#end-note-1-error"))
        #expect(try await grants(world, of: "anna").allSatisfy { $0["ended_early"] as? Bool == false })
        try await browser.screenshot("ending-\(width)-light")
        try await browser.type("too much", into: "#end-note-1")
        try await browser.click("\(first) button[type=submit]")
        try await browser.wait(
          "\(first) .message.good", says: "Ended on 29 August 2024, 12:00 UTC. The tier is pro, active.")
        #expect(try await isInView(browser, "\(first) .message"))
        #expect(try await browser.text("\(Self.giveForm) .message").isEmpty, "what it said is no longer so")
        #expect(try await browser.text("\(first) .when") == "premium\nended early\npromotion")
        #expect(try await !browser.isVisible("\(first) button[type=submit]"))
        #expect(try await browser.text("ol.given li:first-child .when").hasPrefix("pro\nrunning"))
        #expect(try await browser.text("#result section .state") == "pro\nactive")
        let history = try await browser.text("ol.history")
        #expect(history.contains("too much") && history.contains("a tester"))
        #expect(!history.contains("Apple was asked anew"), "nobody asked Apple")
        #expect(try await world.service.profile("anna").verdict == "pro active granted")
        let sideways = "return document.scrollingElement.scrollWidth - window.innerWidth"
        #expect(try await browser.evaluate(sideways) as? Int ?? 1 <= 0)
        try await browser.screenshot("ended-\(width)-light")

        try await browser.click("ol.given li:first-child form > button")
        try await browser.type("that too", into: "#end-note-2")
        try await browser.click("ol.given li:first-child button[type=submit]")
        try await browser.wait("ol.given li:first-child .message", says: "The tier is free, expired.")
        #expect(try await world.service.profile("anna").verdict == before)
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `what is refused is said by the form, and nothing is given`() async throws {
    try await run { world in
      _ = try await fillIn(world)
      try await Browser.run { browser in
        try await enter(browser, world.service)
        // A tier that the catalog has lost since.
        try await tellPlans(
          browser, #"{"plans":[{"tier":"free"},{"tier":"pro","name":"Family Pro"},{"tier":"gold","name":"gold"}]}"#)
        try await lookUp(browser, "anna")
        try await browser.wait("#status", says: "User anna")
        let offered = "return [...document.querySelectorAll('#grant-tier option')].map((one) => one.textContent)"
        #expect(try await browser.evaluate(offered) as? [String] == ["Family Pro (pro)", "gold"])
        try await choose(browser, tier: "gold")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("#grant-note-error", says: "Say in the note why it is given.")
        #expect(try await isInView(browser, "#grant-note-error"))
        #expect(try await browser.focus() == "grant-note")
        try await browser.type("why", into: "#grant-note")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait(
          "\(Self.giveForm) .message.bad", says: "'tier' has to be one of: pro, premium. (request ")
        #expect(try await isInView(browser, "\(Self.giveForm) .message"))
        #expect(try await grants(world, of: "anna").isEmpty)
        // The ledger is away; what was typed stays.
        await world.service.ledger.close()
        try await choose(browser, tier: "pro")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("\(Self.giveForm) .message.bad", says: "try again")
        #expect(try await browser.evaluate("return document.getElementById('grant-note').value") as? String == "why")
        #expect(try await browser.focus() == "Give access")
      }
    }
  }

  @Test func `where the service does not tell its plans, the tier is typed`() async throws {
    try await run { world in
      _ = try await fillIn(world)
      try await Browser.run { browser in
        try await enter(browser, world.service)
        try await tellPlans(browser, status: 503, "{}")
        try await lookUp(browser, "anna")
        try await browser.wait("#status", says: "User anna")
        try await browser.type("why", into: "#grant-note")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("#grant-tier-error", says: "Name the tier.")
        try await browser.type("pro" + Browser.Key.enter.rawValue, into: "#grant-tier")
        try await browser.wait("\(Self.giveForm) .message.good", says: "Given: pro until 29 August 2024, 12:00 UTC.")
      }
    }
  }

  @Test func `an answer that is lost is asked for again, and access is given once and ended once`() async throws {
    try await run { world in
      _ = try await fillIn(world)
      try await Browser.run { browser in
        try await enter(browser, world.service)
        try await lookUp(browser, "anna")
        try await browser.wait("#status", says: "User anna")
        // The next request that changes anything arrives, and its answer does not.
        _ = try await browser.evaluate(
          """
          const former = window.fetch
          window.lost = 0
          window.fetch = async (url, request) => {
            const answer = await former(url, request)
            if (request.method === 'GET' || window.lost > 0) return answer
            window.lost += 1
            throw new TypeError('Failed to fetch')
          }
          """)
        try await choose(browser, tier: "pro")
        try await browser.type("why", into: "#grant-note")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("\(Self.giveForm) .message.bad", says: "Press the button again: it is not done twice.")
        #expect(try await grants(world, of: "anna").count == 1)
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("\(Self.giveForm) .message.good", says: "Given: pro until")
        #expect(try await grants(world, of: "anna").count == 1)

        try await browser.click("ol.given li form > button")
        try await browser.type("done", into: "#end-note-1")
        _ = try await browser.evaluate("window.lost = 0")
        try await browser.click("ol.given li button[type=submit]")
        try await browser.wait("ol.given li .message.bad", says: "Press the button again")
        try await browser.click("ol.given li button[type=submit]")
        try await browser.wait("ol.given li .message.good", says: "Ended on 28 August 2024, 12:00 UTC.")

        // The same once more is another one.
        try await choose(browser, tier: "pro")
        try await browser.type("why", into: "#grant-note")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("\(Self.giveForm) .message.good", says: "Given: pro until")
        #expect(try await grants(world, of: "anna").count == 2)
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `an ID never seen is said to be so, with nothing to fill in`() async throws {
    try await run { world in
      _ = try await fillIn(world)
      try await Browser.run { browser in
        try await enter(browser, world.service)
        for id in ["ana", "480000099990000"] {
          try await lookUp(browser, id)
          try await browser.wait("#never-title", says: id)
          let text = try await result(browser)
          #expect(text.contains("Never seen here") && text.contains("There is no key") == (id != "ana"), "\(text)")
          #expect(!text.contains("free") && !text.contains("tier"), "\(text)")
          let forms = try await browser.evaluate(
            "return document.querySelectorAll('#result form, #result input').length")
          #expect(forms as? Int == 0)
        }
        try await browser.screenshot("never-light")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `one field finds what the customer reads out: a later transaction, an order, nobody's purchase`()
    async throws
  {
    try await run(withKey: true) { world in
      let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: 1)
      let id = try #require(receipt.originalTransactionIDs.first)
      _ = try await world.service.validate(receipt.receiptData, user: "anna")
      let newest = try world.store.simulator.newestTransaction(ofOriginal: id)
      let order = try #require(newest.orderID)
      let nobodys = try world.store.simulator.issueTransaction(.renewing, subscriber: 2)
      try await Browser.run { browser in
        try await enter(browser, world.service)
        for (typed, reported) in [
          (id, "Found by its original transaction ID"), (newest.transactionID, "Found by a later transaction of it"),
          (order, "Found by its order ID"),
        ] {
          try await lookUp(browser, typed)
          try await browser.wait("#status", says: "\(reported): the purchase belongs to anna.")
          #expect(try await result(browser).contains(id))
        }
        try await lookUp(browser, try #require(nobodys.orderID))
        try await browser.wait("#status", says: "Found by its order ID: no user has this purchase here.")
        let name = "\(nobodys.originalTransactionID)-production"
        try await browser.type("ben", into: "#to-\(name)")
        try await browser.type("Ben showed the order", into: "#why-\(name)")
        try await browser.screenshot("unowned-light")
        try await browser.click("form[aria-labelledby=attach-\(name)] button")
        try await browser.wait("#result .message.good", says: "Attached. The purchase belongs to ben now.")
        #expect(try await isInView(browser, "#result .message.good"))
        #expect(try await browser.text("#status").isEmpty, "that nobody has it is no longer so")
        #expect(try await world.service.profile("ben").verdict == "pro active renewing")
        try await browser.screenshot("attached-light")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test
  func `a refund and a purchase for life are drawn, what changes nothing is folded, older entries come on demand`()
    async throws
  {
    try await run { world in
      let refunded = try world.store.simulator.issueReceipt(.refunded, subscriber: 1).receiptData
      let lifetime = try world.store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      _ = try await world.service.validate(refunded, user: "anna")
      for _ in 0..<55 {
        world.advance(days: 1)
        _ = try await world.service.validate(lifetime, user: "anna")
      }
      _ = try await world.service.validate(refunded, user: "anna")
      _ = try await world.service.validate(
        try world.store.simulator.issueReceipt(.refunded, subscriber: 3).receiptData, user: "berta")
      try await Browser.run { browser in
        try await enter(browser, world.service)
        try await lookUp(browser, "anna")
        try await browser.wait("#status", says: "User anna: the tier is premium, active.")
        #expect(try await browser.text("#result .why").contains("is for life and does not expire."))
        let drawn = try await browser.evaluate(
          """
          return [...document.querySelectorAll('.picture title')].map((one) => one.textContent)
            .filter((text) => text.startsWith('Apple took it back on') || text === 'Bought for life').length
          """)
        #expect(drawn as? Int == 2)
        let count = "return document.querySelectorAll('ol.history li.entry').length"
        #expect(try await browser.evaluate(count) as? Int == 50)
        let lines = "return [...document.querySelectorAll('#result ol.history')].at(0).children.length"
        #expect(try await browser.evaluate(lines) as? Int ?? 50 < 5, "what is as before is one line")
        #expect(try await browser.text("li.folded summary").contains("verdicts without a change, "))
        try await browser.click("#result section:last-child > form button")
        try await browser.wait("#result section:last-child > form .message", says: "All ")
        #expect(try await browser.evaluate(count) as? Int ?? 0 > 55)
        try await browser.screenshot("folded-light")

        try await lookUp(browser, "berta")
        try await browser.wait("#status", says: "User berta: the tier is free, expired.")
        let card = try await browser.text("#result section")
        #expect(card.contains("Taken back on\n") && card.contains("Had been paid until\n"), "\(card)")
        #expect(!card.contains("Paid until"))
        try await browser.screenshot("refund-light")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `a purchase is moved, with a note, after one was asked to confirm, and both users say where it is`()
    async throws
  {
    try await run { world in
      let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: 1)
      let id = try #require(receipt.originalTransactionIDs.first)
      _ = try await world.service.validate(receipt.receiptData, user: "anna")
      try await Browser.run { browser in
        try await enter(browser, world.service)
        try await lookUp(browser, id)
        try await browser.wait("#status", says: "the purchase belongs to anna")
        try await browser.type("ben", into: "#to-\(id)-production")
        try await browser.type("Ben showed the receipt", into: "#why-\(id)-production")
        try await browser.click("\(Self.moveForm(id)) button")
        try await browser.wait("#confirm-text", says: "moves from anna to ben")
        try await browser.screenshot("confirm-light")
        #expect(try await browser.focus() == "confirm-no", "Enter does no harm")
        try await browser.press(.escape)
        #expect(try await !browser.isVisible("#confirm"))
        #expect(try await world.service.profile("anna").verdict == "pro active renewing")

        try await browser.click("\(Self.moveForm(id)) button")
        try await browser.click("#confirm-yes")
        try await browser.wait("\(Self.moveForm(id)) .message", says: "Moved. The purchase belongs to ben now.")
        #expect(try await isInView(browser, "\(Self.moveForm(id)) .message"))
        #expect(try await result(browser).contains("Belongs to ben since"))
        #expect(try await browser.text("#status").isEmpty, "that it is Anna's is no longer so")
        #expect(try await result(browser).contains("Ben showed the receipt"))
        #expect(try await world.service.profile("anna").verdict == "free active no_purchases")
        #expect(try await world.service.profile("ben").verdict == "pro active renewing")
        try await browser.screenshot("purchase-light")

        try await lookUp(browser, "anna")
        try await browser.wait("#status", says: "User anna: the tier is free")
        let card = try await browser.text("#result section")
        #expect(card.contains("The purchase \(id) was moved to ben on 15 June 2024, 12:00 UTC."), "\(card)")
        #expect(card.contains("Ben showed the receipt"))
        #expect(!card.contains("This user has no known purchase"))
        #expect(try await !browser.isVisible(Self.askForm), "there is nothing to ask about")
        try await browser.screenshot("moved-light")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `the downgrade brake is a banner, and is released after one was asked to confirm`() async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "countersign-\(UUID())")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    var snapshot = DowngradeBrake.Snapshot()
    snapshot.engagement = DowngradeBrake.Engagement(since: Self.start, lowered: 10, looked: 41, withheld: 3)
    let memo = String(decoding: try JSONEncoder().encode(snapshot), as: UTF8.self)
    let path = directory.appending(path: "ledger.sqlite").path(percentEncoded: false)
    let ledger = try await Ledger.open(path: path, onFatal: { _ in })
    try await ledger.keepMemo(DowngradeBrakeService.memo, memo)
    await ledger.close()
    try await run(directory: directory) { world in
      try await Browser.run { browser in
        try await enter(browser, world.service)
        let text = try await browser.wait("#brake-text", says: "downgrades nobody on its own")
        #expect(text.contains("It was engaged on 15 June 2024, 12:00 UTC."), "\(text)")
        #expect(text.contains("Of the 41 verdicts of the day before, 10 downgraded somebody."))
        #expect(text.contains("Verdicts held back since: 3."))
        try await browser.screenshot("brake-light")
        try await browser.click("#brake-form button")
        try await browser.wait("#confirm-title", says: "Release the brake?")
        try await browser.press(.escape)
        #expect(try await world.service.send(.get, "/v1/brake")["engaged"] == "true")
        try await browser.click("#brake-form button")
        try await browser.click("#confirm-yes")
        try await browser.wait("#brake .message.good", says: "Every verdict counts for an hour.")
        #expect(try await world.service.send(.get, "/v1/brake")["engaged"] == "false")
        try await lookUp(browser, "nobody")
        try await browser.wait("#status", says: "Never seen here.")
        try await browser.waitUntil("return document.getElementById('brake').hidden")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `what was refused is listed with its reason, and gone with the key`() async throws {
    try await run { world in
      try await Browser.run { browser in
        try await enter(browser, world.service)
        try await browser.click("#refused-form button")
        try await browser.wait("#refused-form .message", says: "None was refused.")
        let forged = try await world.service.send(
          .post, "/v1/notifications/app-store", key: nil, body: #"{"signedPayload":"none"}"#)
        #expect(forged.status == 200 && forged["outcome"] == "unreadable", "\(forged.text)")
        try await browser.click("#refused-form button")
        try await browser.wait("#refused-form .message", says: "1, the newest first.")
        let list = try await browser.text("#refused-list")
        #expect(list.contains("15 June 2024, 12:00 UTC Unproven sender"), "\(list)")
        let answer = try await world.service.send(.get, "/v1/notifications/refused", key: RunningService.supportKey)
        let entry = try #require((answer.object["notifications"] as? [[String: Any]])?.first)
        #expect(entry["authentic"] as? Bool == false && entry["received_at"] as? String == "2024-06-15T12:00:00Z")
        #expect(list.contains(try #require(entry["problem"] as? String)))
        try await browser.screenshot("refused-light")
        try await browser.click("#forget")
        #expect(try await browser.evaluate("return document.querySelectorAll('#refused-list li').length") as? Int == 0)
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `a changed catalog that lowers users is a banner, and they keep their tier until the brake is released`()
    async throws
  {
    let directory = FileManager.default.temporaryDirectory.appending(path: "countersign-\(UUID())")
    defer { try? FileManager.default.removeItem(at: directory) }
    // The product that everybody has is spelt with a letter more.
    var settings = Settings()
    settings.products["com.example.app.pro.monthly"] = nil
    settings.products["com.example.app.pro.monthlyy"] = "{ tier: pro }"
    settings.catalog["accept_loss"] = "[com.example.app.pro.monthly]"
    let changed = settings
    try await SimulatedStore.run(at: Self.start) { store in
      try await RunningService.run(apple: store.apple, directory: directory, now: { Self.start }) { service in
        for number in 1...3 as ClosedRange<Int64> {
          let receipt = try store.simulator.issueReceipt(.renewing, subscriber: number).receiptData
          _ = try await service.validate(receipt, user: "user-\(number)")
        }
      }
      try await RunningService.run(
        apple: store.apple, settings: changed, directory: directory, jobPause: .milliseconds(20), now: { Self.start }
      ) { service in
        try await eventually { try await service.send(.get, "/v1/brake")["withheld_by_rules"] == "3" }
        try await Browser.run { browser in
          try await enter(browser, service)
          try await browser.wait(
            "#brake-text",
            says: """
              A changed catalog or policy would downgrade 3 of the users. They keep what they have until somebody fixes the \
              configuration, or releases the brake.
              """)
          #expect(try await browser.text("#brake-title") == "A changed configuration is held back")
          try await browser.screenshot("withheld-by-rules-light")
          try await lookUp(browser, "user-1")
          try await browser.wait("#status", says: "User user-1: the tier is pro, active.")
          #expect(try await browser.isVisible("#brake"))
          try await browser.click("#brake-form button")
          try await browser.wait("#confirm-title", says: "Release the brake?")
          try await browser.click("#confirm-yes")
          try await browser.wait("#brake .message.good", says: "Every verdict counts for an hour.")
          #expect(try await service.send(.get, "/v1/brake")["withheld_by_rules"] == "0")
          try await eventually { try await service.profile("user-1")["tier"] == "free" }
          try await lookUp(browser, "user-1")
          try await browser.wait("#status", says: "User user-1: the tier is free, active.")
          try await browser.waitUntil("return document.getElementById('brake').hidden")
          #expect(try await browser.complaints() == [])
        }
      }
    }
  }

  @Test func `a link opens a user once the key is typed, and goes with the user`() async throws {
    try await run { world in
      let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let user = "auth0|5f7c+x@example.com"
      _ = try await world.service.validate(receipt, user: user)
      let link = "\(world.service.origin)/support#user=auth0%7C5f7c%2Bx%40example.com"
      try await Browser.run { browser in
        try await browser.open(link)
        try await browser.type(RunningService.supportKey + Browser.Key.enter.rawValue, into: "#key")
        try await browser.wait("#status", says: "User \(user): the tier is pro, active.")
        #expect(try await browser.evaluate("return location.href") as? String == link)
        let copies = "return [...document.querySelectorAll('#result .title button')].map((one) => one.ariaLabel)"
        #expect(try await browser.evaluate(copies) as? [String] == ["Copy the user ID", "Copy a link to this user"])
        try await browser.click("#forget")
        #expect(try await browser.evaluate("return location.hash") as? String == "")
        #expect(try await result(browser).isEmpty)
      }
    }
  }

  @Test func `the key is nowhere but in the page's memory, and a wrong one is asked for again`() async throws {
    try await run { world in
      _ = try await world.service.validate(
        try world.store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData, user: "anna")
      try await Browser.run { browser in
        try await enter(browser, world.service, key: "a-wrong-key")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#key-message", says: "does not know this key")
        #expect(try await browser.isVisible("#key-form"))
        try await browser.type(RunningService.serviceKey + Browser.Key.enter.rawValue, into: "#key")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#status", says: "use one of the role")
        try await browser.click("#forget")
        try await browser.type(RunningService.supportKey + Browser.Key.enter.rawValue, into: "#key")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#status", says: "the tier is pro")
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
        for _ in 0..<12 {
          try await browser.press(.tab)
          reached.append(try await browser.focus())
        }
        #expect(
          reached == [
            "Copy", "Copy link", "Copy", "Show or move", "ask-note", "Ask Apple again", "grant-tier", "grant-length",
            "grant-kind", "grant-note", "Give access", "Details",
          ], "\(reached)")
        let unnamed = try await browser.evaluate(
          """
          return [...document.querySelectorAll('input, select, textarea, button')].filter((one) => one.checkVisibility() &&
            !(one.labels && one.labels.length) && !one.getAttribute('aria-label') && !one.textContent.trim())
            .map((one) => one.outerHTML)
          """)
        #expect((unnamed as? [String]) == [])
        for (selector, name) in [
          ("#query", "User ID, transaction ID or order ID"), ("#ask-note", "Note: why do you ask?"),
          ("#grant-tier", "Tier"),
          ("#grant-length", "How long"), ("#grant-kind", "Kind"), ("#grant-note", "Note: why is it given?"),
        ] {
          #expect(try await browser.label(selector) == name)
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
      let running = try world.store.simulator.issueReceipt(.renewing, subscriber: 2).receiptData
      for _ in 0..<3 {
        world.advance(days: 1)
        _ = try await world.service.validate(running, user: "berta")
      }
      for length in ["1d", "30d"] {
        let body = #"{"tier":"premium","for":"\#(length)","note":"why"}"#
        _ = try await world.service.send(
          .post, "/v1/profiles/anna-given/grants", key: RunningService.supportKey, body: body)
      }
      world.advance(days: 2)
      try await Browser.run { browser in
        try await browser.resize(width: 360, height: 740)
        try await browser.prefer(scheme)
        _ = try await world.service.send(
          .post, "/v1/notifications/app-store", key: nil, body: #"{"signedPayload":"none"}"#)
        try await enter(browser, world.service)
        try await browser.click("#refused-form button")
        try await browser.wait("#refused-form .message", says: "1, the newest first.")
        try await browser.screenshot("search-phone-\(scheme)")
        let sideways = "return document.scrollingElement.scrollWidth - window.innerWidth"
        // Each pill and each notice is somewhere among these.
        for (typed, reported) in [
          ("anna", "the tier is free"), ("berta", "the tier is pro"), (id, "belongs to anna"),
          ("anna-given", "the tier is premium"), ("480000099990000", "Never"),
        ] {
          try await lookUp(browser, typed)
          try await browser.wait("#status", says: reported)
          _ = try await browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
          _ = try await browser.evaluate(
            "document.querySelectorAll('.message').forEach((one) => { one.textContent ||= 'x' })")
          try await browser.screenshot("\(typed)-phone-\(scheme)")
          #expect(try await browser.evaluate(sideways) as? Int ?? 1 <= 0, "\(typed)")
          // WCAG 2.2, 1.4.3: 4.5 to 1 for text, measured on what is drawn.
          for tone in ["", "good", "warn", "bad"] {
            _ = try await browser.evaluate(
              "document.querySelectorAll('.message').forEach((one) => { one.className = 'message \(tone)' })")
            let weak = try await browser.evaluate(Self.weakContrasts)
            #expect((weak as? [String]) == [], "\(typed) \(tone) \(String(describing: weak))")
          }
        }
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
