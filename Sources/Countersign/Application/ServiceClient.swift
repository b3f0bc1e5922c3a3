import CountersignAPI
import FoundationEssentials
import HTTPTransport
import Resilience

/// Talks to a running service, with an API key.
struct ServiceClient: Sendable {
  enum Failure: Error, Hashable, Sendable {
    /// A failure that may pass.
    case away(String, retryAfter: Duration?)
    /// A failure that will not pass, for instance a name that does not exist.
    case unreachable(String)
    case refusedCredential(String)
    /// The service takes no such request.
    case refused(String)
    /// The server has nothing at this path.
    case notFound
    case cancelled
  }

  var transport: any Transport
  /// Without a slash at its end.
  var url: String
  var key: String

  static let deadline: Duration = .seconds(20)
  static let answerLimit = 64 * 1024

  /// - Parameter answerLimit: the most bytes of an answer.
  /// - Returns: an answer of 200, 201 or 202; every other is a failure.
  func send(
    _ method: TransportRequest.Method, _ path: String, body: String = "", headers: [TransportHeader] = [],
    answerLimit: Int = ServiceClient.answerLimit
  ) async throws(Failure) -> TransportResponse {
    let request = TransportRequest(
      method: method, url: url + path, headers: headers + [TransportHeader("Authorization", "Bearer \(key)")],
      body: Array(body.utf8), responseBodyLimit: answerLimit)
    let response: TransportResponse
    do throws(TransportError) {
      response = try await transport.send(request, deadline: .now.advanced(by: Self.deadline))
    } catch { throw Failure(error, deadline: Self.deadline) }
    switch response.status {
    case 200...202: return response
    case 401: throw .refusedCredential("the service does not know this key.")
    case 403: throw .refusedCredential(Self.detail(response))
    case 404: throw .notFound
    case 429, 500...599:
      let pause = response.retryAfter().map { min(max($0, .seconds(1)), .seconds(60)) }
      throw .away("the service answers \(response.status)", retryAfter: pause)
    case 400...499: throw .refused(Self.detail(response))
    default: throw .unreachable("the service answers \(response.status); is it Countersign that listens there?")
    }
  }

  /// Posts a value as JSON.
  func post(
    _ path: String, _ body: some Encodable, headers: [TransportHeader] = []
  ) async throws(Failure) -> TransportResponse {
    guard let json = try? JSONEncoder.countersign.encode(body) else {
      throw .unreachable("the request cannot be written")
    }
    return try await send(
      .post, path, body: String(decoding: json, as: UTF8.self),
      headers: [TransportHeader("Content-Type", "application/json")] + headers)
  }

  /// - Parameter complaint: the reason why an answer that is no such value cannot be used.
  static func decode<Value: Decodable>(_ body: [UInt8], or complaint: String) throws(Failure) -> Value {
    guard let value = try? JSONDecoder.countersign.decode(Value.self, from: Data(body)) else {
      throw .unreachable(complaint)
    }
    return value
  }

  /// The sentence of a problem, if it is one.
  private static func detail(_ response: TransportResponse) -> String {
    guard let problem = try? JSONDecoder().decode(ProblemDocument.self, from: Data(response.body)) else {
      return "the service answers \(response.status)."
    }
    return printable(String(problem.detail.prefix(300)))
  }

  /// The printable ASCII of a text, which is safe to show on a terminal.
  static func printable(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.filter { (" "..."~").contains($0) }))
  }
}

extension ServiceClient.Failure {
  /// The failure that the lack of an answer is.
  init(_ error: TransportError, deadline: Duration, server: String = "Countersign") {
    self =
      switch error {
      case .connect: .away("the connection is refused", retryAfter: nil)
      case .timedOut: .away("no answer in \(deadline.components.seconds) s", retryAfter: nil)
      case .reset, .other, .overloaded, .protocolViolation: .away("the connection ended early", retryAfter: nil)
      case .resolve: .unreachable("the name of the host cannot be found")
      case .tls(let reason): .unreachable("TLS fails: \(reason)")
      case .invalidRequest(let reason): .unreachable(reason)
      case .tooLarge: .unreachable("the answer is too large; is it \(server) that listens there?")
      case .cancelled, .shutDown: .cancelled
      }
  }
}

/// The pauses after failures that may pass.
enum Patience {
  /// For how long one request is tried again.
  static let longest: Duration = .seconds(600)
  fileprivate static let backoff = Backoff(base: .seconds(1), cap: .seconds(15))
}

/// Tries until there is an answer: after 1 s, 2 s, 4 s, … 15 s, or as the other side asks, for ten minutes.
func insistently<Value>(
  sleep: @Sendable (Duration) async throws -> Void, _ operation: () async throws(ServiceClient.Failure) -> Value
) async throws(ServiceClient.Failure) -> Value {
  var failures = 0
  var waited = Duration.zero
  while true {
    do throws(ServiceClient.Failure) { return try await operation() } catch {
      guard case .away(_, let retryAfter) = error else { throw error }
      let pause = retryAfter ?? Patience.backoff.ceiling(after: failures)
      guard waited + pause < Patience.longest else { throw error }
      failures += 1
      waited += pause
      do { try await sleep(pause) } catch { throw .cancelled }
    }
  }
}
