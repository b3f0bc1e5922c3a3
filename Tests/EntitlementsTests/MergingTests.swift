import Entitlements
import SeededRandom
import Testing

import struct FoundationEssentials.Date

/// The worth of evidence that arrives in pieces, late, twice and out of order.
@Suite(.computing) struct MergingTests {
  static let cases = 0..<SeededRandom.cases(4_000)

  /// A few reports of one subscription on a coarse grid of time, so that many meet.
  private struct Reports {
    var random: SeededRandom
    var all: [SubscriptionEvidence] = []

    init(_ seed: Int) {
      random = SeededRandom(seed: UInt64(seed))
      for _ in 0..<Int.random(in: 2...6, using: &random) { all.append(random.chance(35) ? whole() : part()) }
    }

    private mutating func term(_ number: Int) -> Purchase {
      let begin = Double(number * 10)
      return MergingTests.period(
        number, begin: begin, end: begin + random.pick([10, 12], or: 10),
        cancelled: random.chance(25) ? day(begin + Double(Int.random(in: 0...2, using: &random))) : nil)
    }

    /// An answer of verifyReceipt has no terms.
    private mutating func info() -> RenewalInfo {
      var info = renewal(
        renews: random.pick([true, false, nil], or: nil), intent: random.pick([nil, 1, 2], or: nil),
        retry: random.pick([nil, true], or: nil),
        grace: random.chance(15) ? moment() : nil, status: random.chance(30) ? .billingGracePeriod : nil,
        graceOver: random.chance(10) ? true : nil)
      if random.chance(60) {
        var terms = RenewalTerms(signedAt: moment())
        terms.commitmentRenews = random.chance(50)
        terms.commitmentEndsAt = day(40)
        info.terms = terms
      }
      return info
    }

    private mutating func moment() -> Date { day(Double(Int.random(in: 0...8, using: &random))) }

    private mutating func whole() -> SubscriptionEvidence {
      let time = moment()
      let rows = (1...4).filter { _ in random.chance(50) }.map { term($0) }
      let renewals = random.chance(60) ? [info()] : []
      var evidence = SubscriptionEvidence(
        key: MergingTests.key, source: random.pick([.verifyReceipt, .serverAPI], or: .serverAPI), evidenceTime: time,
        evaluatedAt: time.advanced(by: .seconds(86_400 * Int64(random.pick([0, 0, 1, 5], or: 0)))), purchases: rows,
        renewals: renewals, isAccountGone: random.chance(10))
      evidence.terms = renewals.first?.terms
      evidence.terms?.signedAt = nil
      for index in evidence.renewals.indices { evidence.renewals[index].terms = nil }
      return evidence
    }

    private mutating func part() -> SubscriptionEvidence {
      let time = moment()
      var row = term(Int.random(in: 1...4, using: &random))
      row.reportedAt = time
      var info = info()
      info.reportedAt = random.chance(80) ? time : moment()
      return PurchaseHistory(
        environment: .production, source: random.pick([.signature, .notification], or: .signature),
        evidenceTime: time, evaluatedAt: time, purchases: random.chance(90) ? [row] : [],
        renewals: random.chance(50) ? [info] : [], coverage: .partial(since: nil)
      ).evidence().first ?? whole()
    }

    /// Merges in a random order and a random shape, with some told again.
    mutating func merged() -> SubscriptionEvidence? {
      var left = all + all.filter { _ in random.chance(30) }
      left.shuffle(using: &random)
      while left.count > 1 {
        let one = left.remove(at: Int.random(in: 0..<left.count, using: &random))
        let other = left.remove(at: Int.random(in: 0..<left.count, using: &random))
        left.append(one.merging(other))
        left.shuffle(using: &random)
      }
      return left.first
    }
  }

  static let key = SubscriptionKey(environment: .production, originalTransactionID: "100")

  static func period(_ number: Int, begin: Double, end: Double, cancelled: Date? = nil) -> Purchase {
    row(TransactionID("\(number)"), from: day(begin), until: day(end), cancelled: cancelled)
  }

  /// The evidence that some reports make, the same in any order and however often each comes.
  private static func result(of reports: inout Reports, _ seed: Int) throws -> SubscriptionEvidence {
    let last = reports.merged()
    let first = try #require(last)
    for _ in 0..<6 {
      let again = reports.merged()
      #expect(again == first, "seed \(seed)")
    }
    for one in reports.all { #expect(first.merging(one) == first && one.merging(first) == first, "seed \(seed)") }
    return first
  }

  @Test func `the same comes of the same reports, in any order, however often each comes`() throws {
    for seed in Self.cases {
      var reports = Reports(seed)
      _ = try Self.result(of: &reports, seed)
    }
  }

  /// The rules once more, over the whole set at once.
  @Test func `the newest telling of each transaction stands, and nothing that an answer left out`() throws {
    var left = 0
    for seed in Self.cases {
      var reports = Reports(100_000 + seed)
      let all = reports.all
      let whole = reports.merged()
      let merged = try #require(whole)
      let wholes = all.filter { $0.coverage == .snapshot }
      let newest = wholes.max { ($0.evidenceTime, $0.evaluatedAt) < ($1.evidenceTime, $1.evaluatedAt) }
      let standing = wholes.filter { $0.evidenceTime == newest?.evidenceTime && $0.evaluatedAt == newest?.evaluatedAt }
      let since = newest?.evidenceTime ?? .distantPast
      let parts = all.filter { $0.coverage != .snapshot && $0.evidenceTime > since }
      var reported: [TransactionID: Date] = [:]
      for row in standing.flatMap(\.purchases) { reported[row.transactionID] = since }
      for row in parts.flatMap(\.purchases) {
        guard let time = row.reportedAt, time > since else { continue }
        reported[row.transactionID] = max(reported[row.transactionID] ?? time, time)
      }
      let times = Dictionary(uniqueKeysWithValues: merged.purchases.map { ($0.transactionID, $0.reportedAt ?? since) })
      #expect(times == reported, "seed \(seed)")
      let renewals = parts.flatMap(\.renewals).filter { ($0.reportedAt ?? .distantPast) > since }
      if let last = renewals.compactMap(\.reportedAt).max() {
        #expect(merged.renewals.allSatisfy { $0.reportedAt == last } && !merged.renewals.isEmpty, "seed \(seed)")
      } else {
        #expect(Set(merged.renewals.map(\.autoRenews)) == Set(standing.flatMap(\.renewals).map(\.autoRenews)))
      }
      let end = (parts.map(\.evidenceTime) + [newest?.evidenceTime].compactMap { $0 }).max()
      #expect(merged.evidenceTime == end, "seed \(seed)")
      #expect(merged.coverage == (end == newest?.evidenceTime ? .snapshot : .partial(since: newest?.evidenceTime)))
      #expect(merged.isAccountGone == (parts.isEmpty && standing.contains(where: \.isAccountGone)), "seed \(seed)")
      #expect(all.filter { $0.evidenceTime == end }.map(\.source).contains(merged.source), "seed \(seed)")
      #expect(merged.evaluatedAt == [newest?.evaluatedAt, end].compactMap { $0 }.max(), "seed \(seed)")
      if !parts.isEmpty, newest != nil { left += 1 }
    }
    #expect(left > SeededRandom.cases(500), "answers and parts met")
  }

  /// Four purchases, twenty minutes apart, and a report of what Apple knows of them: an answer may be behind.
  private static func lagging(_ random: inout SeededRandom) -> SubscriptionEvidence {
    func bought(_ number: Int, isRefunded: Bool) -> Purchase {
      let begin = minute(Double(number * 20))
      return row(TransactionID("\(number)"), from: begin, until: day(30), cancelled: isRefunded ? begin : nil)
    }
    let time = Int.random(in: 0...30, using: &random) * 5
    // Parts are never of the very moment of an answer that may contradict them.
    guard random.chance(45) else {
      let number = Int.random(in: 0...3, using: &random)
      return part(at: minute(Double(time + 1)), bought(number, isRefunded: random.chance(25)))
    }
    let known = (0...3).filter { $0 * 20 <= time - random.pick([0, 20, 40], or: 0) }
    let rows = (random.chance(50) ? known : Array(known.suffix(1))).map { bought($0, isRefunded: random.chance(20)) }
    return whole(at: minute(Double(time)), rows)
  }

  @Test func `a purchase that an answer does not have yet stands beside it, in any order`() throws {
    var ahead = 0
    for seed in Self.cases {
      var reports = Reports(200_000 + seed)
      reports.all = reports.all.indices.map { _ in Self.lagging(&reports.random) }
      let first = try Self.result(of: &reports, seed)
      guard let new = first.ahead, case .partial(let since?) = first.coverage else { continue }
      ahead += 1
      let row = try #require(first.purchases.first { $0.transactionID == new })
      #expect(first.purchases.allSatisfy { $0 == row || $0.begun < row.begun || $0.reportedAt ?? since > since })
      #expect(since <= row.begun.advanced(by: SubscriptionEvidence.answerLag), "seed \(seed)")
    }
    #expect(ahead > SeededRandom.cases(10), "answers were behind")
  }

  @Test func `the answer that was asked for later stands, of two with one evidence time`() {
    var (early, late) = (Self.whole(at: day(0), []), Self.whole(at: day(0), [Self.period(1, begin: 0, end: 10)]))
    late.evaluatedAt = day(1)
    early.purchases = [Self.period(2, begin: 0, end: 10)]
    #expect(early.merging(late) == late)
    #expect(late.merging(early) == late)
    let part = Self.part(at: day(2), Self.period(3, begin: 2, end: 12))
    #expect(early.merging(part).merging(late) == late.merging(part).merging(early))
    #expect(early.merging(part).merging(late).purchases.map(\.transactionID) == ["1", "3"])
  }

  @Test func `a refund that an answer does not show is remembered, until an answer is an hour younger`() {
    let refunded = Self.part(at: minute(1), Self.period(1, begin: -1, end: 10, cancelled: noon))
    let running = [Self.period(1, begin: -1, end: 10)]
    func refund(_ answers: Double...) -> KnownRefund? {
      answers.map { Self.whole(at: minute($0), running) }.reduce(refunded) { $0.merging($1) }.refund
    }
    let known = KnownRefund(transactionID: "1", date: noon)
    #expect(refunded.refund == nil && refund(0) == nil, "the rows show it")
    #expect(refund(2) == known && refund(2, 60) == known)
    #expect(refund(61) == nil && refund(2, 61) == nil && refund(61, 2) == nil)
    let answer = Self.whole(at: minute(2), running)
    #expect(answer.merging(refunded).merging(Self.whole(at: minute(3), refunded.purchases)).refund == nil)
  }

  @Test func `an answer beside which nothing stands is left as it is`() {
    let rows = [
      Self.period(2, begin: 10, end: 20), Self.period(1, begin: 0, end: 10), Self.period(1, begin: 0, end: 10),
    ]
    let answer = Self.whole(at: day(5), rows)
    #expect(answer.merging(Self.whole(at: day(4), [])) == answer)
    #expect(Self.part(at: day(5), Self.period(3, begin: 5, end: 6)).merging(answer) == answer)
  }

  @Test func `an answer has one form, whatever its renewal info was signed with`() {
    var signed = renewal(renews: true)
    signed.reportedAt = noon
    let row = row("1", until: day(10))
    let answered = answer([row], [signed], source: .serverAPI)
    #expect(answered == answer([row], [renewal(renews: true)], source: .serverAPI))
    // Beside another of the same moment it is written anew.
    let merged = answered.map { $0.merging(answer([row], [signed])[0]) }
    #expect(merged.map(\.renewals) == answered.map(\.renewals))
  }

  @Test func `rows that differ in their sale alone have descriptions that differ`() {
    let descriptions = [Int64(4_990), 9_990].map { price in
      var row = Self.period(1, begin: 0, end: 10)
      row.sale = Purchase.Sale(price: price)
      return String(describing: row)
    }
    #expect(Set(descriptions).count == 2)
  }

  @Test func `the price of a transaction is known as long as the transaction stands`() {
    let sale = Purchase.Sale(price: 4_990, currency: "EUR", storefront: "DEU")
    var sold = Self.period(1, begin: 0, end: 10)
    sold.sale = sale
    let part = Self.part(at: day(1), sold)
    let rows = [Self.period(1, begin: 0, end: 10), Self.period(2, begin: 10, end: 20)]
    let answer = Self.whole(at: day(2), rows)
    for merged in [part.merging(answer), answer.merging(part)] {
      #expect(merged.purchases.map(\.sale) == [sale, nil])
      #expect(merged.coverage == .snapshot && merged.evidenceTime == day(2))
      // Once more of the same changes nothing.
      #expect(merged.merging(answer) == merged && answer.merging(merged) == merged)
      let later = Self.part(at: day(3), Self.period(3, begin: 20, end: 30))
      #expect(merged.merging(later).purchases.map(\.sale) == [sale, nil, nil])
      #expect(later.merging(merged).purchases.map(\.sale) == [sale, nil, nil])
    }
    // A report that says less hides nothing.
    var located = rows[0]
    located.sale = Purchase.Sale(storefront: "DEU")
    #expect(part.merging(Self.part(at: day(5), located)).purchases.map(\.sale) == [sale])
    // An answer that is older keeps what it says, and gets what the newer part knows.
    #expect(Self.whole(at: day(0), rows).merging(part).purchases.map(\.sale) == [sale, nil])
    #expect(part.merging(Self.whole(at: day(4), [])).purchases.isEmpty)
  }

  @Test func `evidence of another subscription and what is provisional is not merged`() {
    let one = Self.whole(at: day(0), [Self.period(1, begin: 0, end: 10)])
    var other = Self.whole(at: day(1), [])
    other.provisionalUntil = day(2)
    #expect(one.merging(other) == one)
    #expect(other.merging(one) == other)
    other.provisionalUntil = nil
    other.key = SubscriptionKey(environment: .sandbox, originalTransactionID: "100")
    #expect(one.merging(other) == one)
  }

  @Test func `the deletion of an account is an answer, whatever it is told with, and news after it counts`() {
    var gone = Self.part(at: day(1), Self.period(1, begin: 0, end: 10))
    gone.isAccountGone = true
    gone.evidenceTime = day(3)
    let late = Self.part(at: day(2), Self.period(2, begin: 2, end: 12))
    #expect(gone.merging(late).isAccountGone)
    #expect(gone.merging(late).purchases.map(\.transactionID) == ["1"])
    let news = Self.part(at: day(4), Self.period(2, begin: 2, end: 12))
    #expect(!gone.merging(news).isAccountGone)
    #expect(gone.merging(news).merging(gone) == gone.merging(news))
  }

  @Test func `only so many parts of one subscription are kept, those bought last`() {
    let limit = SubscriptionEvidence.partLimit
    let parts = (0..<(limit + 30)).map {
      Self.part(at: day(500 - Double($0)), Self.period($0, begin: Double($0), end: 1e4))
    }
    let merged = parts.reduce(parts[0]) { $0.merging($1) }
    #expect(merged.purchases.count == limit)
    #expect(merged.purchases.first?.transactionID == "30")
    #expect(parts.reversed().reduce(parts[7]) { $0.merging($1) }.purchases.count == limit)
  }

  @Test func `each subscription told in parts has the time of its own newest part`() {
    var (first, second) = (row("1", of: "a"), row("2", of: "b"))
    first.reportedAt = day(1)
    second.reportedAt = day(2)
    var info = renewal(of: "a")
    info.reportedAt = day(1.5)
    var stray = renewal(of: "c")
    stray.reportedAt = day(0.5)
    let evidence = PurchaseHistory(
      environment: .production, source: .notification, evidenceTime: day(3), evaluatedAt: day(4),
      purchases: [first, second], renewals: [info, stray], coverage: .partial(since: nil)
    ).evidence()
    #expect(evidence.map(\.evidenceTime) == [day(1.5), day(2), day(0.5)])
    #expect(evidence.map(\.evaluatedAt) == [day(1.5), day(2), day(0.5)])
    #expect(evidence.map(\.renewals.count) == [1, 0, 1])
    #expect(evidence.allSatisfy { $0.coverage == .partial(since: nil) })
  }

  private static func whole(at time: Date, _ rows: [Purchase]) -> SubscriptionEvidence {
    SubscriptionEvidence(key: key, source: .verifyReceipt, evidenceTime: time, evaluatedAt: time, purchases: rows)
  }

  private static func part(at time: Date, _ row: Purchase) -> SubscriptionEvidence {
    var row = row
    row.reportedAt = time
    return SubscriptionEvidence(
      key: key, source: .signature, evidenceTime: time, evaluatedAt: time, purchases: [row],
      coverage: .partial(since: nil))
  }
}

extension Purchase {
  fileprivate var begun: Date { purchaseDate ?? .distantPast }
}
