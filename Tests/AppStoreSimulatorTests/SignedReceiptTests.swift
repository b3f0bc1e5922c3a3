import Foundation
import TestSupport
import Testing

@testable import AppStoreSimulator

@Suite("Receipts are signed, and recognised")
struct SignedReceiptTests {
  private func bytes(_ order: ReceiptOrder) throws -> [UInt8] {
    Array(try #require(Data(base64Encoded: try Store().receipt(order))))
  }

  @Test(
    "openssl verifies every scenario's receipt against the root, in DER and BER",
    .enabled(if: Tool.openssl != nil, "openssl is not installed"), arguments: Scenario.allCases)
  func verifiesIndependently(scenario: Scenario) async throws {
    let order = ReceiptOrder(scenario: scenario)
    let der = try await openssl(try bytes(order))
    var berOrder = order
    berOrder.format = .ber
    let ber = try await openssl(try bytes(berOrder))
    #expect(der != nil)
    #expect(ber != nil)
  }

  @Test(
    "openssl reads back the payload that was signed", .enabled(if: Tool.openssl != nil, "openssl is not installed"))
  func payload() async throws {
    for format in [ReceiptFormat.der, .ber] {
      let seed = ReceiptSeed(
        scenario: .upgraded, environment: .sandbox, subscriber: 3, bundleID: "com.example.app",
        start: noon.milliseconds, created: noon.milliseconds, format: format)
      let receipt = try SignedReceipt(pki: DevelopmentPKI()).encode(seed)
      let content = try await openssl(receipt)
      #expect(content == (try ReceiptPayload.encode(seed)))
    }
  }

  @Test(
    "openssl refuses a receipt as Xcode signs it, and one with a changed byte",
    .enabled(if: Tool.openssl != nil, "openssl is not installed"))
  func refusesIndependently() async throws {
    let xcode = try await openssl(try bytes(ReceiptOrder(format: .xcode)))
    #expect(xcode == nil)
    var changed = try bytes(ReceiptOrder())
    changed[200] ^= 1
    let refused = try await openssl(changed)
    #expect(refused == nil)
  }

  @Test(
    "openssl refuses a forged receipt, and takes a padded one, which the store refuses",
    .enabled(if: Tool.openssl != nil, "openssl is not installed"))
  func forgeries() async throws {
    let forged = try await openssl(try bytes(ReceiptOrder(format: .forged)))
    #expect(forged == nil)
    let padded = try await openssl(try bytes(ReceiptOrder(format: .padded)))
    #expect(padded != nil)
    for format in [ReceiptFormat.forged, .padded] {
      #expect(try Store().ask(ReceiptOrder(format: format)).status == 21003)
    }
  }

  @Test("the BER form has indefinite lengths, the DER form none")
  func forms() throws {
    #expect(Array(try bytes(ReceiptOrder(format: .ber)).prefix(2)) == [0x30, 0x80])
    #expect(try bytes(ReceiptOrder()).prefix(2) == [0x30, 0x82])
  }

  @Test("the same order at the same time is the same receipt", arguments: ReceiptFormat.allCases)
  func repeatable(format: ReceiptFormat) throws {
    let order = ReceiptOrder(scenario: .refunded, format: format)
    #expect(try bytes(order) == bytes(order))
  }

  @Test("a simulator that was just started answers for another one's receipt", arguments: [ReceiptFormat.der, .ber])
  func survivesRestart(format: ReceiptFormat) throws {
    let receipt = try Store().receipt(ReceiptOrder(scenario: .upgraded, subscriber: 5, format: format))
    let verdict = try Store().ask(requestBody(receipt))
    #expect(verdict.status == 0)
    #expect(try #require(verdict.latest.first).text("product_id") == Product.premiumMonthly.id)
  }

  @Test("no changed byte gets a verdict", arguments: [ReceiptFormat.der, .ber, .ios6])
  func alteredReceipts(format: ReceiptFormat) throws {
    let store = try Store()
    let original = try bytes(ReceiptOrder(scenario: .renewing, format: format))
    var statuses: [Int: Int] = [:]
    for position in stride(from: 0, to: original.count, by: 13) {
      var changed = original
      changed[position] ^= 0x01
      let status = try #require(try store.ask(requestBody(Data(changed).base64EncodedString())).status)
      statuses[status, default: 0] += 1
    }
    #expect(Set(statuses.keys).isSubset(of: [21002, 21003]))
    #expect(statuses[21003] ?? 0 > 0)
  }

  @Test("no truncated receipt gets a verdict, nor one with something behind it", arguments: [ReceiptFormat.der, .ios6])
  func cutReceipts(format: ReceiptFormat) throws {
    let store = try Store()
    let original = try bytes(ReceiptOrder(format: format))
    var candidates = stride(from: 1, to: original.count, by: 97).map { Array(original.prefix($0)) }
    candidates.append(original + [0])
    for candidate in candidates {
      let status = try #require(try store.ask(requestBody(Data(candidate).base64EncodedString())).status)
      #expect([21002, 21003].contains(status))
    }
  }

  @Test("a receipt as Xcode signs it is 21002: the store never saw one")
  func xcode() throws {
    #expect(try Store().ask(ReceiptOrder(format: .xcode)).status == 21002)
  }

  @Test("the root says that it is not Apple's, and no certificate names Apple as its organisation")
  func subjects() throws {
    let pki = try DevelopmentPKI()
    #expect(String(decoding: pki.root.der, as: UTF8.self).contains("(not Apple)"))
    for der in [pki.root.der, pki.intermediateDER, pki.leaf.der, pki.transaction.der, pki.xcode.der] {
      let text = String(decoding: der, as: UTF8.self)
      #expect(text.contains("Countersign Development"))
      #expect(!text.replacing("(not Apple)", with: "").contains("Apple"))
    }
  }

  @Test("a TLS certificate names the loopback addresses and the host")
  func serverIdentity() throws {
    let identity = try DevelopmentPKI().makeServerIdentity(host: "simulator.internal", at: noon.date)
    #expect(identity.certificatePEM.hasPrefix("-----BEGIN CERTIFICATE-----"))
    #expect(identity.keyPEM.contains("PRIVATE KEY"))
  }
}

@Suite("iOS 6-style receipts")
struct TransactionReceiptTests {
  @Test("a running subscription is status 0 with an object, and renewal told at the top")
  func renewing() throws {
    let verdict = try Store().ask(ReceiptOrder(scenario: .renewing, format: .ios6))
    #expect(verdict.status == 0)
    let latest = try #require(verdict.json["latest_receipt_info"] as? [String: Any])
    #expect(latest.text("bid") == "com.example.app")
    #expect(latest.text("expires_date") == String(noon.adding(days: -45).adding(months: 2).milliseconds))
    #expect(try #require(latest.text("expires_date_formatted")).hasSuffix("Etc/GMT"))
    #expect(verdict.json["auto_renew_status"] as? Int == 1)
    #expect(verdict.json["environment"] == nil)
    #expect(verdict.json["pending_renewal_info"] == nil)
    let again = try Store().ask(requestBody(try #require(verdict.json.text("latest_receipt"))))
    #expect(again.status == 0)
  }

  @Test("an ended subscription is 21006 with its last transaction")
  func expired() throws {
    let verdict = try Store().ask(ReceiptOrder(scenario: .expiredVoluntary, format: .ios6))
    #expect(verdict.status == 21006)
    let expired = try #require(verdict.json["latest_expired_receipt_info"] as? [String: Any])
    #expect(expired.text("product_id") == Product.proMonthly.id)
    #expect(verdict.json["latest_receipt_info"] == nil)
    #expect(verdict.json["auto_renew_status"] as? Int == 0)
    #expect(verdict.json.text("expiration_intent") == "1")
  }

  @Test("the receipt is a property list whose base64 begins as clients know it")
  func form() throws {
    let receipt = try Store().receipt(ReceiptOrder(environment: .sandbox, format: .ios6))
    #expect(receipt.hasPrefix("ewoJInNpZ25hdHVyZSI"))
    let text = String(decoding: try #require(Data(base64Encoded: receipt)), as: UTF8.self)
    #expect(text.contains(#""environment" = "Sandbox";"#))
  }
}
