import CountersignAPI
import HTTPTypes
import Hummingbird
import Ledger
import Logging
import Validation

import struct FoundationEssentials.Date

/// `/v1/revalidations`: runs over subscriptions whose state ends soon, for cron jobs.
///
/// There is one run at a time. A POST while one is under way is answered 200 with that one: a job that starts twice, or
/// whose connection ended before the answer, finds its run and doubles no work. So does one that repeats its
/// `Idempotency-Key`, also after the run has ended.
package struct RevalidationsController: Controller {
  var ledger: Ledger
  var progress: RunProgress
  var body = JSONRequestBody(limit: BodyBudgets.runLimit)
  var budget: ByteBudget
  var now: @Sendable () -> Date

  package static let expiringWithin: ClosedRange<Duration> = .zero ... .seconds(366 * 86_400)
  /// The most subscriptions of one run; also where no limit is given.
  package static let limit = 1...100_000

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/revalidations", [.get: list, .post: start])
    routes.serve("/v1/revalidations/{run_id}", [.get: run])
  }

  func start(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service)
    let key = try request.headers.idempotencyKey()
    let posted = try await body.decode(ExactBody<RunRequest>.self, from: request, budget.loan()).value
      .value(of: RunRequest.CodingKeys.self)
    let order = try posted.order()
    if posted.isDryRun == true {
      let due = try await context.reading(await ledger.countDue(order, at: now()))
      return JSONBody.response(RunReport(counting: due, order))
    }
    let start = try await context.reading(await ledger.startRun(order, key: key, at: now()))
    switch start {
    case .started(let run):
      context.logger.notice("a re-validation run began", metadata: run.metadata)
      return response(run, status: .accepted)
    case .known(let run): return response(run, status: .ok)
    case .mismatch:
      throw Problem(.idempotencyMismatch, "This 'Idempotency-Key' was used for a run with other members.")
    }
  }

  /// The runs of an answer.
  static let listed = 20

  func list(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    let runs = try await context.reading(await ledger.runs(limit: Self.listed))
    return JSONBody.uncached(RunsResponse(runs: runs.map { RunReport($0, progress) }))
  }

  func run(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    guard let id = context.number("run_id"), let run = try await context.reading(await ledger.run(RunID(id))) else {
      throw Self.unknown
    }
    return JSONBody.uncached(RunReport(run, progress))
  }

  private static let unknown = Problem(.notFound, "There is no such run; the last 100 are kept.")

  private func response(_ run: Run, status: HTTPResponse.Status) -> Response {
    var response = JSONBody.response(RunReport(run, progress), status: status)
    response.headers[.location] = "/v1/revalidations/\(run.id)"
    return response
  }
}
