import CountersignAPI
import FoundationEssentials
import HTTPTransport

/// Talks to a running service about runs.
struct RunClient: Sendable {
  typealias Failure = ServiceClient.Failure

  var service: ServiceClient
  /// Names this wish, so that asking again for it starts nothing new.
  var idempotencyKey: String

  private static let role = "'service'"

  /// - Returns: the run, and whether it is one that was under way or known before.
  func start(_ order: RunRequest) async throws(Failure) -> (report: ReceivedRun, isKnown: Bool) {
    let body: String? = (try? JSONEncoder.countersign.encode(order)).map { String(decoding: $0, as: UTF8.self) }
    let response = try await service.send(
      .post, "/v1/revalidations", body: body ?? "",
      headers: [
        TransportHeader("Content-Type", "application/json"), TransportHeader("Idempotency-Key", idempotencyKey),
      ], role: Self.role)
    let report = try report(response)
    return (report, response.status == 200 && order.isDryRun != true)
  }

  func report(of run: String) async throws(Failure) -> ReceivedRun {
    try report(try await service.send(.get, "/v1/revalidations/\(run)", role: Self.role))
  }

  private func report(_ response: TransportResponse) throws(Failure) -> ReceivedRun {
    guard let run = ReceivedRun(body: response.body) else {
      throw .unreachable("the answer is not a run; is it Countersign that listens there?")
    }
    return run
  }
}
