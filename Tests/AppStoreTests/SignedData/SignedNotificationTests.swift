import Entitlements
import Foundation
import Testing

@testable import AppStore

@Suite("Signed notifications")
struct SignedNotificationTests {
  private let pki: SignedDataPKI

  init() throws { pki = try SignedDataPKI() }

  private typealias Sample = SignedSample

  private func verify(
    _ pki: SignedDataPKI, _ changes: [String: Any] = [:], data: [String: Any] = [:], transaction: String? = nil,
    renewalInfo: String? = nil
  ) throws -> VerifiedNotification {
    let payload = Sample.notification(changes, data: data, transaction: transaction, renewalInfo: renewalInfo)
    return try pki.verifier().notification(pki.sign(payload), now: Sample.now)
  }

  @Test func `a notification is proven with all that it carries`() throws {
    let verified = try verify(
      pki, transaction: pki.sign(Sample.transaction()), renewalInfo: pki.sign(Sample.renewalInfo()))
    let notification = verified.notification
    #expect(notification.type == "DID_RENEW")
    #expect(notification.subtype == "BILLING_RECOVERY")
    #expect(notification.uuid == "76f20213-87fe-5260-9d8a-34148d8e4312")
    #expect(notification.subject == .data)
    #expect(notification.appAppleID == 1_234_567_890)
    #expect(notification.status == 1)
    #expect(verified.bundleID == "com.example.app")
    #expect(verified.environment == .production)
    #expect(verified.signedDate == Sample.moment(Sample.signedDate + 5_000))

    let history = try #require(verified.history())
    #expect(history.source == .notification)
    #expect(history.coverage == .partial(since: nil))
    #expect(history.evidenceTime == verified.signedDate)
    #expect(history.evaluatedAt == verified.signedDate)
    // The transaction is as of its own signature, and the notification confirms the renewal info.
    #expect(history.purchases.map(\.reportedAt) == [Sample.moment(Sample.signedDate)])
    #expect(history.renewals.map(\.reportedAt) == [history.evidenceTime])
    #expect(history.renewals.map(\.periodEnd) == [Sample.moment(1_720_951_200_000)])
    #expect(history.evidence().map(\.renewals.count) == [1])
  }

  @Test(arguments: ["subtype", "notificationUUID", "signedDate", "status", "appAppleId"])
  func `a member around the signed parts that cannot be read loses no refund`(name: String) throws {
    let date: Int64 = 1_718_400_000_000
    let refund = try pki.sign(Sample.transaction(["revocationDate": date, "revocationReason": 0]))
    for value: Any in [[String: Any](), [1], "a text"] {
      let isOuter = ["subtype", "notificationUUID", "signedDate"].contains(name)
      let verified = try verify(
        pki, isOuter ? [name: value] : [:], data: isOuter ? [:] : [name: value], transaction: refund)
      #expect(verified.history()?.purchases.first?.cancellationDate == Sample.moment(date))
    }
  }

  @Test func `the newest signed date counts, also where a part was signed last`() throws {
    let late = Sample.signedDate + 60_000
    let verified = try verify(
      pki, transaction: pki.sign(Sample.transaction()), renewalInfo: pki.sign(Sample.renewalInfo(["signedDate": late])))
    #expect(verified.history()?.evidenceTime == Sample.moment(late))
  }

  @Test func `an older copy of a transaction undoes no refund and no extension; the renewal info counts`() throws {
    let pki = try SignedDataPKI()
    func evidence(_ changes: [String: Any] = [:], after: Int64, renews: Int) throws -> SubscriptionEvidence {
      let at = Sample.signedDate + after
      let verified = try verify(
        pki, ["signedDate": at], transaction: pki.sign(Sample.transaction(changes)),
        renewalInfo: pki.sign(Sample.renewalInfo(["signedDate": at, "autoRenewStatus": renews])))
      return try #require(verified.history()?.evidence().first)
    }
    let end = Sample.signedDate + 400_000_000
    let signed = Sample.signedDate + 50_000
    let refund: [String: Any] = ["signedDate": signed, "revocationDate": signed, "revocationReason": 0]
    for news in [refund, ["signedDate": signed, "expiresDate": end]] {
      let reports = [try evidence(news, after: 50_000, renews: 1), try evidence(after: 55_000, renews: 0)]
      for merged in [reports[0].merging(reports[1]), reports[1].merging(reports[0])] {
        let row = try #require(merged.purchases.first)
        #expect(merged.purchases.count == 1)
        #expect(row.cancellationDate != nil || row.expiresDate == Sample.moment(end))
        #expect(merged.renewals.map(\.autoRenews) == [false])
        #expect(merged.evidenceTime == Sample.moment(Sample.signedDate + 55_000))
        #expect(merged.evaluatedAt == merged.evidenceTime)
      }
    }
  }

  @Test(arguments: ["REFUND", "REFUND_REVERSED", "REVOKE", "RENEWAL_EXTENDED"])
  func `a notification about the transaction reports it, whenever that was signed`(type: String) throws {
    let verified = try verify(pki, ["notificationType": type], transaction: pki.sign(Sample.transaction()))
    let at = verified.signedDate
    #expect(verified.history()?.purchases.map(\.reportedAt) == [at])
    let other = try verify(pki, ["notificationType": "DID_RENEW"], transaction: pki.sign(Sample.transaction()))
    #expect(other.history()?.purchases.map(\.reportedAt) != [at])
  }

  @Test func `a type, a subtype or a status counts without a renewal info too`() throws {
    func renewal(_ type: String, _ subtype: String?, status: Int?) throws -> RenewalInfo? {
      try verify(
        pki, ["notificationType": type, "subtype": subtype ?? NSNull()], data: ["status": status ?? NSNull()],
        transaction: pki.sign(Sample.transaction())
      ).history()?.renewals.first
    }
    let over = try #require(try renewal("GRACE_PERIOD_EXPIRED", nil, status: nil))
    #expect(over.isGraceOver == true && over.status == nil && over.originalTransactionID != nil)
    let grace = try #require(try renewal("DID_FAIL_TO_RENEW", "GRACE_PERIOD", status: nil))
    #expect(grace.isGraceOver == nil && grace.status == .billingGracePeriod)
    #expect(try renewal("EXPIRED", "BILLING_RETRY", status: 3)?.status == .billingRetry)
    #expect(try renewal("DID_RENEW", nil, status: nil) == nil)
  }

  @Test(
    arguments: [
      ("VOLUNTARY", 1), ("BILLING_RETRY", 2), ("PRICE_INCREASE", 3), ("PRODUCT_NOT_FOR_SALE", 4), (nil, nil),
    ] as [(String?, Int?)])
  func `the subtype of EXPIRED is the reason where the renewal info names none`(subtype: String?, intent: Int?) throws {
    let pki = try SignedDataPKI()
    func renewal(_ info: [String: Any]?, status: Int? = nil, type: String = "EXPIRED") throws -> RenewalInfo? {
      try verify(
        pki, ["notificationType": type, "subtype": subtype ?? NSNull()], data: ["status": status ?? NSNull()],
        transaction: pki.sign(Sample.transaction()),
        renewalInfo: info.map { try pki.sign(Sample.renewalInfo($0)) }
      ).history()?.renewals.first
    }
    let alone = try #require(try renewal(nil))
    #expect(alone.status == .expired && alone.expirationIntent == intent)
    let told = try #require(try renewal([:], status: 2))
    #expect(told.status == .expired && told.expirationIntent == intent)
    #expect(try renewal(["expirationIntent": 5])?.expirationIntent == 5)
    #expect(try renewal([:], type: "DID_RENEW")?.expirationIntent == nil)
  }

  @Test func `a notification without a signed date takes the transaction's`() throws {
    let verified = try verify(pki, ["signedDate": NSNull()], transaction: pki.sign(Sample.transaction()))
    #expect(verified.signedDate == Sample.moment(Sample.signedDate))
    #expect(verified.history()?.evidenceTime == Sample.moment(Sample.signedDate))
    let other = try verify(pki, ["signedDate": NSNull()], renewalInfo: pki.sign(Sample.renewalInfo()))
    #expect(other.signedDate == Sample.moment(Sample.signedDate))
    #expect(throws: SignedDataError.self) { try verify(pki, ["signedDate": NSNull()]) }
  }

  @Test func `a part that Apple did not sign refuses the whole`() throws {
    let forger = try SignedDataPKI(rootKey: SignedDataPKI.Keys.otherRoot)
    #expect(throws: SignedDataError.notAuthentic(.untrustedRoot)) {
      try verify(pki, transaction: forger.sign(Sample.transaction()))
    }
    #expect(throws: SignedDataError.notAuthentic(.untrustedRoot)) {
      try verify(
        pki, transaction: pki.sign(Sample.transaction()), renewalInfo: forger.sign(Sample.renewalInfo()))
    }
    // The other way round: honest parts in a made-up envelope.
    let payload = Sample.notification(transaction: try pki.sign(Sample.transaction()))
    #expect(throws: SignedDataError.notAuthentic(.untrustedRoot)) {
      try pki.verifier().notification(forger.sign(payload), now: Sample.now)
    }
    #expect(throws: SignedDataError.self) { try verify(pki, transaction: "signed_transaction_info_value") }
    #expect(throws: SignedDataError.self) { try verify(pki, transaction: pki.sign(Sample.renewalInfo())) }
    #expect(throws: SignedDataError.self) { try verify(pki, renewalInfo: pki.sign(Sample.transaction())) }
  }

  @Test func `parts of another app or another environment are refused`() throws {
    #expect(throws: SignedDataError.notAuthentic(.innerOfAnotherApp)) {
      try verify(pki, transaction: pki.sign(Sample.transaction(["bundleId": "com.example.other"])))
    }
    #expect(throws: SignedDataError.notAuthentic(.innerOfAnotherEnvironment)) {
      try verify(pki, transaction: pki.sign(Sample.transaction(["environment": "Sandbox"])))
    }
    #expect(throws: SignedDataError.notAuthentic(.innerOfAnotherEnvironment)) {
      try verify(
        pki, transaction: pki.sign(Sample.transaction()),
        renewalInfo: pki.sign(Sample.renewalInfo(["environment": "Sandbox"])))
    }
    #expect(throws: SignedDataError.notAuthentic(.innerOfAnotherEnvironment)) {
      try verify(
        pki, data: ["environment": NSNull()], transaction: pki.sign(Sample.transaction()),
        renewalInfo: pki.sign(Sample.renewalInfo(["environment": "Sandbox"])))
    }
  }

  @Test func `members that the notification does not name are the transaction's`() throws {
    let verified = try verify(
      pki, data: ["bundleId": NSNull(), "environment": NSNull(), "appAppleId": NSNull()],
      transaction: pki.sign(Sample.transaction(["environment": "Sandbox"])))
    #expect(verified.bundleID == "com.example.app")
    #expect(verified.environment == .sandbox)
  }

  @Test func `each subject is told, and one that Apple adds is kept`() throws {
    let body: [String: Any] = ["bundleId": "com.example.app", "environment": "Sandbox", "appAppleId": "41234"]
    for subject in SignedNotification.Subject.allCases {
      let name = subject == .other ? "somethingNew" : subject.rawValue
      var changes: [String: Any] = ["data": NSNull(), "notificationType": "NEW_NEXT_YEAR"]
      changes[name] = body
      let verified = try verify(pki, changes)
      #expect(verified.notification.subject == subject)
      #expect(verified.notification.type == "NEW_NEXT_YEAR")
      #expect(verified.bundleID == (subject == .other ? nil : "com.example.app"))
      #expect(verified.notification.appAppleID == (subject == .other ? nil : 41_234))
      #expect(verified.history() == nil)
    }
    let two: [String: Any] = ["summary": body]
    #expect(throws: SignedDataError.self) { try verify(pki, two) }
    #expect(throws: SignedDataError.self) { try verify(pki, ["data": "text"]) }
  }

  @Test func `a test notification carries nothing, and is proven`() throws {
    let verified = try verify(pki, ["notificationType": "TEST", "subtype": NSNull()])
    #expect(verified.transaction == nil)
    #expect(verified.history() == nil)
  }

  @Test func `without a type it cannot be read, and without a UUID it can`() throws {
    let error = #expect(throws: SignedDataError.self) { try verify(pki, ["notificationType": NSNull()]) }
    #expect(error?.description.contains("without notificationType") == true)
    #expect(try verify(pki, ["notificationUUID": NSNull()]).notification.uuid == nil)
  }
}
