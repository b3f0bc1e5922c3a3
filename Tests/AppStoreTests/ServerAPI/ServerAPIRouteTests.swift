import Entitlements
import Testing

@testable import AppStore
@testable import HTTPTransport
@testable import JSON

/// The decisions alone: no clock, no call.
@Suite struct ServerAPIRouteTests {
  private static let empty = ServerAPIContents.purchases(
    SignedPurchases(bundleID: "a", parts: [], signatures: 0, nextRevision: nil))
  private static let page = ServerAPIContents.purchases(
    SignedPurchases(bundleID: "a", parts: [], signatures: 0, nextRevision: "r"))

  private static let noOrder = ServerAPIOutcome.answer(.order([]), answeredAt: nil)
  private static let answer = ServerAPIOutcome.answer(empty, answeredAt: nil)
  private static let morePages = ServerAPIOutcome.answer(page, answeredAt: nil)
  private static let notFound = ServerAPIOutcome.error(httpStatus: 404, .transactionIDNotFound)
  private static let unauthorized = ServerAPIOutcome.http(401, errorCode: nil, retryAfter: nil)
  private static let trouble = ServerAPIOutcome.http(500, errorCode: nil, retryAfter: nil)

  /// Steps as text, with the call that follows: `pa S` is production, app `a`, statuses.
  private func walk(
    _ outcomes: [ServerAPIOutcome], apps: [BundleID] = ["a"], stores: [StoreEnvironment] = [.production, .sandbox],
    endpoints: [ServerAPIEndpoint] = [.statuses, .history]
  ) throws -> String {
    var route = try #require(
      ServerAPIRoute(stores: stores, bundleIDs: apps, endpoints: endpoints, retry: RetryPolicy()))
    func call() -> String {
      (route.place.environment == .production ? "p" : "s") + route.place.bundleID.rawValue
        + ([.statuses: " S", .history: " H", .transaction: " T", .order: " O"][route.endpoint] ?? "")
    }
    var words = [call()]
    for outcome in outcomes {
      switch route.next(after: outcome) {
      case .conclude: words.append("conclude")
      case .ask: words.append(call())
      case .renewToken: words.append("renew")
      case .retry: words.append("retry")
      case .fail(let error): words.append(Self.word(error))
      }
    }
    return words.joined(separator: ", ")
  }

  private static func word(_ error: AppStoreError) -> String {
    switch error {
    case .notFound: "not found"
    case .keyRejected: "key rejected"
    case .unavailable: "unavailable"
    case .unexpected: "unexpected"
    case .wrongApp: "wrong app"
    case .invalidAnswer: "invalid"
    case .notAuthentic, .doubtful, .sharedSecretRejected: "an error of verifyReceipt"
    case .overloaded: "overloaded"
    case .cancelled: "cancelled"
    }
  }

  @Test func `places are gone through until one knows the transaction`() throws {
    let no = Self.notFound
    #expect(try walk([Self.answer, Self.answer]) == "pa S, pa H, conclude")
    #expect(try walk([Self.answer, Self.morePages, Self.answer]) == "pa S, pa H, pa H, conclude")
    #expect(try walk([Self.answer, no]) == "pa S, pa H, conclude")
    #expect(try walk([no, Self.answer]) == "pa S, pa H, conclude")
    #expect(try walk([no, no, Self.answer, no]) == "pa S, pa H, sa S, sa H, conclude")
    #expect(try walk([no, no, no, no]) == "pa S, pa H, sa S, sa H, not found")
    #expect(
      try walk([no, no, no, no], apps: ["a", "b"], endpoints: [.statuses]) == "pa S, pb S, sa S, sb S, not found")
    #expect(try walk([no], stores: [.sandbox], endpoints: [.transaction]) == "sa T, not found")
    #expect(
      try walk([Self.noOrder, Self.noOrder], apps: ["a", "b"], stores: [.production], endpoints: [.order])
        == "pa O, pb O, not found")
  }

  @Test func `a key that is refused is renewed once for each app, and no place is taken for one that knows nothing`()
    throws
  {
    let refused = Self.unauthorized
    #expect(try walk([refused, Self.answer], endpoints: [.statuses]) == "pa S, renew, conclude")
    #expect(
      try walk([refused, refused, refused], endpoints: [.statuses]) == "pa S, renew, sa S, key rejected")
    #expect(
      try walk([refused, refused, Self.answer], endpoints: [.statuses]) == "pa S, renew, sa S, conclude")
    #expect(
      try walk([refused, refused, Self.notFound], endpoints: [.statuses]) == "pa S, renew, sa S, key rejected")
    #expect(
      try walk([Self.notFound, refused, refused], endpoints: [.statuses]) == "pa S, sa S, renew, key rejected")
    #expect(
      try walk([refused, refused, refused, refused], apps: ["a", "b"], stores: [.production], endpoints: [.statuses])
        == "pa S, renew, pb S, renew, key rejected")
    // Half of what was asked for is not an answer.
    #expect(try walk([Self.answer, refused, refused]) == "pa S, pa H, renew, key rejected")
  }

  @Test func `each call has its own attempts`() throws {
    #expect(
      try walk([Self.trouble, Self.trouble, Self.notFound, Self.trouble, Self.trouble, Self.trouble])
        == "pa S, retry, retry, pa H, retry, retry, unavailable")
    #expect(
      try walk([Self.answer, Self.trouble, Self.trouble, Self.morePages, Self.trouble, Self.trouble, Self.answer])
        == "pa S, pa H, retry, retry, pa H, retry, retry, conclude")
  }

  @Test func `trouble of one store never leads to the other`() throws {
    let troubles: [ServerAPIOutcome] = [
      Self.trouble, .http(404, errorCode: nil, retryAfter: nil), .malformed(.syntax), .noAnswer(.connect),
      .error(httpStatus: 404, .originalTransactionIDNotFoundRetryable),
    ]
    for outcome in troubles {
      #expect(
        try walk([outcome, outcome, outcome], endpoints: [.statuses]) == "pa S, retry, retry, unavailable")
    }
    let final: [(ServerAPIOutcome, String)] = [
      (.rateLimited(errorCode: nil, retryAfter: .seconds(1)), "unavailable"),
      (.refused(.invalidAnswer("x")), "invalid"), (.refused(.wrongApp("x")), "wrong app"),
      (.error(httpStatus: 403, ServerAPIErrorCode(rawValue: 4_030_000)), "unexpected"),
      (.noAnswer(.timedOut), "unavailable"), (.noAnswer(.overloaded), "overloaded"),
      (.noAnswer(.cancelled), "cancelled"),
    ]
    for (outcome, word) in final {
      #expect(try walk([outcome], endpoints: [.statuses]) == "pa S, \(word)")
    }
  }

  @Test func `a route without a place or a question does not exist`() {
    #expect(ServerAPIRoute(stores: [], bundleIDs: ["a"], endpoints: [.statuses], retry: RetryPolicy()) == nil)
    #expect(ServerAPIRoute(stores: [.sandbox], bundleIDs: [], endpoints: [.statuses], retry: RetryPolicy()) == nil)
    #expect(ServerAPIRoute(stores: [.sandbox], bundleIDs: ["a"], endpoints: [], retry: RetryPolicy()) == nil)
  }

  @Test(arguments: [
    (4_000_006, ServerAPIErrorCode.Meaning.notFound), (4_000_008, .notFound), (4_040_001, .notFound),
    (4_040_002, .temporary), (4_040_003, .notFound), (4_040_004, .temporary), (4_040_005, .notFound),
    (4_040_006, .temporary), (4_040_010, .notFound), (4_040_007, .unknown), (4_000_007, .unknown),
  ])
  func `each code has Apple's meaning`(_ code: Int, _ meaning: ServerAPIErrorCode.Meaning) {
    #expect(ServerAPIErrorCode(rawValue: code).meaning == meaning)
  }
}
