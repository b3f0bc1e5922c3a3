import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import CountersignServer

/// Access that support gives.
extension SupportPageTests {
  /// Names a tier, among the plans or in words.
  func choose(_ browser: Browser, tier: String) async throws {
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
      try await page(world.service, width: width, height: 760, anna: "free\nexpired") { browser in
        #expect(try await !result(browser).contains("Access that was given"))
        #expect(try await !browser.isVisible("#grant-until"))

        let note = "<img src=x onerror=alert(1)> an apology"
        try await open(browser, "give")
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
        try await open(browser, "give")
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
        #expect(try await browser.evaluate(Self.sideways) as? Int ?? 1 <= 0)
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

  @Test func `a refused grant is explained by the form, and nothing is given`() async throws {
    try await run { world in
      _ = try await fillIn(world)
      try await page(world.service) { browser in
        // A tier that the catalog has lost since.
        try await tellPlans(
          browser, #"{"plans":[{"tier":"free"},{"tier":"pro","name":"Family Pro"},{"tier":"gold","name":"gold"}]}"#)
        try await lookUp(browser, "anna")
        try await standing(browser, "anna", "")
        let offered = "return [...document.querySelectorAll('#grant-tier option')].map((one) => one.textContent)"
        #expect(try await browser.evaluate(offered) as? [String] == ["Family Pro (pro)", "gold"])
        try await open(browser, "give")
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
        try await open(browser, "give")
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
      try await page(world.service) { browser in
        try await tellPlans(browser, status: 503, "{}")
        try await lookUp(browser, "anna")
        try await standing(browser, "anna", "")
        try await open(browser, "give")
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
      try await page(world.service, anna: "") { browser in
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
        try await open(browser, "give")
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
        try await open(browser, "give")
        try await choose(browser, tier: "pro")
        try await browser.type("why", into: "#grant-note")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait("\(Self.giveForm) .message.good", says: "Given: pro until")
        #expect(try await grants(world, of: "anna").count == 2)
        #expect(try await browser.complaints() == [])
      }
    }
  }
}
