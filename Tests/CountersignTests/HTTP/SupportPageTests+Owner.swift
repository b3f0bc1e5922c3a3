import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// An owner's morning: with a key of both roles, from the first start on.
extension SupportPageTests {
  @Test(arguments: [1280, 390])
  func `a console without a purchase says what to do next, in each of its parts`(width: Int) async throws {
    try await run { world in
      let origin = world.service.origin
      try await page(world.service, key: RunningService.ownerKey, width: width) { browser in
        let figures = try await browser.wait("#figures-result", says: "Nothing is recorded yet")
        for words in ["countersign doctor", "\(origin)/v1/validations", "\(origin)/v1/notifications/app-store"] {
          #expect(figures.contains(words), "\(figures)")
        }
        try await audit(browser, "empty-figures-\(width)")
        try await browser.click("nav a[href='#/recent']")
        try await browser.wait("#recent-result", says: "\(origin)/v1/validations")
        try await browser.click("nav a[href='#/customers']")
        try await browser.wait("#result", says: "\(origin)/v1/validations")
        for (part, place, words) in [
          ("runs", "#runs-note", "There was none yet. The form above starts one."),
          ("webhooks", "#webhooks-form .message", "List one under webhooks in the configuration"),
          ("notifications", "#refused-form .message", "\(origin)/v1/notifications/app-store"),
        ] {
          try await browser.click("nav a[href='#/\(part)']")
          try await browser.wait(place, says: words)
        }
        // It is gone with the first purchase.
        try await world.subscribe()
        try await browser.click("nav a[href='#/figures']")
        try await browser.waitUntil("return !document.querySelector('#figures-result .steps')")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `times are in the reader's zone, and a tooltip has them in UTC`() async throws {
    try await run { world in
      _ = try await fillIn(world)
      try await Browser.run { browser in
        try await browser.live(in: "Asia/Kolkata")
        try await enter(browser, world.service)
        #expect(try await browser.text("#zone").contains("your time zone, Asia/"))
        try await lookUp(browser, "anna")
        try await standing(browser, "anna", "free")
        let times =
          "const all = [...document.querySelectorAll('ol.history time')].at(-1);"
          + " return [all.textContent, all.title, all.dateTime]"
        #expect(
          try await browser.evaluate(times) as? [String]
            == ["15 June 2024, 17:30 GMT+5:30", "15 June 2024, 12:00 UTC", "2024-06-15T12:00:00Z"])
        // A typed time is in the same zone.
        try await open(browser, "give")
        try await choose(browser, tier: "pro")
        try await browser.click("#grant-length option[value='']")
        _ = try await browser.evaluate(
          "const one = document.getElementById('grant-until'); one.value = '2024-12-31T23:00'; one.dispatchEvent(new Event('input'))"
        )
        try await browser.type("why", into: "#grant-note")
        try await browser.click("\(Self.giveForm) button")
        try await browser.wait(
          "\(Self.giveForm) .message.good", says: "Given: pro until 31 December 2024, 23:00 GMT+5:30.")
        let grants = try await world.service.send(.get, "/v1/profiles/anna/grants").array("grants")
        #expect(grants.first?["ends_at"] as? String == "2024-12-31T17:30:00Z")
      }
    }
  }

  @Test(arguments: [1280, 390])
  func `recent purchases lead to their customers, and a table is saved as CSV`(width: Int) async throws {
    try await run { world in
      _ = try await fillIn(world)
      let names = ["=1+1", "@ben", "cleo"]
      for (number, user) in names.enumerated() {
        let receipt = try world.store.simulator.issueReceipt(.renewing, subscriber: Int64(number + 2)).receiptData
        _ = try await world.service.validate(receipt, user: user)
      }
      try await page(world.service, key: RunningService.ownerKey, width: width) { browser in
        try await browser.click("nav a[href='#/recent']")
        let list = try await browser.wait("#recent-result", says: "cleo")
        #expect(list.contains("com.example.app.pro.monthly") && list.contains("Purchase"), "\(list)")
        let order = "return [...document.querySelectorAll('#recent-result tbody a')].map((one) => one.textContent)"
        #expect(try await browser.evaluate(order) as? [String] == names.reversed() + ["anna"])
        try await audit(browser, "recent-\(width)")
        let text = try await saved(browser, byClicking: "#recent-result table + button")
        let lines = text.components(separatedBy: "\r\n")
        #expect(lines.first == "When,What,Customer,Product")
        #expect(lines[1].hasSuffix("Z,Purchase,cleo,com.example.app.pro.monthly"), "\(lines)")
        let guarded = lines[2].contains(",'@ben,") && lines[3].contains(",'=1+1,")
        #expect(guarded, "no program for tables takes them for formulas: \(lines)")

        for (kind, words) in [
          ("failed", "Payment failed"), ("refunds", "There was none yet."), ("renewals", "There was none"),
        ] {
          try await browser.click("#recent-form label:has([value='\(kind)'])")
          try await browser.wait("#recent-result", says: words)
        }
        try await browser.click("#recent-form label:has([value='failed'])")
        try await browser.wait("#recent-result", says: "anna")
        try await browser.click("#recent-result tbody a")
        try await standing(browser, "anna", "free\nexpired")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test(arguments: [1280, 390])
  func `products have the catalog's names, and a table's CSV their IDs`(width: Int) async throws {
    var settings = Settings()
    settings.products["com.example.app.pro.monthly"] = "{ tier: pro, name: Pro by the month, period: P1M }"
    try await run(settings: settings, jobPause: .milliseconds(20)) { world in
      try await world.subscribe()
      try await eventually { try await world.service.send(.get, "/v1/figures").text.contains(#""active":1"#) }
      try await page(world.service, key: RunningService.ownerKey, width: width) { browser in
        try await browser.wait(
          "section[aria-label=Products] tbody th", says: "Pro by the month\ncom.example.app.pro.monthly")
        try await audit(browser, "names-figures-\(width)")
        try await browser.click("nav a[href='#/recent']")
        try await browser.wait("#recent-result tbody td:last-child", says: "Pro by the month")
        let saved = try await saved(browser, byClicking: "#recent-result table + button")
        #expect(saved.contains(",anna,com.example.app.pro.monthly") && !saved.contains("by the month"), "\(saved)")
        try await browser.click("#recent-result tbody a")
        try await standing(browser, "anna", "pro")
        #expect(try await result(browser).contains("Product\nPro by the month\ncom.example.app.pro.monthly"))
        try await audit(browser, "names-user-\(width)")
        let lanes = "return [...document.querySelectorAll('.picture .lane')].map((one) => one.textContent)"
        #expect((try await browser.evaluate(lanes) as? [String])?.contains("Pro by the month") == true)
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `each transaction of a product is drawn, also those that Apple's last answer left out`() async throws {
    try await run(withKey: true) { world in
      let transaction = try world.store.simulator.issueTransaction(.renewing, subscriber: 1)
      let id = transaction.originalTransactionID
      for month in 0..<3 {
        if month > 0 { world.advance(days: 31) }
        _ = try await world.service.validate(originalTransactionID: id, user: "anna")
      }
      let periods = try await world.service.history(of: "anna").periods
      #expect(Set(periods.compactMap { $0["transaction_id"] as? String }).count == 3, "\(periods)")
      try await page(world.service, anna: "pro") { browser async throws in
        let drawn = """
          return [...document.querySelectorAll('.picture title')].map((one) => one.textContent)
            .filter((text) => text.startsWith('Paid from ')).length
          """
        #expect(try await browser.evaluate(drawn) as? Int == 3)
        let lanes = """
          return [...document.querySelectorAll('.picture .lane')].map((one) => one.textContent)
            .filter((text) => text.startsWith('com.'))
          """
        #expect(try await browser.evaluate(lanes) as? [String] == ["com.example.app.pro.monthly"])
      }
    }
  }
}
