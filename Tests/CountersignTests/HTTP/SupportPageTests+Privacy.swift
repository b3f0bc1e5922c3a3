import Entitlements
import Foundation
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// A user's data as a file, and its end.
extension SupportPageTests {
  private static let exportForm = "form[aria-labelledby=export-title]"
  private static let eraseForm = "form[aria-labelledby=erase-title]"

  @Test(arguments: [1280, 390])
  func `a user is exported, and erased once the ID is typed`(width: Int) async throws {
    try await run { world in
      let id = try await fillIn(world)
      try await page(world.service, width: width, height: 760, anna: "free\nexpired") { browser in
        try await open(browser, "export")
        let saved = try await saved(browser, byClicking: "\(Self.exportForm) button")
        try await browser.wait(
          "\(Self.exportForm) .message.good", says: "Exported. Purchases: 1; lines of the history:")
        #expect(saved.contains(#""user_id": "anna""#) && saved.contains(id) && saved.contains("receipt_data"))

        try await open(browser, "erase")
        try await browser.click("\(Self.eraseForm) button")
        try await browser.wait("#erase-id-error", says: "Type the user ID.")
        try await open(browser, "erase")
        try await browser.type("Anna" + Browser.Key.enter.rawValue, into: "#erase-id")
        try await browser.wait("#erase-id-error", says: "This is not the ID of the user shown here.")
        #expect(try await browser.focus() == "erase-id")
        #expect(try await isInView(browser, "#erase-id-error"))
        try await browser.screenshot("erasing-\(width)-light")
        #expect(try await world.service.ledger.isKnown("anna"))

        _ = try await browser.evaluate("document.getElementById('erase-id').value = ''")
        try await open(browser, "erase")
        try await browser.type("anna" + Browser.Key.enter.rawValue, into: "#erase-id")
        try await browser.wait("#status", says: "Erased. Kept without the name: purchases 1, lines of")
        #expect(try await result(browser).isEmpty)
        #expect(try await browser.focus() == "query")
        #expect(try await browser.evaluate("return location.hash") as? String == "")
        #expect(try await !world.service.ledger.isKnown("anna"))

        try await lookUp(browser, id)
        try await browser.wait("#status", says: "the purchase belongs to (erased).")
        let card = try await result(browser)
        #expect(card.contains("Its user was erased: nobody gets it by presenting it, until you move it."), "\(card)")
        #expect(!card.contains("Show the user") && !card.contains("anna"))
        #expect(try await browser.evaluate(Self.sideways) as? Int ?? 1 <= 0)
        #expect(try await browser.complaints() == [])
      }
    }
  }
}
