import Foundation
import Testing

@testable import AppStoreSimulator

/// Apple's list of a customer's refunds, on the page.
extension SupportPageTests {
  private static let refundsForm = "form[aria-labelledby=refunds-title]"

  @Test(arguments: [1280, 390])
  func `a refund that nobody told is found by a button, and the page shows at once what it ends`(width: Int)
    async throws
  {
    try await run(withKey: true) { world in
      let bought = try world.store.simulator.issueTransaction(.lifetime)
      _ = try await world.service.validate(bought.signedTransaction, user: "anna")
      try await page(world.service, width: width, height: 800, anna: "premium\nactive") { browser in
        try await open(browser, "refunds")
        try await browser.click("\(Self.refundsForm) button[type=submit]")
        try await browser.wait("\(Self.refundsForm) .message", says: "Apple knows no refund.")
        world.advance(days: 0.1)
        _ = try world.store.simulator.issueTransaction(.lifetimeRefunded)
        for (news, isNew) in [("1 refund, 1 new.", true), ("1 refund, 0 new.", false)] {
          try await browser.click("\(Self.refundsForm) button[type=submit]")
          try await browser.wait("\(Self.refundsForm) .message", says: news)
          let table = try await browser.text("\(Self.refundsForm) table")
          #expect(table.contains(bought.transactionID) && table.contains("14 June 2024"), "\(table)")
          #expect(table.contains("this user") && table.contains("new") == isNew, "\(table)")
          try await standing(browser, "anna", "free\nexpired")
        }
      }
    }
  }
}
