import CountersignAPI
import Foundation

/// Requests to the service in the name of one user.
struct Service: Sendable {
  let baseURL: URL
  let user: String
  let token: @Sendable () async throws -> String
  /// For a token, in seconds.
  let tokenDeadline: TimeInterval
  let isSignedOut: Locked<Bool>
  let transport: any Transport
  let now: @Sendable () -> Date
  let log: (@Sendable (LogEntry) -> Void)?
  /// The last answers, the newest at the end.
  let answers = Locked<[Diagnosis.Answer]>([])

  /// The answer, whatever its status but 401. Throws where there is none.
  ///
  /// After a 401 the app is asked for its token once more: it may have expired on the way.
  func send(
    _ method: String, _ path: String, headers: [String: String] = [:], body: (any Encodable & Sendable)? = nil,
    isOpen: Bool = false
  ) async throws -> TransportResponse {
    guard let url = URL(string: baseURL.absoluteString.trimmingSuffix("/") + path) else {
      throw CountersignError.refused(code: "bad_url", detail: "The base URL and the path make no URL.")
    }
    var request = TransportRequest(method: method, url: url, headers: headers)
    request.headers["Accept"] = "application/json"
    request.headers["Countersign-Client"] = "swift/\(CountersignClient.version)"
    if let body {
      request.headers["Content-Type"] = "application/json"
      request.body = try? JSONEncoder.countersign.encode(body)
    }
    var refusal: ProblemDocument?
    for _ in 0..<2 {
      if !isOpen { request.headers["Authorization"] = "Bearer \(try await bearer())" }
      let response = try? await transport.send(request)
      note("\(method) \(path)", response)
      guard let response else { throw CountersignError.later(retryAfter: nil) }
      if response.status != 401 { return response }
      refusal = response.problem
    }
    // Anybody on the way may answer 401, and knows nothing of the user.
    throw refusal?.code == "unauthenticated" ? CountersignError.signedOut : .later(retryAfter: nil)
  }

  private func note(_ request: String, _ response: TransportResponse?) {
    let problem = response.flatMap { $0.status >= 400 ? $0.problem : nil }
    let answer = Diagnosis.Answer(
      at: now(), request: request, status: response?.status, code: problem?.code,
      requestID: response?.headers["x-request-id"] ?? problem?.requestID)
    answers.withLock { $0 = $0.suffix(Self.notedAnswers - 1) + [answer] }
    log?(
      LogEntry(
        level: response == nil ? .warning : .debug,
        message: response == nil ? "request without an answer" : "request answered",
        metadata: [
          "request": request, "status": response.map { "\($0.status)" } ?? "", "code": problem?.code ?? "",
          "request_id": answer.requestID ?? "",
        ].filter { !$0.value.isEmpty }))
  }

  /// The number of answers that `diagnose()` tells.
  private static let notedAnswers = 10

  private func bearer() async throws -> String {
    do {
      let bearer = try await inTime(token)
      // The app's session may have changed hands: what is sent now would become another user's.
      if isSignedOut.withLock({ $0 }) { throw CountersignError.signedOut }
      if let owner = AccessToken.subject(of: bearer), !AccessToken.isSame(owner, user) {
        throw CountersignError.signedOut
      }
      return bearer
    } catch {
      // An identity provider that is away has signed nobody out.
      throw error as? CountersignError ?? .later(retryAfter: nil)
    }
  }

  /// The value of a closure of the app's. One that never returns must not hold up every request after it. It is left behind: it
  /// need not heed that it was cancelled.
  func inTime<Value: Sendable>(_ closure: @escaping @Sendable () async throws -> Value) async throws -> Value {
    let (answers, answer) = AsyncStream.makeStream(of: Result<Value, any Error>.self)
    let asking = Task {
      do { answer.yield(.success(try await closure())) } catch { answer.yield(.failure(error)) }
    }
    let timer = Task { [tokenDeadline] in
      try await Task.sleep(nanoseconds: UInt64(min(max(tokenDeadline, 0), 86_400) * 1_000_000_000))
      answer.finish()
    }
    defer {
      asking.cancel()
      timer.cancel()
    }
    for await result in answers { return try result.get() }
    throw CountersignError.later(retryAfter: nil)
  }
}

extension TransportResponse {
  /// The body of an answer with one of these statuses. Throws what any other answer means.
  func decoded<Body: Decodable>(_ type: Body.Type, from statuses: Set<Int> = [200], now: Date) throws -> Body {
    // Anything but the service's own answer, such as the page of a café's network, is as good as none.
    guard statuses.contains(status), let body = try? JSONDecoder.countersign.decode(type, from: body) else {
      throw error(now: now)
    }
    return body
  }

  var problem: ProblemDocument? { try? JSONDecoder.countersign.decode(ProblemDocument.self, from: body) }

  private func error(now: Date) -> CountersignError {
    // Only the service's own word is a refusal: a proxy's 4xx is not about the purchase.
    if (400..<500).contains(status), status != 408, status != 429, let problem, !problem.isRetryable {
      return .refused(code: problem.code, detail: problem.detail)
    }
    return .later(retryAfter: retryAfter(now: now))
  }

  /// Seconds, at most a day; the header has them as a number or as a date.
  private func retryAfter(now: Date) -> TimeInterval? {
    guard let text = headers["retry-after"] else { return nil }
    if let seconds = TimeInterval(text), seconds.isFinite { return min(max(seconds, 0), 86_400) }
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = TimeZone(identifier: "GMT")
    formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
    return formatter.date(from: text).map { min(max($0.timeIntervalSince(now), 0), 86_400) }
  }
}

extension String {
  func trimmingSuffix(_ suffix: String) -> String {
    hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
  }

  /// As one part of a path.
  var pathComponent: String {
    let allowed = CharacterSet(charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-")
    return addingPercentEncoding(withAllowedCharacters: allowed) ?? ""
  }
}
