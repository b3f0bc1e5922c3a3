import HTTPTransport

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

  enum Failure: Error, Hashable, Sendable {
    /// It may pass.
    case away(String, retryAfter: Duration?)
    /// It will not, for instance a name that does not exist.
    case unreachable(String)
    case refusedCredential(String)
    /// The service takes no such request.
    case refused(String)
    case noSuchRun
    case cancelled
  }

  var transport: any Transport
  /// Without a slash at its end.
  var url: String
  var key: String
  /// Names this wish, so that asking again for it starts nothing new.
  var idempotencyKey: String

  static let deadline: Duration = .seconds(20)
  private static let answerLimit = 64 * 1024

  /// - Returns: the run, and whether it is one that was under way or known before.
  func start(_ order: Order) async throws(Failure) -> (report: RunReport, isKnown: Bool) {
    let response = try await send(
      .post, "/v1/revalidations", body: order.json,
      headers: [
        TransportHeader("Content-Type", "application/json"), TransportHeader("Idempotency-Key", idempotencyKey),
      ])
    let report = try await report(response)
    return (report, response.status == 200 && !order.isDryRun)
  }

  func report(of run: String) async throws(Failure) -> RunReport {
    try await report(try await send(.get, "/v1/revalidations/\(run)"))
  }

  private func send(
    _ method: TransportRequest.Method, _ path: String, body: String = "", headers: [TransportHeader] = []
  ) async throws(Failure) -> TransportResponse {
    let request = TransportRequest(
      method: method, url: url + path, headers: headers + [TransportHeader("Authorization", "Bearer \(key)")],
      body: Array(body.utf8), responseBodyLimit: Self.answerLimit)
    do throws(TransportError) {
      return try await transport.send(request, deadline: .now.advanced(by: Self.deadline))
    } catch {
      switch error {
      case .connect: throw .away("the connection is refused", retryAfter: nil)
      case .timedOut: throw .away("no answer in \(Self.deadline.components.seconds) s", retryAfter: nil)
      case .reset, .other, .overloaded, .protocolViolation:
        throw .away("the connection ended early", retryAfter: nil)
      case .resolve: throw .unreachable("the name of the host cannot be found")
      case .tls(let reason): throw .unreachable("TLS fails: \(reason)")
      case .invalidRequest(let reason): throw .unreachable(reason)
      case .tooLarge: throw .unreachable("the answer is too large to be a run's")
      case .cancelled, .shutDown: throw .cancelled
      }
    }
  }

  private func report(_ response: TransportResponse) async throws(Failure) -> RunReport {
    switch response.status {
    case 200, 202:
      do throws(JSONReader.Failure) { return try await RunReport(body: response.body) } catch {
        switch error {
        case .json: throw .unreachable("the answer is not a run; is it Countersign that listens there?")
        case .cancelled: throw .cancelled
        }
      }
    case 401: throw .refusedCredential("the service does not know this key")
    case 403: throw .refusedCredential("the key has to be one of the role 'service'")
    case 404: throw .noSuchRun
    case 429, 500...599:
      let seconds = response.header("Retry-After").flatMap { Int($0) }.map { min(max($0, 1), 60) }
      throw .away("the service answers \(response.status)", retryAfter: seconds.map { .seconds($0) })
    case 400...499: throw .refused(await Self.detail(response))
    default: throw .unreachable("the service answers \(response.status); is it Countersign that listens there?")
    }
  }

  /// The sentence of a problem, if it is one.
  private static func detail(_ response: TransportResponse) async -> String {
    let detail = try? await JSONReader.shared.read(response.body) { value throws(JSONError) -> String? in
      guard case .string(let text)? = value["detail"]?.kind else { return nil }
      return text
    }
    guard let detail = detail ?? nil else { return "the service answers \(response.status)" }
    return String(String.UnicodeScalarView(detail.unicodeScalars.filter { (" "..."~").contains($0) }.prefix(300)))
  }
}
