internal import Entitlements
internal import struct FoundationEssentials.Date
internal import JSON

extension StoredForm {
  /// The part of a piece of evidence that is stored as JSON; the rest has columns of its own.
  ///
  ///     {"names":["com.example.app.pro.monthly","20000001"],
  ///      "purchases":[[0,"2000000000000001",1749999900000,1752591900000,0,1,"2000000000000002"]],
  ///      "renewals":[{"autoRenews":true,"originalTransactionID":"2000000000000001"}]}
  ///
  /// Each name is written once, and a purchase refers to it by its place. The columns of a purchase, of which those at
  /// the end are left out where they are null:
  ///
  ///     0 product*   1 transaction   2 bought   3 ends   4 flags   5 group*   6 order   7 cancelled   8 reason
  ///     9 original*, if it differs from the row's   10 account token*   11 reported at
  ///     12 price   13 currency*   14 storefront*   15 offer type   16 offer period*   17 app version*
  ///     18 offer ID*   19 revocation percentage   20 transaction reason*   21 discount type*   22 app transaction*
  ///     23 revocation type*   24 billing plan*   25 billing period   26 billing periods   27 commitment ends
  ///     28 commitment price   29 previous original*   30 items*, as JSON   (* a name)
  ///
  /// Flags: 1 upgraded, 2 family-shared, 4 trial, 8 introductory offer, 16 first of the subscription, 32 of unknown ownership,
  /// 64 prepaid.
  struct Rows {
    /// Present for partial evidence: the times of the newest snapshot, if there is one, and the transaction that it does
    /// not have yet.
    struct Parts: Codable {
      var ahead: String?
      var since: Date?
      var answeredAt: Date?
    }

    /// Present where earlier reports told of a grace period.
    var grace: KnownGrace?
    var parts: Parts?
    var purchases: [Purchase]
    /// Present for an hour after a refund that the newest reports do not show.
    var refund: KnownRefund?
    var renewals: [RenewalInfo]
    var terms: RenewalTerms?
  }

  static func text(_ evidence: SubscriptionEvidence) throws -> String {
    let text = try JSONWriter.object { writer in
      var names: [String] = []
      let lists = try evidence.purchases.map { try Columns($0, of: evidence.key, &names) }
      if let grace = evidence.grace {
        try writer.object("grace") { writer in
          try writer.member("after", ifPresent: grace.after)
          try writer.member("overAt", ifPresent: grace.overAt)
          try writer.member("runningAt", ifPresent: grace.runningAt)
          try writer.member("until", ifPresent: grace.until)
        }
      }
      writer.array("names") { writer in names.forEach { writer.value($0) } }
      if case .partial(let since) = evidence.coverage {
        try writer.object("parts") { writer in
          writer.member("ahead", ifPresent: evidence.ahead?.rawValue)
          try writer.member("answeredAt", ifPresent: evidence.answeredAt)
          try writer.member("since", ifPresent: since)
        }
      }
      writer.array("purchases") { writer in lists.forEach { $0.write(to: &writer) } }
      if let refund = evidence.refund {
        try writer.object("refund") { writer in
          try writer.member("at", ifPresent: refund.date)
          writer.member("transaction", ifPresent: refund.transactionID.rawValue)
        }
      }
      try writer.array("renewals") { writer in try evidence.renewals.forEach { try $0.write(to: &writer) } }
      if let terms = evidence.terms { try writer.object("terms") { writer in try terms.write(to: &writer) } }
    }
    return String(decoding: text, as: UTF8.self)
  }

  static func evidence(
    _ text: String, of key: SubscriptionKey, source: EvidenceSource, evidenceAt: Int64, evaluatedAt: Int64,
    isAccountGone: Bool = false
  ) throws -> SubscriptionEvidence {
    let rows = try rows(text, of: key)
    var evidence = SubscriptionEvidence(
      key: key, source: source, evidenceTime: date(evidenceAt), evaluatedAt: date(evaluatedAt),
      purchases: rows.purchases, renewals: rows.renewals, isAccountGone: isAccountGone,
      coverage: rows.parts.map { .partial(since: $0.since) } ?? .snapshot, answeredAt: rows.parts?.answeredAt,
      grace: rows.grace)
    evidence.refund = rows.refund
    evidence.terms = rows.terms
    evidence.ahead = rows.parts?.ahead.map { TransactionID($0) }
    return evidence
  }

  static func rows(_ text: String, of key: SubscriptionKey) throws -> Rows {
    do throws(StoredTextReader.Unfamiliar) {
      return try StoredTextReader.value(of: text) { reader throws(StoredTextReader.Unfamiliar) in
        try reader.object { reader throws(StoredTextReader.Unfamiliar) in
          let grace = try reader.object("grace") { reader throws(StoredTextReader.Unfamiliar) in
            let after = try reader.date("after")
            let overAt = try reader.date("overAt")
            let runningAt = try reader.date("runningAt")
            return KnownGrace(until: try reader.date("until"), after: after, runningAt: runningAt, overAt: overAt)
          }
          let names = try reader.array("names") { reader throws(StoredTextReader.Unfamiliar) in try reader.value() }
          let parts = try reader.object("parts") { reader throws(StoredTextReader.Unfamiliar) in
            let ahead = try reader.string("ahead")
            let answeredAt = try reader.date("answeredAt")
            return Rows.Parts(ahead: ahead, since: try reader.date("since"), answeredAt: answeredAt)
          }
          return Rows(
            grace: grace, parts: parts,
            purchases: try reader.array("purchases") { reader throws(StoredTextReader.Unfamiliar) in
              try reader.list { reader throws(StoredTextReader.Unfamiliar) in
                try Columns(elements: &reader).purchase(of: key, names)
              }
            },
            refund: try reader.object("refund") { reader throws(StoredTextReader.Unfamiliar) in
              let (at, transaction) = (try reader.date("at"), try reader.string("transaction"))
              return at.flatMap { at in transaction.map { KnownRefund(transactionID: TransactionID($0), date: at) } }
            } ?? nil,
            renewals: try reader.array("renewals", RenewalInfo.init(from:)),
            terms: try reader.object("terms", RenewalTerms.init(members:)))
        }
      }
    } catch {
      throw Unstorable()
    }
  }

  /// - Returns: the place of a name among those of one text. There are few.
  private static func place(of name: String, in names: inout [String]) -> Int64 {
    if let place = names.firstIndex(of: name) { return Int64(place) }
    names.append(name)
    return Int64(names.count - 1)
  }

  /// One purchase, by column.
  private struct Columns {
    var product: Int64
    var transaction: String
    var bought: Int64?
    var ends: Int64?
    var flags: Int64
    var group: Int64?
    var order: String?
    var cancelled: Int64?
    var reason: Int64?
    var original: Int64?
    var account: Int64?
    var reported: Int64?
    var price: Int64?
    var currency: Int64?
    var storefront: Int64?
    var offerType: Int64?
    var offerPeriod: Int64?
    var appVersion: Int64?
    var offerID: Int64?
    var revocation: Int64?
    var terms: [Int64?] = []

    init(_ purchase: Purchase, of key: SubscriptionKey, _ names: inout [String]) throws {
      product = place(of: purchase.productID.rawValue, in: &names)
      transaction = purchase.transactionID.rawValue
      bought = try purchase.purchaseDate.map(milliseconds)
      ends = try purchase.expiresDate.map(milliseconds)
      flags =
        (purchase.isUpgraded ? 1 : 0) | (purchase.ownership == .familyShared ? 2 : 0) | (purchase.isTrial ? 4 : 0)
        | (purchase.isIntroductoryOffer ? 8 : 0) | (purchase.isFirst ? 16 : 0)
        | (purchase.ownership == .unknown ? 32 : 0) | (purchase.isPrepaid ? 64 : 0)
      group = purchase.subscriptionGroupID.map { place(of: $0.rawValue, in: &names) }
      order = purchase.webOrderLineItemID
      cancelled = try purchase.cancellationDate.map(milliseconds)
      reason = purchase.cancellationReason.map(Int64.init)
      if purchase.originalTransactionID != key.originalTransactionID {
        original = place(of: purchase.originalTransactionID.rawValue, in: &names)
      }
      account = purchase.appAccountToken.map { place(of: $0, in: &names) }
      reported = try purchase.reportedAt.map(milliseconds)
      appVersion = purchase.appVersion.map { place(of: $0, in: &names) }
      guard let sale = purchase.sale else { return }
      price = sale.price
      currency = sale.currency.map { place(of: $0, in: &names) }
      storefront = sale.storefront.map { place(of: $0, in: &names) }
      offerType = sale.offerType.map(Int64.init)
      offerPeriod = sale.offerPeriod.map { place(of: $0, in: &names) }
      offerID = sale.offerID.map { place(of: $0, in: &names) }
      revocation = sale.revocationPercentage
      guard let terms = sale.terms else { return }
      let texts = [
        terms.reason, terms.discountType, terms.appTransactionID, terms.revocationType, terms.billingPlan,
      ].map { $0.map { place(of: $0, in: &names) } }
      self.terms =
        texts + [
          terms.billingPeriod, terms.billingPeriods, try terms.commitmentEndsAt.map(milliseconds),
          terms.commitmentPrice,
          terms.previousOriginalTransactionID.map { place(of: $0.rawValue, in: &names) },
        ]
      guard !terms.items.isEmpty else { return }
      let items = try JSONWriter.object { writer in try AdvancedCommerceItem.write(terms.items, to: &writer) }
      self.terms.append(place(of: String(decoding: items, as: UTF8.self), in: &names))
    }

    /// Nulls at the end are left out.
    func write(to writer: inout JSONWriter) {
      let rest =
        [
          cancelled, reason, original, account, reported, price, currency, storefront, offerType, offerPeriod,
          appVersion,
          offerID, revocation,
        ] + terms
      let count = rest.lastIndex { $0 != nil }.map { $0 + 1 } ?? 0
      writer.array { writer in
        writer.value(product)
        writer.value(transaction)
        writer.value(bought)
        writer.value(ends)
        writer.value(flags)
        if group != nil || order != nil || count > 0 { writer.value(group) }
        if order != nil || count > 0 { writer.value(order) }
        for number in rest[..<count] { writer.value(number) }
      }
    }

    init(elements reader: inout StoredTextReader) throws(StoredTextReader.Unfamiliar) {
      product = try StoredTextReader.needed(reader.integerElement())
      transaction = try StoredTextReader.needed(reader.stringElement())
      bought = try reader.integerElement()
      ends = try reader.integerElement()
      flags = try StoredTextReader.needed(reader.integerElement())
      group = try reader.integerElement()
      order = try reader.stringElement()
      cancelled = try reader.integerElement()
      reason = try reader.integerElement()
      original = try reader.integerElement()
      account = try reader.integerElement()
      reported = try reader.integerElement()
      price = try reader.integerElement()
      currency = try reader.integerElement()
      storefront = try reader.integerElement()
      offerType = try reader.integerElement()
      offerPeriod = try reader.integerElement()
      appVersion = try reader.integerElement()
      offerID = try reader.integerElement()
      revocation = try reader.integerElement()
      for column in 0..<Self.termColumns {
        guard let value = try reader.integerElement() else { continue }
        // Most rows have none.
        if terms.isEmpty { terms = Array(repeating: nil, count: Self.termColumns) }
        terms[column] = value
      }
    }

    /// The columns of `Purchase.Terms`.
    private static let termColumns = 11

    private func terms(
      _ name: (Int64) throws(StoredTextReader.Unfamiliar) -> String
    ) throws(StoredTextReader.Unfamiliar) -> Purchase.Terms? {
      guard terms.count == Self.termColumns else { return nil }
      var kept = Purchase.Terms()
      kept.reason = try terms[0].map(name)
      kept.discountType = try terms[1].map(name)
      kept.appTransactionID = try terms[2].map(name)
      kept.revocationType = try terms[3].map(name)
      kept.billingPlan = try terms[4].map(name)
      (kept.billingPeriod, kept.billingPeriods) = (terms[5], terms[6])
      (kept.commitmentEndsAt, kept.commitmentPrice) = (terms[7].map(date), terms[8])
      kept.previousOriginalTransactionID = try terms[9].map { place throws(StoredTextReader.Unfamiliar) in
        OriginalTransactionID(try name(place))
      }
      if let items = terms[10] {
        kept.items = try StoredTextReader.value(of: try name(items)) { reader throws(StoredTextReader.Unfamiliar) in
          try reader.object(AdvancedCommerceItem.items(from:))
        }
        guard !kept.items.isEmpty else { throw StoredTextReader.Unfamiliar() }
      }
      return kept
    }

    private func sale(
      _ name: (Int64) throws(StoredTextReader.Unfamiliar) -> String
    ) throws(StoredTextReader.Unfamiliar) -> Purchase.Sale? {
      let terms = try terms(name)
      // Most rows have none.
      let number = price ?? currency ?? storefront ?? offerType ?? offerPeriod ?? offerID ?? revocation
      guard terms != nil || number != nil else { return nil }
      let texts = (
        try currency.map(name), try storefront.map(name), try offerPeriod.map(name), try offerID.map(name)
      )
      let sale = Purchase.Sale(
        price: price, currency: texts.0, storefront: texts.1, offerType: offerType.map(Int.init), offerPeriod: texts.2,
        offerID: texts.3, revocationPercentage: revocation, terms: terms)
      // This form is never written with a value that is no part of a sale.
      guard let sale, texts == (sale.currency, sale.storefront, sale.offerPeriod, sale.offerID),
        revocation == sale.revocationPercentage, terms == sale.terms
      else { throw StoredTextReader.Unfamiliar() }
      return sale
    }

    func purchase(of key: SubscriptionKey, _ names: [String]) throws(StoredTextReader.Unfamiliar) -> Purchase {
      func name(_ place: Int64) throws(StoredTextReader.Unfamiliar) -> String {
        guard names.indices.contains(Int(place)) else { throw StoredTextReader.Unfamiliar() }
        return names[Int(place)]
      }
      guard (0..<128).contains(flags), flags & 34 != 34 else { throw StoredTextReader.Unfamiliar() }
      return Purchase(
        productID: ProductID(try name(product)), transactionID: TransactionID(transaction),
        originalTransactionID: try original.map { place throws(StoredTextReader.Unfamiliar) in
          OriginalTransactionID(try name(place))
        } ?? key.originalTransactionID,
        webOrderLineItemID: order,
        subscriptionGroupID: try group.map { place throws(StoredTextReader.Unfamiliar) in
          SubscriptionGroupID(try name(place))
        },
        purchaseDate: bought.map(date), expiresDate: ends.map(date), cancellationDate: cancelled.map(date),
        cancellationReason: reason.map(Int.init), isUpgraded: flags & 1 != 0,
        ownership: flags & 2 != 0 ? .familyShared : flags & 32 != 0 ? .unknown : .purchased, isTrial: flags & 4 != 0,
        isIntroductoryOffer: flags & 8 != 0, isPrepaid: flags & 64 != 0, isFirst: flags & 16 != 0,
        appAccountToken: try account.map(name), reportedAt: reported.map(date),
        sale: try sale(name), appVersion: try appVersion.map(name))
    }
  }
}

extension StoredForm {
  /// The price, the offer and the reasons of one transaction, for its events:
  /// `[9990,"USD","USA",2,"P1M","spring",null,"PURCHASE",null]`.
  static func text(_ sale: Purchase.Sale) -> String {
    var writer = JSONWriter()
    writer.array { writer in
      writer.value(sale.price)
      writer.value(sale.currency)
      writer.value(sale.storefront)
      writer.value(sale.offerType.map(Int64.init))
      writer.value(sale.offerPeriod)
      writer.value(sale.offerID)
      writer.value(sale.revocationPercentage)
      writer.value(sale.terms?.reason)
      writer.value(sale.terms?.revocationType)
    }
    return String(decoding: writer.bytes, as: UTF8.self)
  }

  static func sale(_ text: String) throws -> Purchase.Sale? {
    try StoredTextReader.value(of: text) { reader throws(StoredTextReader.Unfamiliar) in
      try reader.list { reader throws(StoredTextReader.Unfamiliar) in
        let price = try reader.integerElement()
        let (currency, storefront) = (try reader.stringElement(), try reader.stringElement())
        let offerType = try reader.integerElement()
        let (period, id) = (try reader.stringElement(), try reader.stringElement())
        let revocation = try reader.integerElement()
        var terms = Purchase.Terms()
        (terms.reason, terms.revocationType) = (try reader.stringElement(), try reader.stringElement())
        return Purchase.Sale(
          price: price, currency: currency, storefront: storefront, offerType: offerType.map(Int.init),
          offerPeriod: period, offerID: id, revocationPercentage: revocation, terms: terms)
      }
    }
  }
}
