import Entitlements
import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// The whole job of a support agent, and of an operator, without a command line.
extension SupportPageTests {
  @Test(arguments: [1280, 390])
  func `a support agent finds a customer, asks Apple, gives and ends access, moves a purchase and erases`(width: Int)
    async throws
  {
    try await run(withKey: true) { world in
      let device = "0b8f3d0e-6a2b-4a0f-9f0f-0a3c7b5ad001"
      let begun = try await world.service.send(
        .post, "/v1/trials", body: #"{"user_id":"anna","device_id":"\#(device)"}"#)
      #expect(begun.status == 201, "\(begun.text)")
      let id = try await world.subscribe()
      let order = try #require(try world.store.simulator.newestTransaction(ofOriginal: id).orderID)
      try await page(world.service, width: width) { browser in
        try await lookUp(browser, order)
        try await browser.wait("#status", says: "Found by its order ID: the purchase belongs to anna.")
        try await audit(browser, "order-\(width)")
        try await browser.click("#result [data-user=anna]")
        try await standing(browser, "anna", "pro\nactive")
        #expect(try await browser.text("#result .why").contains("pro"))
        let trials = try await browser.text("section[aria-labelledby=trials-title]")
        #expect(trials.contains("week: pro") && trials.contains(device), "\(trials)")
        try await audit(browser, "customer-\(width)")

        try await open(browser, "ask")
        try await browser.type("Ticket 1: charged twice", into: "#ask-note")
        try await browser.click("\(Self.askForm) button")
        try await browser.wait("\(Self.askForm) .message.good", says: "Asked. The tier is pro, active.")
        try await open(browser, "give")
        try await choose(browser, tier: "premium")
        try await browser.type("Ticket 1: an apology", into: "#grant-note")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("\(Self.giveForm) .message.good", says: "The tier is premium, active.")
        let given = "section[aria-labelledby=given-title] > ol > li"
        try await browser.click("\(given):first-child form > button")
        try await browser.type("Ticket 1: refunded instead", into: "\(given):first-child textarea")
        try await browser.click("\(given):first-child button[type=submit]")
        // A given period that is over comes after the trial, which runs.
        try await browser.wait("\(given):last-child .message.good", says: "The tier is pro, active.")
        // A customer who is shown is still there after a look at something else.
        try await browser.click("nav a[href='#/health']")
        try await browser.wait("#health-result", says: "Ledger\nOK")
        try await browser.click("nav a[href='#/customers']")
        try await browser.wait("#user-title", says: "anna")

        try await lookUp(browser, device)
        try await browser.wait("#status", says: "Found by the device of a trial.")
        try await standing(browser, "anna", "pro\nactive")
        try await lookUp(browser, "anna@example.com")
        #expect(try await browser.wait("#result", says: "Never seen here").contains("knows no email addresses"))
        try await lookUp(browser, order)
        try await browser.wait("#status", says: "the purchase belongs to anna.")
        try await browser.type("ben", into: "#to-\(id)-production")
        try await browser.type("Ticket 2: a new account", into: "#why-\(id)-production")
        try await browser.click("\(Self.moveForm(id)) button")
        try await browser.click("#confirm-yes")
        try await browser.wait("\(Self.moveForm(id)) .message.good", says: "The purchase belongs to ben now.")
        try await lookUp(browser, "anna")
        try await standing(browser, "anna", "pro\nactive")
        try await open(browser, "erase")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#erase-id")
        try await browser.wait("#status", says: "Erased. Kept without the name")
        #expect(try await !world.service.ledger.isKnown("anna"))
        try await lookUp(browser, device)
        try await browser.wait("#status", says: "Found as the device of a trial. Its user was erased.")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test(.ofTheFile, arguments: [1280, 390])
  func `an operator reads figures, releases the brake, starts a run and redelivers an event`(width: Int) async throws {
    let directory = try await Self.folderWithEngagedBrake()
    let clock = MovingClock()
    try await WebhookReceiver.running { receiver in
      receiver.answer(500)
      var settings = Settings()
      settings.products["com.example.app.pro.monthly"] = "{ tier: pro, price: { USD: 9.99 } }"
      settings.catalog["experiments"] = "{ headline: { variants: { control: 1, short: 1 } } }"
      settings.webhookSecrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
      settings.webhooks = ["name: shop, url: \(receiver.url)/hook, private: true, events: [grant.started]"]
      try await RunningService.besideStore(settings: settings, directory: directory.url, now: { clock.date }) {
        service, store in
        for number in 1...3 as ClosedRange<Int64> {
          let receipt = try store.simulator.issueReceipt(.renewing, subscriber: number).receiptData
          _ = try await service.validate(receipt, user: "user-\(number)")
        }
        _ = try await service.send(.post, "/v1/profiles/anna/grants", body: #"{"tier":"pro","for":"365d"}"#)
        try await WebhookTests.giveUp(service, receiver, clock)
        store.simulator.advanceClock(by: .seconds(clock.date.timeIntervalSince(noon)))
        try await eventually { try await service.send(.get, "/v1/figures").text.contains(#""active":3"#) }
        try await page(service, key: RunningService.serviceKey, width: width) { browser in
          let brake = try await browser.wait("#brake-text", says: "downgrades nobody on its own")
          for words in [
            "It was engaged on 15 June 2024, 12:00 UTC.",
            "Of the 41 verdicts of the day before, 10 downgraded somebody.", "Verdicts held back since: 3.",
          ] { #expect(brake.contains(words), "\(brake)") }
          try await readFigures(browser, width)
          try await work(browser, service, receiver, width)
          #expect(try await browser.complaints() == [])
          // A key of the role support looks on.
          try await browser.click("#forget")
          try await enter(browser, service)
          try await browser.click("nav a[href='#/runs']")
          try await browser.wait("#runs-list", says: "Run 1\nfinished")
          try await browser.click("#run-form button")
          try await browser.wait("#run-form .message.bad", says: "use one of the role “service”")
        }
      }
    }
  }

  private func readFigures(_ browser: Browser, _ width: Int) async throws {
    try await browser.wait("#figures-result .tile .large", says: "US$")
    let tiles = try await browser.text("#figures-result .tiles")
    #expect(tiles.hasPrefix("MRR\nUS$") && tiles.contains("\nRevenue\nUS$"), "\(tiles)")
    #expect(tiles.contains("Active subscriptions\n3\n") && tiles.contains("\nChurn\n"), "\(tiles)")
    #expect(try await browser.evaluate("return document.title") as? String == "Figures – Countersign support")
    try await audit(browser, "figures-\(width)")
    // A chart is read with the keys, and is a table as well.
    _ = try await browser.evaluate("document.querySelector('.plot').focus()")
    let read =
      "const one = document.querySelector('.plot'); return [one.ariaLabel, one.ariaValueNow, one.ariaValueText]"
    let last = try #require(try await browser.evaluate(read) as? [String])
    #expect(last.prefix(2) == ["Monthly recurring revenue in USD, by day", "29"], "\(last)")
    #expect(
      last[2].hasPrefix("20 May 2024 to 18 June 2024: MRR now US$"), "the whole span, until a day is touched: \(last)")
    try await browser.press(.left, .left)
    let former = try #require(try await browser.evaluate(read) as? [String])
    #expect(former[1] == "27" && former[2].hasPrefix("16 June 2024: MRR US$"), "\(former)")
    #expect(try await browser.text(".readout").hasPrefix("16 June 2024"))
    // Figures that come anew close it.
    try await eventually {
      _ = try await browser.evaluate(
        "const one = document.querySelector('.chart details'); if (!one.open) one.querySelector('summary').click()")
      return try await browser.text(".chart table").contains("18 June 2024 US$")
    }
    let all = try await browser.text("#figures-result")
    #expect(
      all.contains("Revenue in USD")
        && all.contains("Too early to say which variant is ahead.\nExperiment headline\nVariant"), "\(all)")
    for (span, first) in [("90", "21 March 2024"), ("12", "July 2023")] {
      try await browser.click("#figures-form label:has([value='\(span)'])")
      try await browser.waitUntil(
        "return document.querySelector('.chart tbody tr:last-child th')?.textContent === '\(first)'")
    }
    try await audit(browser, "months-\(width)")
  }

  private func work(
    _ browser: Browser, _ service: RunningService, _ receiver: WebhookReceiver, _ width: Int
  ) async throws {
    try await browser.click("nav a[href='#/health']")
    try await browser.wait("#health-result", says: "Downgrade brake\nengaged")
    try await audit(browser, "health-\(width)")
    try await browser.click("#brake-form button")
    try await browser.wait("#confirm-title", says: "Release the brake?")
    try await browser.press(.escape)
    #expect(try await service.send(.get, "/v1/brake")["engaged"] == "true")
    try await browser.click("#brake-form button")
    try await browser.click("#confirm-yes")
    try await browser.wait("#brake .message.good", says: "Every verdict counts for an hour.")
    try await browser.click("#health-form button")
    try await browser.wait("#health-result", says: "Downgrade brake\nreleased")

    try await browser.click("nav a[href='#/runs']")
    try await browser.wait("#runs-note", says: "There was none yet.")
    try await browser.click("#run-within option[value='31d']")
    try await browser.click("#run-form button")
    try await browser.wait("#confirm-text", says: "Apple is asked about 3 subscriptions")
    try await browser.press(.escape)
    #expect(try await service.ledger.runs(limit: 1).isEmpty)
    try await browser.waitUntil("return !document.querySelector('#run-form button').disabled")
    try await browser.click("#run-form button")
    try await browser.click("#confirm-yes")
    try await browser.wait("#run-form .message.good", says: "Run 1 is under way.")
    try await browser.wait("#runs-list", says: "Run 1\nfinished")
    #expect(try await browser.text("#runs-list").contains("3 of 3 subscriptions, "))
    try await audit(browser, "runs-\(width)")

    try await browser.click("nav a[href='#/webhooks']")
    try await browser.wait("#webhooks-result", says: "User anna, 10 attempts, last problem http_500.")
    try await audit(browser, "webhooks-\(width)")
    receiver.answer(200)
    try await browser.click("#webhooks-result li button")
    try await browser.wait("#webhooks-result li .message.good", says: "It is on the way again.")
    try await browser.click("#webhooks-form button")
    try await browser.waitUntil("return !document.querySelector('#webhooks-result li')")
    try await browser.click("nav a[href='#/notifications']")
    try await browser.wait("#refused-form .message", says: "None was refused.")
    try await audit(browser, "notifications-\(width)")
  }

  /// The rules for everything that is shown, in light and dark: the text is readable, nothing is scrolled sideways,
  /// everything has a name, and the keyboard reaches it.
  func audit(_ browser: Browser, _ name: String) async throws {
    for scheme in ["light", "dark"] {
      try await browser.prefer(scheme)
      let weak = try await browser.evaluate(Self.weakContrasts) as? [String]
      #expect(weak == [], "\(name) \(scheme)")
      try await browser.screenshot("\(name)-\(scheme)")
    }
    #expect(try await browser.evaluate(Self.sideways) as? Int ?? 1 <= 0, "\(name)")
    let count = try await browser.evaluate(
      """
      const reachable = 'a[href], button, input, select, textarea, summary, [tabindex="0"]'
      const all = [...document.querySelectorAll(reachable)].filter((one) => one.checkVisibility() && !one.disabled
        && !(one.type === 'radio' && !one.checked) && !one.classList.contains('skip'))
      window.unnamed = all.filter((one) => !(one.labels && one.labels.length) && !one.ariaLabel && !one.textContent.trim())
      window.unreached = new Set(all)
      document.addEventListener('focusin', (event) => window.unreached.delete(event.target))
      document.activeElement.blur()
      return all.length
      """)
    for _ in 0..<((count as? Int ?? 0) + 3) { try await browser.press(.tab) }
    let left = try await browser.evaluate(
      "return [...window.unreached, ...window.unnamed].map((one) => one.outerHTML.slice(0, 200))")
    #expect(left as? [String] == [], "\(name)")
  }

  /// Elements with text of their own whose colour is too near to what is behind them.
  static let weakContrasts = """
    const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number)
    const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
    const behind = (one) => { for (let e = one; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c } return [255, 255, 255] }
    const ink = (one) => one instanceof SVGElement ? getComputedStyle(one).fill : getComputedStyle(one).color
    return [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() &&
      (!(one instanceof SVGElement) || one.tagName === 'text') && [...one.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
      .filter((one) => { const [a, b] = [light(parse(ink(one))), light(behind(one))].sort((x, y) => y - x)
        return (a + 0.05) / (b + 0.05) < 4.5 })
      .map((one) => one.outerHTML.slice(0, 120) + ink(one) + behind(one))
    """
}
