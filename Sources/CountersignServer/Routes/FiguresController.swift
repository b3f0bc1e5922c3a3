import Access
import CountersignAPI
import Entitlements
import Figures
import FoundationEssentials
import Hummingbird
import Ledger

/// `/v1/figures`: how many pay, and how much.
struct FiguresController: Controller {
  var ledger: Ledger
  var rates: @Sendable () -> ExchangeRates?
  var now: @Sendable () -> Date

  /// The days of a span that is not named.
  static let usual = 30

  func addRoutes(to routes: Routes) { routes.serve("/v1/figures", [.get: figures]) }

  func figures(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    let span = try span(of: request)
    let report = try await context.reading(await ledger.readLong(ReadFigures(over: span)))
    return JSONBody.response(FiguresResponse(report, rates()))
  }

  private func span(of request: Request) throws(Problem) -> FigureSpan {
    let today = now().utcDay
    let last = try request.day("to") ?? today
    guard last <= today else { throw Problem(.malformedRequest, "'to' lies in the future.") }
    let first = try request.day("from") ?? last - (Self.usual - 1)
    guard first <= last else { throw Problem(.malformedRequest, "'from' is later than 'to'.") }
    guard let grain = FigureGrain(rawValue: try request.parameter("interval") ?? FigureGrain.day.rawValue) else {
      throw Problem(.malformedRequest, "'interval' has to be day or month.")
    }
    let limit = FigureSpan.limit(grain)
    guard last - first < limit else {
      throw Problem(.malformedRequest, "By \(grain.rawValue), at most \(limit) days are answered, 'to' included.")
    }
    let product = try request.parameter("product_id")
    guard product?.isEmpty != true else { throw Problem(.malformedRequest, "'product_id' is empty.") }
    return FigureSpan(days: first..<last + 1, grain: grain, product: product)
  }
}

extension Request {
  /// A day in the query, as days since 1970.
  /// - Throws: a 400 problem.
  func day(_ name: Substring) throws(Problem) -> Int? {
    guard let text = try parameter(name) else { return nil }
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    guard parts.map(\.utf8.count) == [4, 2, 2], parts.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }),
      let year = Int(parts[0]), let month = Int(parts[1]), let day = Int(parts[2]),
      let date = CalendarDay(year: year, month: month, day: day)
    else { throw Problem(.malformedRequest, "'\(name)' has to be a day, such as 2026-01-31.") }
    return date.daysSince1970
  }
}
