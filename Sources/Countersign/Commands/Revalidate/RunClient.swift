import HTTPTransport
import JSON

/// Talks to a running service about runs.
struct RunClient: Sendable {
  /// What is asked for.
  struct Order: Hashable, Sendable {
    var expiringWithin: String
    var limit: Int?
    var isDryRun: Bool

    /// The values were checked: nothing in them needs an escape.
    var json: String {
      var members = ["\"expiring_within\":\"\(expiringWithin)\""]
      if let limit { members.append("\"limit\":\(limit)") }
      if isDryRun { members.append("\"dry_run\":true") }
      return "{\(members.joined(separator: ","))}"
    }
  }

  typealias Failure = ServiceClient.Failure

  var service: ServiceClient
  /// Names this wish, so that asking again for it starts nothing new.
  var idempotencyKey: String

  private static let role = "'service'"

  /// - Returns: the run, and whether it is one that was under way or known before.
  func start(_ order: Order) async throws(Failure) -> (report: RunReport, isKnown: Bool) {
    let response = try await service.send(
      .post, "/v1/revalidations", body: order.json,
      headers: [
        TransportHeader("Content-Type", "application/json"), TransportHeader("Idempotency-Key", idempotencyKey),
      ], role: Self.role)
    let report = try await report(response)
    return (report, response.status == 200 && !order.isDryRun)
  }

  func report(of run: String) async throws(Failure) -> RunReport {
    try await report(try await service.send(.get, "/v1/revalidations/\(run)", role: Self.role))
  }

  private func report(_ response: TransportResponse) async throws(Failure) -> RunReport {
    do throws(JSONReader.Failure) { return try await RunReport(body: response.body) } catch {
      switch error {
      case .json: throw .unreachable("the answer is not a run; is it Countersign that listens there?")
      case .cancelled: throw .cancelled
      }
    }
  }
}
