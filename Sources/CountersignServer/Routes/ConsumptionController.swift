import CountersignAPI
import Entitlements
import Hummingbird
import Ledger

import struct FoundationEssentials.Date

/// `/v1/purchases/{transaction_id}/consumption`: the word of the app's backend on a transaction for Apple's decision on a refund,
/// and Apple's request.
struct ConsumptionController: Controller {
  var ledger: Ledger
  var body = JSONRequestBody(limit: BodyBudgets.runLimit)
  var budget: ByteBudget
  var now: @Sendable () -> Date

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/purchases/{transaction_id}/consumption", [.get: read, .put: say])
  }

  func read(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    let id = try context.transactionIDInPath()
    let environment = try Self.environment(request.parameter("environment"))
    guard let record = try await context.reading(await ledger.consumptionRecord(of: id, in: environment)) else {
      throw Problem(.notFound, "Nothing was said of this transaction, and Apple has not asked about it.")
    }
    return JSONBody.uncached(ConsumptionResponse(id, environment, record))
  }

  func say(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service)
    let id = try context.transactionIDInPath()
    let posted = try await body.decode(ExactBody<ConsumptionBody>.self, from: request, budget.loan()).value
      .value(of: ConsumptionBody.CodingKeys.self)
    let environment = try Self.environment(posted.environment)
    let information = ConsumptionInformation(
      customerConsented: posted.customerConsented, consumptionPercentage: posted.consumptionPercentage,
      deliveryStatus: try Self.word(posted.deliveryStatus, named: "delivery_status"),
      refundPreference: try Self.word(posted.refundPreference, named: "refund_preference"),
      sampleContentProvided: posted.sampleContentProvided)
    if let contradiction = information.contradiction { throw Problem(.malformedRequest, contradiction) }
    let record = try await context.reading(await ledger.say(information, of: id, in: environment, at: now()))
    return JSONBody.uncached(ConsumptionResponse(id, environment, record))
  }

  private static func environment(_ text: String?) throws(Problem) -> StoreEnvironment {
    try word(text, named: "environment") ?? .production
  }

  private static func word<Word: RawRepresentable<String> & CaseIterable>(
    _ text: String?, named name: String
  ) throws(Problem) -> Word? {
    guard let text else { return nil }
    guard let word = Word(rawValue: text) else {
      let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
      throw Problem(.malformedRequest, "'\(name)' has to be one of \(words).")
    }
    return word
  }
}

extension ConsumptionResponse {
  init(_ id: TransactionID, _ environment: StoreEnvironment, _ record: ConsumptionRecord) {
    self.init(
      transactionID: id.rawValue,
      said: record.said.map { said in
        ConsumptionBody(
          customerConsented: said.customerConsented, consumptionPercentage: said.consumptionPercentage,
          deliveryStatus: said.deliveryStatus?.rawValue, refundPreference: said.refundPreference?.rawValue,
          sampleContentProvided: said.sampleContentProvided, environment: environment.rawValue)
      },
      request: record.request.map { request in
        Request(
          state: request.state.rawValue, askedAt: request.askedAt, answerBy: request.answerBy,
          closedAt: request.closedAt, problem: request.problem)
      })
  }
}
