internal import Entitlements
internal import struct FoundationEssentials.Date
internal import JSON

// Each value writes and reads its keys in alphabetical order. Its `Codable` conformance defines the keys.

extension RenewalInfo {
  func write(to writer: inout JSONWriter) throws {
    try writer.object { writer in
      writer.member("autoRenewProductID", ifPresent: autoRenewProductID?.rawValue)
      writer.member("autoRenews", ifPresent: autoRenews)
      writer.member("expirationIntent", ifPresent: expirationIntent.map(Int64.init))
      try writer.member("graceAfter", ifPresent: graceAfter)
      try writer.member("gracePeriodExpiresDate", ifPresent: gracePeriodExpiresDate)
      writer.member("isGraceOver", ifPresent: isGraceOver)
      writer.member("isInBillingRetry", ifPresent: isInBillingRetry)
      writer.member("originalTransactionID", ifPresent: originalTransactionID?.rawValue)
      try writer.member("periodEnd", ifPresent: periodEnd)
      writer.member("productID", ifPresent: productID?.rawValue)
      writer.member("status", ifPresent: (status?.rawValue).map(Int64.init))
      try writer.member("toldAt", ifPresent: reportedAt)
    }
  }

  init(from reader: inout StoredTextReader) throws(StoredTextReader.Unfamiliar) {
    self = try reader.object { reader throws(StoredTextReader.Unfamiliar) in
      var info = RenewalInfo()
      info.autoRenewProductID = try reader.string("autoRenewProductID").map { ProductID($0) }
      info.autoRenews = try reader.bool("autoRenews")
      info.expirationIntent = try reader.int("expirationIntent")
      info.graceAfter = try reader.date("graceAfter")
      info.gracePeriodExpiresDate = try reader.date("gracePeriodExpiresDate")
      info.isGraceOver = try reader.bool("isGraceOver")
      info.isInBillingRetry = try reader.bool("isInBillingRetry")
      info.originalTransactionID = try reader.string("originalTransactionID").map { OriginalTransactionID($0) }
      info.periodEnd = try reader.date("periodEnd")
      info.productID = try reader.string("productID").map { ProductID($0) }
      info.status = try reader.int("status").map { number throws(StoredTextReader.Unfamiliar) in
        try StoredTextReader.needed(RenewalInfo.Status(rawValue: number))
      }
      info.reportedAt = try reader.date("toldAt")
      return info
    }
  }
}

extension RenewalTerms {
  func write(to writer: inout JSONWriter) throws {
    writer.member("billingPlan", ifPresent: billingPlan)
    writer.member("commitmentBillingPlan", ifPresent: commitmentBillingPlan)
    try writer.member("commitmentEndsAt", ifPresent: commitmentEndsAt)
    writer.member("commitmentPrice", ifPresent: commitmentPrice)
    writer.member("commitmentProductID", ifPresent: commitmentProductID?.rawValue)
    writer.member("commitmentRenews", ifPresent: commitmentRenews)
    writer.member("currency", ifPresent: currency)
    writer.member("discountType", ifPresent: discountType)
    try AdvancedCommerceItem.write(items, to: &writer)
    writer.member("offerID", ifPresent: offerID)
    writer.member("offerType", ifPresent: offerType.map(Int64.init))
    writer.member("price", ifPresent: price)
    writer.member("priceIncreaseStatus", ifPresent: priceIncreaseStatus.map(Int64.init))
    try writer.member("signedAt", ifPresent: signedAt)
    if let winBackOfferIDs {
      writer.array("winBackOfferIDs") { writer in winBackOfferIDs.forEach { writer.value($0) } }
    }
  }

  /// - Throws: also for what is no term, which is not written.
  init(members reader: inout StoredTextReader) throws(StoredTextReader.Unfamiliar) {
    var terms = RenewalTerms()
    terms.billingPlan = try reader.string("billingPlan")
    terms.commitmentBillingPlan = try reader.string("commitmentBillingPlan")
    terms.commitmentEndsAt = try reader.date("commitmentEndsAt")
    terms.commitmentPrice = try reader.integer("commitmentPrice")
    terms.commitmentProductID = try reader.string("commitmentProductID").map { ProductID($0) }
    terms.commitmentRenews = try reader.bool("commitmentRenews")
    terms.currency = try reader.string("currency")
    terms.discountType = try reader.string("discountType")
    terms.items = try AdvancedCommerceItem.items(from: &reader)
    terms.offerID = try reader.string("offerID")
    terms.offerType = try reader.int("offerType")
    terms.price = try reader.integer("price")
    terms.priceIncreaseStatus = try reader.int("priceIncreaseStatus")
    terms.signedAt = try reader.date("signedAt")
    terms.winBackOfferIDs = try reader.arrayIfPresent("winBackOfferIDs") { reader throws(StoredTextReader.Unfamiliar) in
      try reader.value()
    }
    self = terms
  }
}

extension AdvancedCommerceItem {
  /// No items are left out.
  static func write(_ items: [AdvancedCommerceItem], to writer: inout JSONWriter) throws {
    guard !items.isEmpty else { return }
    try writer.array("items") { writer in
      for item in items {
        try writer.object { writer in
          writer.member("name", ifPresent: item.name)
          writer.member("price", ifPresent: item.price)
          try writer.member("revokedAt", ifPresent: item.revokedAt)
          writer.member("sku", item.sku)
        }
      }
    }
  }

  static func items(from reader: inout StoredTextReader) throws(StoredTextReader.Unfamiliar) -> [AdvancedCommerceItem] {
    let items = try reader.arrayIfPresent("items") { reader throws(StoredTextReader.Unfamiliar) in
      try reader.object { reader throws(StoredTextReader.Unfamiliar) in
        let (name, price) = (try reader.string("name"), try reader.integer("price"))
        let revokedAt = try reader.date("revokedAt")
        return AdvancedCommerceItem(
          sku: try StoredTextReader.needed(reader.string("sku")), name: name, price: price, revokedAt: revokedAt)
      }
    }
    guard let items else { return [] }
    guard !items.isEmpty else { throw StoredTextReader.Unfamiliar() }
    return items
  }
}

extension Entitlement: StoredForm.Value {
  func write(to writer: inout JSONWriter) throws {
    try writer.object { writer in
      try writer.member("accessUntil", ifPresent: accessUntil)
      try writer.member("commitmentExpiresAt", ifPresent: commitmentExpiresAt)
      writer.member("commitmentRenews", ifPresent: commitmentRenews)
      writer.member("environment", ifPresent: environment?.rawValue)
      try writer.member("evidenceTime", ifPresent: evidenceTime)
      try writer.member("expiresAt", ifPresent: expiresAt)
      try writer.object("explanation") { try explanation.write(to: &$0) }
      writer.member("isProvisional", ifPresent: isProvisional)
      writer.member("isStale", ifPresent: isStale)
      writer.member("isTrial", ifPresent: isTrial)
      writer.member("nextProductID", ifPresent: nextProductID?.rawValue)
      writer.member("originalTransactionID", ifPresent: originalTransactionID?.rawValue)
      writer.member("ownership", ifPresent: ownership?.rawValue)
      writer.member("productID", ifPresent: productID?.rawValue)
      writer.member("reason", ifPresent: reason.rawValue)
      writer.member("source", ifPresent: source?.rawValue)
      writer.member("status", ifPresent: status.rawValue)
      writer.member("tier", ifPresent: tier.rawValue)
      writer.member("willRenew", ifPresent: willRenew)
    }
  }

  init(from reader: inout StoredTextReader) throws(StoredTextReader.Unfamiliar) {
    self = try reader.object { reader throws(StoredTextReader.Unfamiliar) in
      var entitlement = Entitlement.none(
        tier: Tier(""), reason: .unknown, explanation: Explanation(decidedBy: nil, passedOver: [], evaluatedAt: nil))
      entitlement.accessUntil = try reader.date("accessUntil")
      entitlement.commitmentExpiresAt = try reader.date("commitmentExpiresAt")
      entitlement.commitmentRenews = try reader.bool("commitmentRenews")
      entitlement.environment = try reader.word("environment", StoreEnvironment.self)
      entitlement.evidenceTime = try reader.date("evidenceTime")
      entitlement.expiresAt = try reader.date("expiresAt")
      entitlement.explanation = try StoredTextReader.needed(reader.object("explanation", Explanation.members(from:)))
      entitlement.isProvisional = try StoredTextReader.needed(reader.bool("isProvisional"))
      entitlement.isStale = try StoredTextReader.needed(reader.bool("isStale"))
      entitlement.isTrial = try StoredTextReader.needed(reader.bool("isTrial"))
      entitlement.nextProductID = try reader.string("nextProductID").map { ProductID($0) }
      entitlement.originalTransactionID = try reader.string("originalTransactionID").map { OriginalTransactionID($0) }
      entitlement.ownership = try reader.word("ownership", Purchase.Ownership.self)
      entitlement.productID = try reader.string("productID").map { ProductID($0) }
      entitlement.reason = try StoredTextReader.needed(reader.word("reason", EntitlementReason.self))
      entitlement.source = try reader.word("source", EvidenceSource.self)
      entitlement.status = try StoredTextReader.needed(reader.word("status", SubscriptionStatus.self))
      entitlement.tier = Tier(try StoredTextReader.needed(reader.string("tier")))
      entitlement.willRenew = try reader.bool("willRenew")
      return entitlement
    }
  }
}

extension Explanation {
  fileprivate func write(to writer: inout JSONWriter) throws {
    writer.member("decidedBy", ifPresent: decidedBy?.rawValue)
    writer.member("givenBy", ifPresent: givenBy)
    writer.member("goesOnAs", ifPresent: goesOnAs?.rawValue)
    try writer.member("judgedAt", ifPresent: evaluatedAt)
    writer.array("passedOver") { writer in
      for passed in passedOver {
        writer.object { writer in
          writer.member("cause", passed.cause.rawValue)
          writer.member("productID", passed.productID.rawValue)
          writer.member("transactionID", passed.transactionID.rawValue)
        }
      }
    }
    writer.member("passedOverCount", ifPresent: Int64(passedOverCount))
    writer.member("periodKnownBy", ifPresent: periodKnownBy?.rawValue)
    if let policy {
      writer.object("policy") { writer in
        writer.member("key", ifPresent: policy.key)
        writer.member("value", ifPresent: policy.value)
      }
    }
  }

  fileprivate static func members(
    from reader: inout StoredTextReader
  ) throws(StoredTextReader.Unfamiliar) -> Explanation {
    var explanation = Explanation(decidedBy: nil, passedOver: [], evaluatedAt: nil)
    explanation.decidedBy = try reader.string("decidedBy").map { TransactionID($0) }
    explanation.givenBy = try reader.integer("givenBy")
    explanation.goesOnAs = try reader.string("goesOnAs").map { ProductID($0) }
    explanation.evaluatedAt = try reader.date("judgedAt")
    explanation.passedOver = try reader.array("passedOver") { reader throws(StoredTextReader.Unfamiliar) in
      try reader.object { reader throws(StoredTextReader.Unfamiliar) in
        let cause = try StoredTextReader.needed(reader.word("cause", PassedOver.Cause.self))
        let productID = try StoredTextReader.needed(reader.repeated("productID"))
        return PassedOver(
          transactionID: TransactionID(try StoredTextReader.needed(reader.string("transactionID"))),
          productID: ProductID(productID), cause: cause)
      }
    }
    explanation.passedOverCount = try StoredTextReader.needed(reader.int("passedOverCount"))
    explanation.periodKnownBy = try reader.word("periodKnownBy", PeriodSource.self)
    explanation.policy = try reader.object("policy") { reader throws(StoredTextReader.Unfamiliar) in
      let key = try StoredTextReader.needed(reader.string("key"))
      return PolicyValue(key: key, value: try StoredTextReader.needed(reader.string("value")))
    }
    return explanation
  }
}

extension JSONWriter {
  mutating func member(_ name: String, ifPresent date: Date?) throws {
    member(name, ifPresent: try date.map(StoredForm.milliseconds))
  }
}

extension StoredTextReader {
  mutating func date(_ key: StaticString) throws(Unfamiliar) -> Date? {
    try integer(key).map(StoredForm.date)
  }

  mutating func int(_ key: StaticString) throws(Unfamiliar) -> Int? {
    try integer(key).map(Int.init)
  }
}
