import Entitlements
import FoundationEssentials
import Synchronization
import Testing

@testable import AppStore
@testable import HTTPTransport
@testable import Resilience

@Suite struct ServerAPIClientTests {
  private typealias Sample = ServerAPISample
  private typealias Step = ScriptedTransport.Step

  /// One look-up, with its calls.
  private struct Run<Answer> {
    var outcome: Result<Answer, AppStoreError>
    var transport: ScriptedTransport
    var time: TestTime
    var observed: [ServerAPIAttempt]

    /// The calls in order: `p` and `s` for the store, and `S`, `H`, `T`, `O` for what was asked.
    var calls: String {
      transport.calls.map { call in
        let store = call.url.contains("sandbox") ? "s" : "p"
        let endpoints = ["/subscriptions/": "S", "/history/": "H", "/lookup/": "O"]
        let endpoint = endpoints.first { call.url.contains($0.key) }?.value ?? "T"
        return store + endpoint
      }.joined(separator: " ")
    }
    var error: AppStoreError? { if case .failure(let error) = outcome { error } else { nil } }
    var answer: Answer? { try? outcome.get() }
  }

  private func look<Answer: Sendable>(
    _ steps: [Step], _ change: (inout ServerAPIClient.Configuration) -> Void = { _ in },
    retryBudget: RetryBudget? = nil,
    _ ask: (ServerAPIClient, TestTime) async throws(AppStoreError) -> Answer
  ) async throws -> Run<Answer> {
    let time = TestTime()
    let transport = ScriptedTransport(steps, time: time)
    let observed = Mutex<[ServerAPIAttempt]>([])
    var configuration = try Sample.configuration()
    change(&configuration)
    let client = ServerAPIClient(
      transport: transport, configuration: configuration, verifier: try SignedDataPKI.made.get().verifier(),
      timing: time.timing(), retryBudget: retryBudget,
      observe: { attempt in observed.withLock { $0.append(attempt) } })
    let outcome: Result<Answer, AppStoreError>
    do throws(AppStoreError) {
      outcome = .success(try await ask(client, time))
    } catch {
      outcome = .failure(error)
    }
    #expect(transport.remaining == 0, "every planned answer is fetched")
    return Run(outcome: outcome, transport: transport, time: time, observed: observed.withLock { $0 })
  }

  private func run(
    _ steps: [Step], id: String = "480002000000112", apps: [BundleID] = ["com.example.app"],
    stores: [StoreEnvironment] = [.production, .sandbox], oneTime: Bool = false, within limit: Duration = .seconds(10),
    retryBudget: RetryBudget? = nil, _ change: (inout ServerAPIClient.Configuration) -> Void = { _ in }
  ) async throws -> Run<AppStoreAnswer> {
    try await look(steps, change, retryBudget: retryBudget) { client, time throws(AppStoreError) in
      try await client.history(
        of: OriginalTransactionID(id), bundleIDs: apps, stores: stores, includesOneTimePurchases: oneTime,
        deadline: time.start.advanced(by: limit))
    }
  }

  private func runTransaction(_ steps: [Step], id: String = "480002000000112") async throws -> Run<VerifiedTransaction>
  {
    try await look(steps) { client, time throws(AppStoreError) in
      try await client.transaction(
        TransactionID(id), bundleIDs: [Sample.bundleID], deadline: time.start.advanced(by: .seconds(10)))
    }
  }

  @Test func `a call that nobody waits for is not retried`() async throws {
    let budget = RetryBudget()
    let before = budget.retriesLeft
    let run = try await look([Sample.error(5_000_001)], retryBudget: budget) { client, time throws(AppStoreError) in
      try await client.history(
        of: "480002000000112", bundleIDs: [Sample.bundleID], includesOneTimePurchases: false, retriesTrouble: false,
        deadline: time.start.advanced(by: .seconds(10)))
    }
    #expect(run.time.pauses.isEmpty)
    #expect(budget.retriesLeft == before)
  }

  private func send(_ steps: [Step], id: TransactionID = "480002000000112") async throws -> Run<Bool> {
    try await look(steps) { client, time throws(AppStoreError) in
      try await client.send(
        ConsumptionInformation(
          customerConsented: true, consumptionPercentage: 67_932, deliveryStatus: .delivered,
          refundPreference: .grantProrated), about: id, of: Sample.bundleID, in: .sandbox,
        deadline: time.start.advanced(by: .seconds(10)))
      return true
    }
  }

  @Test func `consumption information is put to the transaction, and an empty 202 is the answer`() async throws {
    let run = try await send([.body("", status: 202)])
    let call = try #require(run.transport.calls.first?.request)
    #expect(call.method == .put)
    #expect(call.url == "https://api.sandbox.example/inApps/v2/transactions/consumption/480002000000112")
    #expect(call.headers.map(\.name) == ["Accept", "Authorization", "Content-Type"])
    #expect(
      String(decoding: call.body, as: UTF8.self)
        == #"{"customerConsented":true,"consumptionPercentage":67932,"deliveryStatus":"DELIVERED","#
        + #""refundPreference":"GRANT_PRORATED","sampleContentProvided":false}"#)
    #expect(run.answer == true)
  }

  @Test func `consumption information that Apple refuses, or cannot take now, fails with the reason`() async throws {
    #expect(try await send([Sample.error(4_000_209)]).error == .unexpected(appleStatus: 4_000_209, httpStatus: 400))
    #expect(try await send([Sample.error(4_040_010)]).error == .notFound)
    let trouble = try await send([Sample.error(5_000_000)])
    #expect(
      trouble.error == .unavailable(appleStatus: 5_000_000, httpStatus: 500, .trouble) && trouble.time.pauses.isEmpty)
    #expect(try await send([], id: "1/../2").error == .notFound)
  }

  private func setToken(_ steps: [Step], id: OriginalTransactionID = "480002000000001") async throws -> Run<Bool> {
    try await look(steps) { client, time throws(AppStoreError) in
      try await client.setAccountToken(
        "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11", of: id, bundleIDs: [Sample.bundleID], in: .production,
        deadline: time.start.advanced(by: .seconds(10)))
      return true
    }
  }

  @Test func `an app account token is put to the purchase, and an empty 200 is the answer`() async throws {
    let run = try await setToken([.body("")])
    let call = try #require(run.transport.calls.first?.request)
    #expect(call.method == .put)
    #expect(call.url == "https://api.example/inApps/v1/transactions/480002000000001/appAccountToken")
    #expect(
      String(decoding: call.body, as: UTF8.self) == #"{"appAccountToken":"6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"}"#)
    #expect(run.answer == true)
  }

  @Test func `an app account token that Apple refuses, or cannot take now, fails with the reason`() async throws {
    for code in [4_000_183, 4_000_185, 4_000_187] {
      #expect(try await setToken([Sample.error(code)]).error == .unexpected(appleStatus: code, httpStatus: 400))
    }
    #expect(try await setToken([Sample.error(4_040_010)]).error == .notFound)
    let trouble = try await setToken([Sample.error(5_000_001)])
    #expect(trouble.error?.appleStatus == 5_000_001 && trouble.time.pauses.isEmpty)
    #expect(try await setToken([], id: "1/../2").error == .notFound)
  }

  // MARK: Refunds

  private func refunds(
    _ steps: [Step], pageLimit: Int = 50
  ) async throws -> Run<[SignedRefund]> {
    try await look(steps, { $0.pageLimit = pageLimit }) { client, time throws(AppStoreError) in
      try await client.refunds(
        of: "480002000000001", bundleIDs: [Sample.bundleID], in: .production,
        deadline: time.start.advanced(by: .seconds(10)))
    }
  }

  private static func refund(_ id: String) -> Sample.Transaction {
    var refunded = Sample.Transaction.lifetime(id)
    refunded.revoked = Sample.signedAt - 1
    return refunded
  }

  @Test func `a customer's refunds come page by page, each as Apple signed it`() async throws {
    let run = try await refunds([
      .body(try Sample.refunds([Self.refund("1")], hasMore: true, revision: "a/b+c=&d")),
      .body(try Sample.refunds([Self.refund("2"), Self.refund("3")])),
    ])
    #expect(
      run.transport.calls.map(\.url) == [
        "https://api.example/inApps/v2/refund/lookup/480002000000001",
        "https://api.example/inApps/v2/refund/lookup/480002000000001?revision=a%2Fb%2Bc%3D%26d",
      ])
    #expect(run.transport.calls.allSatisfy { $0.request.method == .get })
    let answer = try #require(run.answer)
    #expect(answer.map(\.transaction.purchase.transactionID) == ["1", "2", "3"])
    #expect(answer.allSatisfy { $0.transaction.purchase.cancellationDate != nil && $0.text.count > 100 })
    #expect(try await refunds([.body(try Sample.refunds([]))]).answer?.isEmpty == true)
  }

  @Test func `a list of refunds counts whole, or not at all`() async throws {
    let page = Step.body(try Sample.refunds([Self.refund("1")], hasMore: true, revision: "a"))
    #expect(try await refunds([page, page]).error == .invalidAnswer("revision: a page that was there before"))
    #expect(try await refunds([page], pageLimit: 1).error == .invalidAnswer("hasMore: more than 1 pages"))
    var other = Self.refund("2")
    other.environment = "Sandbox"
    #expect(
      try await refunds([.body(try Sample.refunds([Self.refund("1"), other]))]).error
        == .invalidAnswer("signedTransactions[1]: the transaction is of another store than the one that was asked"))
    other = Self.refund("3")
    other.bundle = "com.example.other"
    #expect(try await refunds([.body(try Sample.refunds([other]))]).error == .wrongApp("com.example.other"))
    for broken in [#"{"hasMore":false}"#, #"{"signedTransactions":[]}"#, #"{"signedTransactions":[],"hasMore":true}"#] {
      let run = try await refunds(Array(repeating: .body(broken), count: 3))
      guard case .unavailable(_, _, .malformedAnswer) = run.error else {
        Issue.record("\(broken): \(String(describing: run.error))")
        continue
      }
    }
    #expect(try await refunds([Sample.error(4_040_001)]).error == .notFound)
    #expect(
      try await refunds([Sample.error(4_000_005)]).error == .unexpected(appleStatus: 4_000_005, httpStatus: 400))
  }

  // MARK: Extensions

  private static let extension14 = RenewalExtension(days: 14, reason: .serviceIssue, requestIdentifier: "r-1")

  private func extend(_ steps: [Step], id: OriginalTransactionID = "480002000000001") async throws -> Run<Date> {
    try await look(steps) { client, time throws(AppStoreError) in
      try await client.extend(
        id, by: Self.extension14, bundleIDs: [Sample.bundleID], in: .sandbox,
        deadline: time.start.advanced(by: .seconds(10)))
    }
  }

  private func status(_ steps: [Step]) async throws -> Run<ProductExtensionStatus> {
    try await look(steps) { client, time throws(AppStoreError) in
      try await client.extensionStatus(
        of: "com.example.app.pro/1", requestIdentifier: "r-1", bundleIDs: [Sample.bundleID], in: .production,
        deadline: time.start.advanced(by: .seconds(10)))
    }
  }

  @Test func `an extension is put to the original transaction, and the new end is the answer`() async throws {
    let run = try await extend([
      .body(#"{"originalTransactionId":"480002000000001","success":true,"effectiveDate":1768478400001}"#)
    ])
    let call = try #require(run.transport.calls.first?.request)
    #expect(call.method == .put)
    #expect(call.url == "https://api.sandbox.example/inApps/v1/subscriptions/extend/480002000000001")
    #expect(
      String(decoding: call.body, as: UTF8.self)
        == #"{"extendByDays":14,"extendReasonCode":3,"requestIdentifier":"r-1"}"#)
    #expect(run.answer == Date(millisecondsSince1970: 1_768_478_400_001))
  }

  @Test func `an extension that Apple refuses fails with the reason, and trouble is no reason`() async throws {
    for (code, words) in [
      (4_030_004, "not in a free offer"), (4_030_005, "twice in 365 days"), (4_030_007, "shared in a family"),
      (4_040_005, "does not know"), (4_000_010, "error 4000010"),
    ] {
      let error = try #require(try await extend([Sample.error(code)]).error)
      #expect(error.extensionRefusal?.contains(words) == true, "\(code)")
    }
    for step in [
      Sample.error(5_000_000), .body(#"{"success":false,"effectiveDate":1}"#), .body(#"{"success":true}"#),
    ] {
      let error = try #require(try await extend([step]).error)
      #expect(error.extensionRefusal == nil, "\(error)")
    }
    #expect(try await extend([], id: "1/../2").error == .notFound)
  }

  @Test func `an extension of a product names it and its storefronts, and its status tells the counts`() async throws {
    let begun = try await look([.body(#"{"requestIdentifier":"r-1"}"#)]) { client, time throws(AppStoreError) in
      try await client.extendAll(
        of: ExtendedProduct(productID: "pro", storefronts: ["USA"]), by: Self.extension14,
        bundleIDs: [Sample.bundleID], in: .production, deadline: time.start.advanced(by: .seconds(10)))
      return true
    }
    let call = try #require(begun.transport.calls.first?.request)
    #expect(call.method == .post && call.url == "https://api.example/inApps/v1/subscriptions/extend/mass")
    #expect(
      String(decoding: call.body, as: UTF8.self)
        == #"{"extendByDays":14,"extendReasonCode":3,"requestIdentifier":"r-1","productId":"pro","#
        + #""storefrontCountryCodes":["USA"]}"#)
    let running = try await status([.body(#"{"requestIdentifier":"r-1","complete":false}"#)])
    #expect(running.answer == ProductExtensionStatus(isComplete: false))
    #expect(
      running.transport.calls.first?.request.url
        == "https://api.example/inApps/v1/subscriptions/extend/mass/com.example.app.pro%2F1/r-1")
    let done = try await status([
      .body(#"{"requestIdentifier":"r-1","complete":true,"completeDate":1,"succeededCount":30,"failedCount":2}"#)
    ])
    #expect(done.answer == ProductExtensionStatus(isComplete: true, succeeded: 30, failed: 2))
    #expect(try await status([.body("{}")]).error != nil)
  }

  // MARK: The request

  @Test func `the request is a GET of the ID with a bearer token`() async throws {
    let run = try await run([.body(try Sample.subscriber())])
    let call = try #require(run.transport.calls.first?.request)
    #expect(call.method == .get)
    #expect(call.url == "https://api.example/inApps/v1/subscriptions/480002000000112")
    #expect(call.body.isEmpty)
    #expect(call.responseBodyLimit == 8 * 1024 * 1024)
    #expect(call.headers.map(\.name) == ["Accept", "Authorization"])
    let token = try #require(call.headers.last?.value)
    #expect(token.hasPrefix("Bearer ey"))
    #expect(token.split(separator: ".").count == 3)
  }

  @Test(arguments: [
    "", "abc", "12a", "-1", "+1", "1.5", "١٢", "1/../2", "1?x=1", "1%2F2", " 1", String(repeating: "1", count: 33),
  ])
  func `a text that is no ID is not found, without a call`(_ id: String) async throws {
    #expect(try await run([], id: id).error == .notFound)
    #expect(try await runTransaction([], id: id).error == .notFound)
  }

  @Test func `without an app or a store there is nothing to ask, and nothing is said`() async throws {
    #expect(try await run([], apps: []).error == .unavailable(.misrouted))
    #expect(try await run([], stores: []).error == .unavailable(.misrouted))
  }

  // MARK: Answers

  @Test func `the statuses are a whole history of the Server API`() async throws {
    let run = try await run([.body(try Sample.subscriber())])
    let answer = try #require(run.answer)
    #expect(answer.history.environment == .production)
    #expect(answer.bundleID == "com.example.app")
    #expect(answer.appAppleID == 1_234_567_890)
    #expect(answer.signedTransactions == ["480002000000001": try #require(answer.signedTransactions.values.first)])
    #expect(run.observed.map(\.outcome) == [.answered])
    let history = answer.history
    #expect(history.source == .serverAPI)
    #expect(history.coverage == .snapshot)
    #expect(history.evidenceTime == moment(Sample.signedAt))
    #expect(history.evaluatedAt == moment(Sample.signedAt))
    #expect(history.purchases.map(\.transactionID) == ["480002000000112"])
    #expect(history.purchases.first?.expiresDate == moment(1_719_792_000_000))
    #expect(history.purchases.first?.reportedAt == moment(Sample.signedAt))
    #expect(history.renewals.map(\.autoRenews) == [true])
    #expect(history.renewals.first?.periodEnd == moment(1_719_792_000_000))
  }

  @Test(arguments: ["Production", "Sandbox"])
  func `a transaction that names no store, as in 2021, is of the store that answers`(name: String) async throws {
    let item = try Sample.item(Sample.Transaction(environment: nil), renewal: Sample.Renewal(environment: nil))
    let stores: [StoreEnvironment] = name == "Sandbox" ? [.sandbox] : [.production]
    let run = try await run([.body(Sample.statuses([[item]], environment: name))], stores: stores)
    let answer = try #require(run.answer)
    #expect(answer.history.environment == stores.first)
    #expect(answer.history.purchases.map(\.transactionID) == ["480002000000112"])
    #expect(answer.history.renewals.map(\.autoRenews) == [true])
  }

  @Test func `the signed transaction that is kept is the one that Apple signed`() async throws {
    let answer = try #require(try await run([.body(try Sample.subscriber())]).answer)
    let text = try #require(answer.signedTransactions["480002000000001"])
    let verified = try SignedDataPKI.made.get().verifier().transaction(text, now: TestTime.date)
    #expect(verified.payload.purchase.transactionID == "480002000000112")
  }

  @Test func `every entry of every group counts, not the first alone`() async throws {
    func item(_ number: Int, status: Int) throws -> String {
      let original = "48000200000000\(number)"
      return try Sample.item(
        Sample.Transaction(id: original + "9", original: original, group: number == 3 ? nil : "77"),
        renewal: Sample.Renewal(original: original, autoRenews: number % 2), status: status)
    }
    let body = Sample.statuses([[], [try item(1, status: 5), try item(2, status: 2)], [try item(3, status: 3)]])
    let answer = try #require(try await run([.body(body)]).answer)
    let originals: [OriginalTransactionID] = ["480002000000001", "480002000000002", "480002000000003"]
    #expect(answer.history.purchases.map(\.originalTransactionID) == originals)
    #expect(answer.history.renewals.map(\.originalTransactionID) == originals)
    #expect(answer.history.renewals.map(\.autoRenews) == [true, false, true])
    #expect(answer.history.evidence().count == 3)
    // The transaction's own group where it names one, else the group that the answer puts it into.
    #expect(answer.history.purchases.map(\.subscriptionGroupID) == ["77", "77", "21000003"])
  }

  @Test func `a revoked transaction is a refund`() async throws {
    let item = try Sample.item(Sample.Transaction(revoked: 1_717_977_600_000), status: 5)
    let answer = try #require(try await run([.body(Sample.statuses([[item]]))]).answer)
    #expect(answer.history.purchases.first?.cancellationDate == moment(1_717_977_600_000))
  }

  @Test func `an entry without renewal info says its status alone`() async throws {
    let answer = try #require(
      try await run([.body(Sample.statuses([[try Sample.item(renewal: nil)]]))]).answer)
    #expect(answer.history.purchases.count == 1)
    #expect(answer.history.renewals.map(\.status) == [.active])
    #expect(answer.history.renewals.map(\.autoRenews) == [nil])
  }

  @Test func `a customer without subscriptions is known and has none`() async throws {
    let answer = try #require(try await run([.body(Sample.statuses([]))]).answer)
    #expect(answer.history.purchases.isEmpty)
    #expect(answer.history.evidence().isEmpty)
    #expect(answer.history.evaluatedAt == TestTime.date)
  }

  @Test func `the newest signature is the time of the evidence`() async throws {
    let old = try Sample.item(
      Sample.Transaction(signedAt: Sample.signedAt - 5000), renewal: Sample.Renewal(signedAt: Sample.signedAt - 2000))
    let answer = try #require(try await run([.body(Sample.statuses([[old]]))]).answer)
    #expect(answer.history.evidenceTime == moment(Sample.signedAt - 2000))
  }

  // MARK: What was bought once

  @Test func `one-time purchases are added from the history`() async throws {
    let run = try await run(
      [.body(try Sample.subscriber()), .body(try Sample.history([.lifetime()]))], oneTime: true)
    #expect(run.calls == "pS pH")
    #expect(
      run.transport.calls.last?.url
        == "https://api.example/inApps/v2/history/480002000000112?sort=ASCENDING&productType=NON_CONSUMABLE"
        + "&productType=NON_RENEWABLE")
    let answer = try #require(run.answer)
    #expect(answer.history.purchases.map(\.transactionID) == ["480002000000112", "480002000000200"])
    #expect(answer.signedTransactions.count == 2)
  }

  @Test func `the pages of a history are turned by their revision`() async throws {
    let run = try await run(
      [
        .body(Sample.statuses([])),
        .body(try Sample.history([.lifetime("1")], hasMore: true, revision: "a/b+c=&d")),
        .body(try Sample.history([.lifetime("2")], hasMore: true, revision: "e")),
        .body(try Sample.history([.lifetime("3")], revision: "f")),
      ], oneTime: true)
    #expect(run.calls == "pS pH pH pH")
    let revisions = run.transport.calls.map { $0.url.split(separator: "&revision=").dropFirst().last }
    #expect(revisions == [nil, nil, "a%2Fb%2Bc%3D%26d", "e"])
    #expect(run.answer?.history.purchases.map(\.transactionID) == ["1", "2", "3"])
  }

  @Test func `a history that goes in circles is no answer`() async throws {
    let page = Step.body(try Sample.history([.lifetime("1")], hasMore: true, revision: "a"))
    let run = try await run([.body(Sample.statuses([])), page, page], oneTime: true)
    #expect(run.error == .invalidAnswer("revision: a page that was there before"))
  }

  @Test func `a history without end is given up`() async throws {
    let pages = try (1...3).map { number in
      Step.body(try Sample.history([.lifetime("\(number)")], hasMore: true, revision: "r\(number)"))
    }
    let run = try await run([.body(Sample.statuses([]))] + pages, oneTime: true) { $0.pageLimit = 3 }
    #expect(run.error == .invalidAnswer("hasMore: more than 3 pages"))
  }

  @Test func `pages that are fuller than Apple's are counted by what is on them`() async throws {
    let many = (1...61).map { Sample.Transaction.lifetime("\($0)") }
    let run = try await run(
      [.body(Sample.statuses([])), .body(try Sample.history(many, hasMore: true))], oneTime: true
    ) { $0.pageLimit = 3 }
    #expect(run.error == .invalidAnswer("hasMore: more than 3 pages"))
  }

  @Test func `an answer in pages is as old as its first`() async throws {
    var signedLongAgo = Sample.Transaction.lifetime()
    signedLongAgo.signedAt -= 86_400_000
    func date(_ second: Int) -> [TransportHeader] {
      [TransportHeader("Date", "Sat, 15 Jun 2024 12:00:0\(second) GMT")]
    }
    let run = try await run(
      [
        .body(Sample.statuses([]), headers: date(1)), .body(try Sample.history([signedLongAgo]), headers: date(2)),
      ], oneTime: true)
    #expect(run.answer?.history.evaluatedAt == moment(Sample.signedAt + 1000))
    #expect(run.answer?.history.evidenceTime == moment(signedLongAgo.signedAt))
  }

  @Test func `only one-time purchases of the history count, and their refunds`() async throws {
    var refunded = Sample.Transaction.lifetime("201")
    refunded.revoked = 1_717_977_600_000
    var season = Sample.Transaction.lifetime("202")
    season.type = "Non-Renewing Subscription"
    var coins = Sample.Transaction.lifetime("203")
    coins.type = "Consumable"
    let run = try await run(
      [
        .body(Sample.statuses([])), .body(try Sample.history([refunded, season, coins, Sample.Transaction()])),
      ], oneTime: true)
    let purchases = try #require(run.answer).history.purchases
    #expect(purchases.map(\.transactionID) == ["201", "202"])
    #expect(purchases.map { $0.cancellationDate != nil } == [true, false])
  }

  @Test func `a transaction that comes twice counts as it was signed last`() async throws {
    var later = Sample.Transaction.lifetime()
    later.signedAt += 1000
    later.revoked = 1_717_977_600_000
    for order in [[Sample.Transaction.lifetime(), later], [later, Sample.Transaction.lifetime()]] {
      let run = try await run([.body(Sample.statuses([])), .body(try Sample.history(order))], oneTime: true)
      let answer = try #require(run.answer)
      #expect(answer.history.purchases.count == 1)
      #expect(answer.history.purchases.first?.cancellationDate != nil)
      let kept = try #require(answer.signedTransactions["480002000000200"])
      let verified = try SignedDataPKI.made.get().verifier().transaction(kept, now: moment(later.signedAt))
      #expect(verified.payload.signedDate == moment(later.signedAt))
    }
  }

  @Test func `a customer who only bought once is found by the history`() async throws {
    let run = try await run([Sample.notFound, .body(try Sample.history([.lifetime()]))], oneTime: true)
    #expect(run.calls == "pS pH")
    #expect(run.answer?.history.environment == .production)
    #expect(run.answer?.history.purchases.count == 1)
  }

  @Test func `a history that has nothing does not undo the statuses`() async throws {
    let run = try await run([.body(try Sample.subscriber()), Sample.notFound], oneTime: true)
    #expect(run.answer?.history.purchases.count == 1)
  }

  @Test func `not found is said only when each list of each store says so`() async throws {
    let run = try await run(Array(repeating: Sample.notFound, count: 4), oneTime: true)
    #expect(run.calls == "pS pH sS sH")
    #expect(run.error == .notFound)
  }

  @Test func `a history that fails fails the look-up`() async throws {
    let run = try await run(
      [.body(try Sample.subscriber())] + Array(repeating: Sample.error(5_000_000), count: 3), oneTime: true)
    #expect(run.error == .unavailable(appleStatus: 5_000_000, httpStatus: 500, .trouble))
  }

  // MARK: Stores and apps

  @Test func `an ID that production does not know is looked for in the sandbox`() async throws {
    let run = try await run([Sample.notFound, .body(try Sample.subscriber(environment: "Sandbox"))])
    #expect(run.calls == "pS sS")
    #expect(run.answer?.history.environment == .sandbox)
    #expect(
      run.observed.map(\.outcome) == [.error(httpStatus: 404, errorCode: 4_040_010), .answered])
    #expect(run.time.pauses.isEmpty)
  }

  @Test func `a store that is known is asked alone`() async throws {
    let run = try await run([.body(try Sample.subscriber(environment: "Sandbox"))], stores: [.sandbox])
    #expect(run.calls == "sS")
    #expect(try await self.run([Sample.notFound], stores: [.sandbox]).error == .notFound)
  }

  @Test func `each app is asked about with a token of its own, in one store before the other`() async throws {
    let run = try await run(
      [Sample.notFound, Sample.notFound, Sample.notFound, .body(try Sample.subscriber(environment: "Sandbox"))],
      apps: ["com.example.other", "com.example.app"])
    #expect(run.calls == "pS pS sS sS")
    let tokens = run.transport.calls.map { $0.request.headers.last?.value }
    #expect(tokens[0] == tokens[2])
    #expect(tokens[1] == tokens[3])
    #expect(tokens[0] != tokens[1])
    #expect(run.answer?.history.environment == .sandbox)
  }

  @Test func `an answer about an app that is not ours is named`() async throws {
    let run = try await run([.body(Sample.statuses([], bundle: "com.example.stranger"))])
    #expect(run.error == .wrongApp("com.example.stranger"))
  }

  // MARK: Signatures

  @Test func `one part that does not verify fails the whole answer`() async throws {
    let good = try Sample.item()
    let other = try Sample.item(
      Sample.Transaction(id: "9", original: "8"), renewal: Sample.Renewal(original: "8"), status: 5)
    for name in ["signedTransactionInfo", "signedRenewalInfo"] {
      // A signature turned round: what is signed stays as it was.
      let start = try #require(other.firstRange(of: "\"\(name)\":\"")).upperBound
      let end = try #require(other[start...].firstIndex(of: "\""))
      var parts = other[start..<end].split(separator: ".").map(String.init)
      parts[2] = String(parts[2].reversed())
      var forged = other
      forged.replaceSubrange(start..<end, with: parts.joined(separator: "."))
      let run = try await run([.body(Sample.statuses([[good], [forged]]))])
      guard case .invalidAnswer(let words)? = run.error else {
        Issue.record("\(run.outcome)")
        continue
      }
      #expect(words.hasPrefix("data[1].lastTransactions[0]: "))
      #expect(run.observed.map(\.outcome) == [.refused(words)])
    }
  }

  /// Signed data that is not what the answer calls it.
  @Test func `an answer that contradicts what is signed is refused`() async throws {
    let bodies: [(String, AppStoreError?)] = [
      (try Sample.subscriber(environment: "Sandbox"), nil),
      (Sample.statuses([], environment: "LocalTesting"), nil),
      (Sample.statuses([[try Sample.item(Sample.Transaction(environment: "Sandbox"))]]), nil),
      (Sample.statuses([[try Sample.item(renewal: Sample.Renewal(environment: "Sandbox"))]]), nil),
      (Sample.statuses([[try Sample.item(renewal: Sample.Renewal(original: "8"))]]), nil),
      (Sample.statuses([[try Sample.item(named: "8")]]), nil),
      (Sample.statuses([[try Sample.item(renewal: nil, named: "8")]]), nil),
      (Sample.statuses([[try Sample.item()]], bundle: "com.example.other"), nil),
      (
        Sample.statuses([[try Sample.item(Sample.Transaction(bundle: "com.example.stranger"))]]),
        .wrongApp("com.example.stranger")
      ),
      // Signed a day after our clock.
      (Sample.statuses([[try Sample.item(Sample.Transaction(signedAt: Sample.signedAt + 86_400_000))]]), nil),
    ]
    for (body, expected) in bodies {
      let run = try await run([.body(body)], apps: ["com.example.app", "com.example.other"])
      switch run.error {
      case .invalidAnswer where expected == nil: break
      case let error: #expect(error == expected && error != nil)
      }
    }
  }

  @Test func `a signature is not from the future while Apple's own clock has come so far`() async throws {
    let item = try Sample.item(Sample.Transaction(signedAt: Sample.signedAt + 86_400_000))
    let run = try await run([
      .body(
        Sample.statuses([[item]]), headers: [TransportHeader("Date", "Sun, 16 Jun 2024 12:00:00 GMT")])
    ])
    #expect(run.answer != nil)
  }

  @Test func `a renewal info where a transaction belongs is refused`() async throws {
    let renewal = try Sample.Renewal().signed()
    let item =
      #"{"originalTransactionId":"480002000000001","status":1,"signedTransactionInfo":"\#(renewal)"}"#
    guard case .invalidAnswer = try await run([.body(Sample.statuses([[item]]))]).error else {
      Issue.record("taken")
      return
    }
  }

  // MARK: One transaction

  @Test func `a transaction is looked up in both stores and verified`() async throws {
    let signed = try Sample.Transaction(environment: "Sandbox").signed()
    let run = try await runTransaction([Sample.notFound, .body(#"{"signedTransactionInfo":"\#(signed)"}"#)])
    #expect(run.calls == "pT sT")
    #expect(run.transport.calls.first?.url == "https://api.example/inApps/v1/transactions/480002000000112")
    #expect(run.answer?.payload.purchase.transactionID == "480002000000112")
  }

  @Test func `another transaction than the one that was asked for is refused`() async throws {
    let signed = try Sample.Transaction(id: "480002000000113").signed()
    let run = try await runTransaction([.body(#"{"signedTransactionInfo":"\#(signed)"}"#)])
    #expect(
      run.error == .invalidAnswer("signedTransactionInfo: another transaction than the answer calls it"))
    let foreign = try Sample.Transaction(bundle: "com.example.stranger").signed()
    #expect(
      try await runTransaction([.body(#"{"signedTransactionInfo":"\#(foreign)"}"#)]).error
        == .wrongApp("com.example.stranger"))
  }

  // MARK: Orders

  private func runOrder(_ steps: [Step], _ id: String = "MVXH7KWPJC", apps: [BundleID] = [Sample.bundleID]) async throws
    -> Run<[VerifiedTransaction]>
  {
    try await look(steps) { client, time throws(AppStoreError) in
      try await client.order(id, bundleIDs: apps, deadline: time.start.advanced(by: .seconds(10)))
    }
  }

  @Test func `an order is looked up in production, by its letters and digits`() async throws {
    let signed = try [Sample.Transaction(), .lifetime()].map { "\"\(try $0.signed())\"" }.joined(separator: ",")
    let run = try await runOrder([.body(#"{"status":0,"signedTransactions":[\#(signed)]}"#)])
    #expect(run.transport.calls.first?.url == "https://api.example/inApps/v1/lookup/MVXH7KWPJC")
    #expect(run.answer?.map(\.payload.purchase.originalTransactionID) == ["480002000000001", "480002000000200"])
    for id in ["", "mvxh7kwpjc", "M/../2", "M?x=1", "M%2F", "M X", "MÄ", String(repeating: "M", count: 33)] {
      #expect(try await runOrder([], id).error == .notFound, "\(id)")
    }
  }

  @Test func `the history of notifications is asked page by page, by Apple's names`() async throws {
    let from = Date(timeIntervalSince1970: 1_768_478_400.123456789)
    func ask(_ body: String, status: Int = 200, token: String? = nil) async throws -> Run<NotificationPage> {
      try await look([.body(body, status: status)], { $0.retry = RetryPolicy(attempts: 1) }) {
        client, time throws(AppStoreError) in
        try await client.notifications(
          NotificationQuery(from: from, to: from.addingTimeInterval(60), onlyFailures: true, token: token),
          of: Sample.bundleID, in: .production, deadline: time.start.advanced(by: .seconds(10)))
      }
    }
    let page =
      #"{"notificationHistory":[{"signedPayload":"one"},{"signedPayload":"two"}],"hasMore":true,"paginationToken":"a b"}"#
    let run = try await ask(page, token: "x/y")
    #expect(run.answer?.signedPayloads == ["one", "two"] && run.answer?.nextToken == "a b")
    let call = try #require(run.transport.calls.first)
    #expect(call.url == "https://api.example/inApps/v1/notifications/history?paginationToken=x%2Fy")
    #expect(call.request.method == .post)
    #expect(
      String(decoding: call.request.body, as: UTF8.self)
        == #"{"startDate":1768478400123,"endDate":1768478460123,"onlyFailures":true}"#)
    let last = try await ask(#"{"notificationHistory":[],"hasMore":false,"paginationToken":"a"}"#)
    #expect(last.answer?.signedPayloads == [] && last.answer?.nextToken == nil)
    for bad in [
      #"{"hasMore":false}"#, #"{"notificationHistory":[]}"#, #"{"notificationHistory":[],"hasMore":true}"#,
      #"{"notificationHistory":[{}],"hasMore":false}"#,
    ] {
      guard case .unavailable? = try await ask(bad).error else { Issue.record("\(bad)"); continue }
    }
    let refused = try await ask(#"{"errorCode":4000014,"errorMessage":"…"}"#, status: 400)
    #expect(refused.error == .unexpected(appleStatus: 4_000_014, httpStatus: 400))
  }

  @Test func `an order that is of none of our apps is not found, and the sandbox is not asked`() async throws {
    let none = Step.body(#"{"status":1}"#)
    let run = try await runOrder([none, none], apps: [Sample.bundleID, "com.example.other"])
    #expect(run.error == .notFound)
    #expect(run.calls == "pO pO")
  }

  @Test func `an answer about an order counts whole, or not at all`() async throws {
    let foreign = try Sample.Transaction(bundle: "com.example.stranger").signed()
    let other = try Sample.Transaction(environment: "Sandbox").signed()
    let ours = try Sample.Transaction().signed()
    #expect(
      try await runOrder([.body(#"{"status":0,"signedTransactions":["\#(ours)","\#(foreign)"]}"#)]).error
        == .wrongApp("com.example.stranger"))
    #expect(
      try await runOrder([.body(#"{"status":0,"signedTransactions":["\#(other)"]}"#)]).error
        == .invalidAnswer(
          "signedTransactions[0]: the transaction is of another store than the one that was asked"))
    for body in [
      #"{}"#, #"{"status":2}"#, #"{"status":"0"}"#, #"{"status":0}"#, #"{"status":0,"signedTransactions":[]}"#,
      #"{"status":0,"signedTransactions":[1]}"#, #"{"status":0,"signedTransactions":"x"}"#,
    ] {
      let error = try await runOrder(Array(repeating: .body(body), count: 3)).error
      guard case .unavailable(_, _, .malformedAnswer) = error else {
        Issue.record("\(body): \(String(describing: error))")
        continue
      }
    }
  }

  // MARK: The key

  @Test func `after 401 the call is made once more with a fresh token`() async throws {
    let run = try await run([.body("", status: 401), .body(try Sample.subscriber())])
    #expect(run.calls == "pS pS")
    #expect(run.answer != nil)
    let tokens = run.transport.calls.map { $0.request.headers.last?.value }
    #expect(tokens[0] != tokens[1])
    #expect(run.time.pauses.isEmpty)
  }

  @Test func `an app without a production release is asked about in the sandbox`() async throws {
    let refused = Step.body("", status: 401)
    let run = try await run([refused, refused, .body(try Sample.subscriber(environment: "Sandbox"))])
    #expect(run.calls == "pS pS sS")
    #expect(run.answer?.history.environment == .sandbox)
  }

  @Test func `the key is rejected when no store takes it or knows better`() async throws {
    let refused = Step.body("", status: 401)
    #expect(try await run([refused, refused, refused]).error == .keyRejected)
    #expect(try await run([refused, refused, Sample.notFound]).error == .keyRejected)
    #expect(try await run([Sample.notFound, refused, refused]).error == .keyRejected)
    #expect(try await run([refused, refused], stores: [.production]).error == .keyRejected)
  }

  @Test func `trouble of the sandbox after 401 is trouble`() async throws {
    let refused = Step.body("", status: 401)
    let run = try await run([refused, refused, .error(.timedOut)])
    #expect(run.error == .unavailable(.noAnswer(.timedOut)))
  }

  @Test func `an error or an attempt shows no token, key or ID`() async throws {
    let run = try await run(
      [Sample.notFound, .body("<html>480002000000112</html>")]
        + Array(repeating: .body(#"{"data":"480002000000112"}"#), count: 2))
    let token = try #require(run.transport.calls.first?.request.headers.last?.value.dropFirst("Bearer ".count))
    let shown = "\(String(describing: run.error)) \(run.observed)"
    for secret in [String(token), "480002000000112", "2X9R4HXF34"] { #expect(!shown.contains(secret)) }
    #expect(!"\(try Sample.configuration())".contains("BEGIN"))
  }
}
