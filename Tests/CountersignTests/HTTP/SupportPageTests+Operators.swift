import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// The brake, and refused notifications.
extension SupportPageTests {
  /// A new folder with a ledger in a file, in which the brake is engaged.
  static func folderWithEngagedBrake() async throws -> TemporaryDirectory {
    let directory = try TemporaryDirectory()
    var snapshot = DowngradeBrake.Snapshot()
    snapshot.engagement = DowngradeBrake.Engagement(since: noon, lowered: 10, looked: 41, withheld: 3)
    let memo = String(decoding: try JSONEncoder().encode(snapshot), as: UTF8.self)
    let path = directory.url.appending(path: "ledger.sqlite").path(percentEncoded: false)
    let ledger = try await Ledger.open(path: path, onFatal: { _ in })
    try await ledger.keepMemo(DowngradeBrakeService.memo, memo)
    await ledger.close()
    return directory
  }

  @Test func `refused notifications are listed with their reason, and gone with the key`() async throws {
    try await run { world in
      try await page(world.service) { browser in
        try await browser.click("nav a[href='#/notifications']")
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

  @Test(arguments: [1280, 390])
  func `Apple posts a test from the Health page, and the page says whether it arrived`(width: Int) async throws {
    try await run(withKey: true) { world in
      let simulator = world.store.simulator
      try await page(world.service, width: width) { browser in
        try await browser.click("nav a[href='#/health']")
        try await browser.wait("#test-form", says: "Have Apple post a test")
        let path = "\(world.service.origin)/v1/notifications/app-store"
        for (url, words) in [
          (nil, "no URL\nSet it in App Store Connect: \(path)"), (path, "arrived"),
          ("\(world.service.origin)/nowhere", "Apple says UNSUCCESSFUL_HTTP_RESPONSE_CODE."),
        ] as [(String?, String)] {
          if let url { try simulator.deliverNotifications(to: url) }
          try await browser.click("#test-form button")
          let told = try await browser.wait("#test-result", says: words)
          #expect(told.contains("com.example.app, production") && told.contains("com.example.app, sandbox"), "\(told)")
          try await browser.wait("#test-form .message", says: url == path ? "All arrived." : "2 of 2 did not arrive.")
        }
        try await audit(browser, "health-test-\(width)")
        #expect(try await browser.complaints() == [])
      }
    }
  }

  @Test func `without a key of the Server API the Health page offers no test`() async throws {
    try await run { world in
      let answer = try await world.service.send(.post, "/v1/notifications/test")
      #expect(answer.status == 200 && answer.array("tests").isEmpty)
      try await page(world.service) { browser in
        try await browser.click("nav a[href='#/health']")
        try await browser.wait("#health-result", says: "Ledger")
        #expect(try await !browser.isVisible("#test-form"))
      }
    }
  }

  @Test func `a changed catalog that lowers users is a banner, and they keep their tier until the brake is released`()
    async throws
  {
    let directory = try TemporaryDirectory()
    // The product that everybody has is spelt with a letter more.
    var settings = Settings()
    settings.products["com.example.app.pro.monthly"] = nil
    settings.products["com.example.app.pro.monthlyy"] = "{ tier: pro }"
    settings.catalog["accept_loss"] = "[com.example.app.pro.monthly]"
    let changed = settings
    try await SimulatedStore.run { store in
      try await RunningService.run(apple: store.apple, directory: directory.url) { service in
        for number in 1...3 as ClosedRange<Int64> {
          let receipt = try store.simulator.issueReceipt(.renewing, subscriber: number).receiptData
          _ = try await service.validate(receipt, user: "user-\(number)")
        }
      }
      try await RunningService.run(
        apple: store.apple, settings: changed, directory: directory.url, jobPause: .milliseconds(20)
      ) { service in
        try await eventually { try await service.send(.get, "/v1/brake")["withheld_by_rules"] == "3" }
        try await page(service) { browser in
          try await browser.wait(
            "#brake-text",
            says: """
              A changed catalog or policy would downgrade 3 of the users. They keep what they have until somebody fixes the \
              configuration, or releases the brake.
              """)
          #expect(try await browser.text("#brake-title") == "A changed configuration is held back")
          try await browser.screenshot("withheld-by-rules-light")
          try await lookUp(browser, "user-1")
          try await standing(browser, "user-1", "pro\nactive")
          #expect(try await browser.isVisible("#brake"))
          try await browser.click("#brake-form button")
          try await browser.wait("#confirm-title", says: "Release the brake?")
          try await browser.click("#confirm-yes")
          try await browser.wait("#brake .message.good", says: "Every verdict counts for an hour.")
          #expect(try await service.send(.get, "/v1/brake")["withheld_by_rules"] == "0")
          try await eventually { try await service.profile("user-1")["tier"] == "free" }
          try await lookUp(browser, "user-1")
          try await standing(browser, "user-1", "free\nactive")
          try await browser.waitUntil("return document.getElementById('brake').hidden")
          #expect(try await browser.complaints() == [])
        }
      }
    }
  }
}
