import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// The page as a person uses it, in a real browser.
@Suite(
  .enabled(
    if: Browser.isInstalled, "The support page is tried in Chromium: install the packages chromium and chromium-driver."
  ))
struct SupportPageTests {
  func run(
    withKey: Bool = false, settings: Settings = Settings(), directory: URL? = nil,
    jobPause: Duration = .seconds(3600),
    body: @Sendable (World) async throws -> Void
  ) async throws {
    var settings = settings
    settings.appStore["deadline"] = "2s"
    try await World.run(
      withServerAPI: withKey, settings: settings, directory: directory, jobPause: jobPause, body: body)
  }

  func enter(_ browser: Browser, _ service: RunningService, key: String = RunningService.supportKey)
    async throws
  {
    try await browser.open("\(service.origin)/support")
    try await browser.type(key + Browser.Key.enter.rawValue, into: "#key")
    try await browser.waitUntil("return document.querySelector('#key-form button').disabled === false")
  }

  /// Opens the page with a key, in a window as wide as is said, and runs `body`.
  ///
  /// - Parameter state: what Anna has, where she is to be shown first.
  func page(
    _ service: RunningService, key: String = RunningService.supportKey, width: Int? = nil, height: Int = 844,
    anna state: String? = nil, body: (Browser) async throws -> Void
  ) async throws {
    try await Browser.run { browser in
      if let width { try await browser.resize(width: width, height: height) }
      try await enter(browser, service, key: key)
      if let state {
        try await lookUp(browser, "anna")
        try await standing(browser, "anna", state)
      }
      try await body(browser)
    }
  }

  func lookUp(_ browser: Browser, _ id: String) async throws {
    _ = try await browser.evaluate("document.getElementById('query').value = ''")
    try await browser.type(id + Browser.Key.enter.rawValue, into: "#query")
  }

  /// Anna's charge failed in June; grace and billing retry went by, and in August the subscription was over.
  func fillIn(_ world: World) async throws -> String {
    let receipt = try world.store.simulator.issueReceipt(.grace, subscriber: 1)
    let id = try #require(receipt.originalTransactionIDs.first)
    _ = try await world.service.validate(receipt.receiptData, user: "anna")
    for days in [14.0, 60] {
      world.advance(days: days)
      _ = try await world.service.validate(originalTransactionID: id, user: "anna")
    }
    return id
  }

  /// Waits until the page shows a user.
  /// - Parameter state: the tier and what is beside it.
  func standing(_ browser: Browser, _ user: String, _ state: String) async throws {
    try await browser.wait("#user-title", says: user)
    if !state.isEmpty { try await browser.wait("#result .state", says: state) }
  }

  /// Opens the form of an action, unless it is open.
  func open(_ browser: Browser, _ action: String) async throws {
    let isOpen = "return document.getElementById('open-\(action)').ariaExpanded"
    if try await browser.evaluate(isOpen) as? String != "true" { try await browser.click("#open-\(action)") }
  }

  /// The text that the page shows of customers.
  func result(_ browser: Browser) async throws -> String { try await browser.text("#result") }

  static let giveForm = "form[aria-labelledby=give-title]"
  static let askForm = "form[aria-labelledby=ask-title]"
  static func moveForm(_ id: String) -> String { "form[aria-labelledby=move-\(id)-production]" }
  /// How far the page has to be scrolled sideways.
  static let sideways = "return document.scrollingElement.scrollWidth - window.innerWidth"

  /// The text that the browser is given to save where a button is clicked.
  func saved(_ browser: Browser, byClicking button: String) async throws -> String {
    _ = try await browser.evaluate(
      """
      const former = URL.createObjectURL
      URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text }); return former(blob) }
      """)
    try await browser.click(button)
    try await browser.waitUntil("return Boolean(window.saved)")
    return try await browser.evaluate("return window.saved") as? String ?? ""
  }

  /// Whether an element is within the window.
  func isInView(_ browser: Browser, _ selector: String) async throws -> Bool {
    try await browser.evaluate(
      """
      const box = document.querySelector('\(selector)').getBoundingClientRect()
      return box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight
      """) as? Bool ?? false
  }

  @Test func `the page says why Anna is on free, asks Apple again, and keeps the note`() async throws {
    try await run { world in
      let id = try await fillIn(world)
      try await page(world.service, width: 1280, height: 720) { browser in
        #expect(try await !browser.isVisible("#key-form"))
        #expect(try await browser.focus() == "query")
        try await lookUp(browser, "anna")
        try await standing(browser, "anna", "free\nexpired")
        #expect(try await browser.focus() == "user-title", "a screen reader goes on where the answer is")
        let card = try await browser.text("#result section")
        #expect(card.contains("Apple could not renew the payment. The subscription ended on 12 June 2024."), "\(card)")
        #expect(try await browser.text("#status").isEmpty, "the verdict is said once")
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
        try await open(browser, "ask")
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
      try await page(world.service, anna: "") { browser in
        try await open(browser, "ask")
        try await browser.type("half a note", into: "#ask-note")
        // The text that is shown while the next look-up is under way.
        _ = try await browser.evaluate(
          """
          const button = document.querySelector('#search-form button')
          window.during = null
          new MutationObserver(() => { if (button.disabled) window.during ??= document.getElementById('result').textContent })
            .observe(button, {attributes: true})
          """)
        await world.service.ledger.close()
        try await lookUp(browser, "berta")
        try await browser.wait("#status", says: "The ledger is unavailable now; try again. (request ")
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
      try await page(world.service, width: 390, anna: "") { browser in
        try await open(browser, "ask")
        try await browser.type("  ", into: "#ask-note")
        try await browser.click("\(Self.askForm) button")
        try await browser.wait("#ask-note-error", says: "Say in the note why you ask.")
        #expect(try await isInView(browser, "#ask-note-error"))
        #expect(try await browser.focus() == "ask-note")
        try await browser.screenshot("note-phone-light")
        try await open(browser, "ask")
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

  @Test func `an ID never seen is said to be so, with nothing to fill in`() async throws {
    try await run { world in
      _ = try await fillIn(world)
      try await page(world.service) { browser in
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

  @Test func `one field finds a later transaction, an order, and a purchase without an owner`()
    async throws
  {
    try await run(withKey: true) { world in
      let id = try await world.subscribe()
      let newest = try world.store.simulator.newestTransaction(ofOriginal: id)
      let order = try #require(newest.orderID)
      let nobodys = try world.store.simulator.issueTransaction(.renewing, subscriber: 2)
      try await page(world.service) { browser in
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
        try await browser.wait("#confirm-text", says: "This service has never seen ben. Is it typed correctly?")
        try await browser.click("#confirm-yes")
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
      _ = try await world.service.validate(lifetime, user: "anna")
      // Of the subscription Apple says the same again, as of now.
      for _ in 0..<55 {
        world.advance(days: 1)
        _ = try await world.service.validate(refunded, user: "anna")
      }
      _ = try await world.service.validate(refunded, user: "anna")
      _ = try await world.service.validate(
        try world.store.simulator.issueReceipt(.refunded, subscriber: 3).receiptData, user: "berta")
      try await page(world.service, anna: "premium\nactive") { browser in
        #expect(try await browser.text("#result .why").contains("is for life and does not expire."))
        let drawn = try await browser.evaluate(
          """
          return [...document.querySelectorAll('.picture title')].map((one) => one.textContent)
            .filter((text) => text.startsWith('Apple took it back on') || text.startsWith('Bought for life, transaction ')).length
          """)
        #expect(drawn as? Int == 2)
        let count = "return document.querySelectorAll('ol.history li.entry').length"
        #expect(try await browser.evaluate(count) as? Int == 50)
        let lines = "return [...document.querySelectorAll('#result ol.history')].at(0).children.length"
        #expect(try await browser.evaluate(lines) as? Int ?? 50 < 5, "what is as before is one line")
        #expect(try await browser.text("li.folded summary").contains("checks without a change, "))
        try await browser.click("#result section[aria-labelledby=history-title] > form button")
        try await browser.wait("#result section[aria-labelledby=history-title] > form .message", says: "All ")
        #expect(try await browser.evaluate(count) as? Int ?? 0 > 55)
        try await browser.screenshot("folded-light")

        try await lookUp(browser, "berta")
        try await standing(browser, "berta", "free\nexpired")
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
      let id = try await world.subscribe()
      try await page(world.service) { browser in
        try await lookUp(browser, id)
        try await browser.wait("#status", says: "the purchase belongs to anna")
        try await browser.type("ben", into: "#to-\(id)-production")
        try await browser.type("Ben showed the receipt", into: "#why-\(id)-production")
        try await browser.click("\(Self.moveForm(id)) button")
        let question = try await browser.wait("#confirm-text", says: "moves from anna to ben")
        #expect(question.hasPrefix("This service has never seen ben. Is it typed correctly?"))
        #expect(try await browser.text("#confirm-yes") == "Move it anyway")
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
        try await standing(browser, "anna", "free")
        let card = try await browser.text("#result section")
        #expect(card.contains("The purchase \(id) was moved to ben on 15 June 2024, 12:00 UTC."), "\(card)")
        #expect(card.contains("Ben showed the receipt"))
        #expect(!card.contains("This user has no known purchase"))
        #expect(try await !browser.isVisible(Self.askForm), "there is nothing to ask about")
        try await browser.screenshot("moved-light")

        // Of a user who is known the dialog says what they have.
        try await lookUp(browser, id)
        try await browser.wait("#status", says: "the purchase belongs to ben")
        try await browser.type("anna", into: "#to-\(id)-production")
        try await browser.type("It was hers", into: "#why-\(id)-production")
        try await browser.click("\(Self.moveForm(id)) button")
        let known = try await browser.wait("#confirm-text", says: "anna has the tier free now, active.")
        #expect(!known.contains("never seen"))
        #expect(try await browser.text("#confirm-yes") == "Move it")
        try await browser.click("#confirm-yes")
        try await browser.wait("\(Self.moveForm(id)) .message", says: "Moved. The purchase belongs to anna now.")
        #expect(try await browser.complaints() == [])
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
        try await standing(browser, "\(user)", "pro\nactive")
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
      try await world.subscribe()
      try await page(world.service, key: "a-wrong-key") { browser in
        try await browser.wait("#key-message", says: "does not know this key")
        #expect(try await browser.isVisible("#key-form"))
        #expect(try await !browser.isVisible("#key-state"))
        try await browser.type(RunningService.serviceKey + Browser.Key.enter.rawValue, into: "#key")
        try await browser.wait("#figures h1", says: "Figures")
        #expect(try await browser.text("nav [aria-current]") == "Figures")
        try await browser.click("nav a[href='#/customers']")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await browser.wait("#status", says: "use one of the role")
        try await browser.click("#forget")
        try await browser.type(RunningService.supportKey + Browser.Key.enter.rawValue, into: "#key")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#query")
        try await standing(browser, "anna", "pro")
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
        try await browser.waitUntil("return document.activeElement.id === 'query'")
        try await browser.type("anna")
        try await browser.press(.enter)
        try await standing(browser, "anna", "free")
        var reached: [String] = []
        for _ in 0..<10 {
          try await browser.press(.tab)
          reached.append(try await browser.focus())
        }
        #expect(
          reached == [
            "Copy", "Copy link", "open-ask", "open-give", "open-refunds", "open-extend", "open-move", "open-export",
            "open-erase", "Details",
          ], "\(reached)")
        // An action opens below the buttons, with the focus in it, and Escape closes it.
        _ = try await browser.evaluate("document.getElementById('open-give').focus()")
        try await browser.press(.enter)
        #expect(try await browser.focus() == "grant-tier")
        #expect(try await browser.isVisible(Self.giveForm))
        #expect(try await !browser.isVisible(Self.askForm))
        reached = []
        for _ in 0..<4 {
          try await browser.press(.tab)
          reached.append(try await browser.focus())
        }
        #expect(reached == ["grant-length", "grant-kind", "grant-note", "Give access"], "\(reached)")
        try await browser.press(.escape)
        #expect(try await browser.focus() == "open-give")
        #expect(try await !browser.isVisible(Self.giveForm))
        try await open(browser, "move")
        let purchases = try await browser.text("#action-move")
        #expect(purchases.hasPrefix("Purchase") && purchases.hasSuffix("Show or move"), "\(purchases)")
        try await open(browser, "give")
        for (selector, name) in [
          ("#query", "User ID, transaction ID, order ID or device ID"),
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
        try await browser.click("nav a[href='#/notifications']")
        try await browser.wait("#refused-form .message", says: "1, the newest first.")
        try await browser.screenshot("refused-phone-\(scheme)")
        try await browser.click("nav a[href='#/customers']")
        // Each pill and each notice is somewhere among these.
        for (typed, reported) in [
          ("anna", "free"), ("berta", "pro"), (id, "Belongs to anna"), ("anna-given", "premium"),
          ("480000099990000", "Never seen here"),
        ] {
          try await lookUp(browser, typed)
          try await browser.wait("#result", says: reported)
          _ = try await browser.evaluate(
            "document.querySelectorAll('.action').forEach((one) => { one.hidden = false })")
          _ = try await browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
          _ = try await browser.evaluate(
            "document.querySelectorAll('.message').forEach((one) => { one.textContent ||= 'x' })")
          try await browser.screenshot("\(typed)-phone-\(scheme)")
          #expect(try await browser.evaluate(Self.sideways) as? Int ?? 1 <= 0, "\(typed)")
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
}
