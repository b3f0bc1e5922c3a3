import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import CountersignServer

/// Later renewal dates, of a customer and of a product.
extension SupportPageTests {
  private static let form = "form[aria-labelledby=extend-title]"

  @Test(arguments: [1280, 390])
  func `support extends a subscription, and the page says the new date, or why Apple refuses`(width: Int) async throws {
    try await run(withKey: true) { world in
      let id = try await world.subscribe()
      world.advance(days: 1)
      try await page(world.service, width: width, anna: "pro\nactive") { browser in
        try await open(browser, "extend")
        #expect(try await browser.text(Self.form).contains("twice in 365 days"))
        #expect(try await browser.text("#extend-purchase").contains("com.example.app.pro.monthly (\(id))"))
        try await browser.type("91", into: "#extend-days")
        try await browser.click("\(Self.form) button")
        try await browser.wait("#extend-days-error", says: "Give a whole number of days, from 1 to 90.")
        _ = try await browser.evaluate("document.getElementById('extend-days').value = ''")
        try await browser.type("14", into: "#extend-days")
        try await browser.click("\(Self.form) button")
        try await browser.wait("#extend-note-error", says: "Say in the note why it is extended.")
        try await browser.type("Ticket 4711: an apology", into: "#extend-note")
        try await browser.click("\(Self.form) button")
        try await browser.wait(
          "\(Self.form) .message.good", says: "Extended until 15 July 2024, 12:00 UTC. The tier is pro")
        #expect(try await isInView(browser, "\(Self.form) .message"))
        #expect(try await browser.text("#result section .state") == "pro\nactive")
        #expect(try await browser.text("#result section").contains("15 July 2024"))
        let history = try await browser.text("ol.history")
        #expect(history.contains("Apple extended the renewal date by 14 days"))
        #expect(history.contains("(customer_satisfaction). Ticket 4711: an apology"))
        // Apple's answer is a signed one.
        try await browser.click("details:has(ol.terms) > summary")
        #expect(try await browser.text("ol.terms").contains("Transaction reason\nPURCHASE"))
        try await audit(browser, "extended-\(width)")
        for outcome in ["Extended until 16 July 2024", "Apple extends a subscription twice in 365 days at most."] {
          try await browser.type("1", into: "#extend-days")
          try await browser.type(outcome, into: "#extend-note")
          try await browser.click("\(Self.form) button")
          try await browser.wait("\(Self.form) .message", says: outcome)
        }
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test(arguments: [1280, 390])
  func `a product is extended for all once its ID was typed twice, and a bar shows how far Apple is`(width: Int)
    async throws
  {
    let clock = MovingClock()
    try await RunningService.besideStore(withServerAPI: true, now: { clock.date }) { service, store in
      for number in 1...3 as ClosedRange<Int64> {
        let receipt = try store.simulator.issueReceipt(.subscriber, subscriber: number).receiptData
        _ = try await service.validate(receipt, user: "user-\(number)")
      }
      try store.simulator.deliverNotifications(to: "http://127.0.0.1:\(service.port)/v1/notifications/app-store")
      let product = "com.example.app.pro.monthly"
      try await page(service, key: RunningService.serviceKey, width: width) { browser in
        try await browser.click("nav a[href='#/extensions']")
        try await browser.wait("#extensions-note-list", says: "There was none yet.")
        try await audit(browser, "extensions-\(width)")
        try await browser.type(product, into: "#extensions-product")
        try await browser.type("com.example.app.pro.yearly", into: "#extensions-again")
        try await browser.type("3", into: "#extensions-days")
        try await browser.type("usa, deu", into: "#extensions-storefronts")
        try await browser.type("the outage of Friday", into: "#extensions-note")
        try await browser.click("#extensions-form button")
        try await browser.wait("#extensions-again-error", says: "this is not the same.")
        _ = try await browser.evaluate("document.getElementById('extensions-again').value = ''")
        try await browser.type(product, into: "#extensions-again")
        try await browser.click("#extensions-form button")
        try await browser.wait("#confirm-text", says: "by 3 days in USA, DEU, and charges that much later.")
        try await browser.press(.escape)
        #expect(try await service.send(.get, "/v1/extensions").array("extensions").isEmpty)
        try await browser.click("#extensions-form button")
        try await browser.click("#confirm-yes")
        try await browser.wait("#extensions-form .message.good", says: "Apple is asked.")
        try await browser.wait("#extensions-list", says: "0 of about 3 extended by 3 days, 0 not. In USA, DEU.")
        let bar = "const bar = document.querySelector('#extensions-list progress'); return [bar.value, bar.max]"
        #expect(try await browser.evaluate(bar) as? [Int] == [0, 3])
        try await eventually { try await service.send(.get, "/v1/extensions/1").text.contains(#""running""#) }
        clock.advance(by: 3_660)
        store.simulator.advanceClock(by: .seconds(3_660))
        _ = await store.simulator.deliveries()
        try await browser.wait("#extensions-list", says: "done")
        #expect(try await browser.text("#extensions-list").contains("3 extended by 3 days, 0 not."))
        #expect(try await browser.text("#extensions-list").contains("the outage of Friday"))
        #expect(try await browser.evaluate(bar) as? [Int] == [1, 1])
        try await audit(browser, "extended-all-\(width)")
        #expect(try await browser.complaints() == [])
      }
    }
  }
}
