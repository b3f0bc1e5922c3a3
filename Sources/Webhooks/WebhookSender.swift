package import HTTPTransport

/// A message to a receiver.
package struct WebhookMessage: Hashable, Sendable {
  /// The event's ID, the same at each attempt.
  package var id: String
  package var body: [UInt8]

  package init(id: String, body: [UInt8]) {
    self.id = id
    self.body = body
  }
}

/// The result of an attempt to deliver.
package enum WebhookOutcome: Hashable, Sendable {
  /// Any status of 2xx.
  case delivered
  /// Not accepted, or without an answer.
  ///
  /// - Parameters:
  ///   - problem: a code for people: `http_500`, `timed_out`.
  ///   - retryAfter: when the receiver wants it again.
  case failed(problem: String, retryAfter: Duration?)
  /// 410: nothing more is delivered to the receiver.
  case gone
}

/// Sends messages: the port between the job that delivers and the network.
package protocol WebhookSender: Sendable {
  /// - Parameter timestamp: seconds since 1970, of this attempt.
  func send(_ message: WebhookMessage, to endpoint: WebhookEndpoint, at timestamp: Int64) async -> WebhookOutcome
}

/// Sends messages by HTTP, signed by each secret of their receiver.
///
/// Redirects are not followed. A receiver that is not marked as private must have a public address.
package struct HTTPWebhookSender: WebhookSender {
  /// The time of one attempt: Standard Webhooks, section "Request timeouts".
  package static let deadline: Duration = .seconds(20)
  /// The most bytes of an answer's body, which is not read; a longer one costs the connection.
  static let answerLimit = 256 * 1024

  /// The transport for public addresses, over TLS.
  private let transport: any Transport
  /// The transport for receivers that may be anywhere.
  private let privateTransport: any Transport
  private let keyring: WebhookKeyring

  package init(transport: any Transport, privateTransport: any Transport, keyring: WebhookKeyring) {
    self.transport = transport
    self.privateTransport = privateTransport
    self.keyring = keyring
  }

  package func send(
    _ message: WebhookMessage, to endpoint: WebhookEndpoint, at timestamp: Int64
  ) async -> WebhookOutcome {
    var headers = [TransportHeader("Content-Type", "application/json")]
    // Apple's notifications are signed by Apple.
    if endpoint.format != .appStore {
      guard
        let proof = WebhookHeaders(
          id: message.id, timestamp: timestamp, body: message.body, secrets: keyring.secrets(of: endpoint))
      else { return .failed(problem: "not_signed", retryAfter: nil) }
      headers += [
        TransportHeader("webhook-id", proof.id), TransportHeader("webhook-timestamp", String(proof.timestamp)),
        TransportHeader("webhook-signature", proof.signature),
      ]
    }
    var request = TransportRequest(
      method: .post, url: endpoint.url, headers: headers, body: message.body, responseBodyLimit: Self.answerLimit)
    request.readsBody = false
    do throws(TransportError) {
      let answer = try await (endpoint.isPrivate ? privateTransport : transport)
        .send(request, deadline: .now.advanced(by: Self.deadline))
      let outcome = Self.outcome(of: answer, at: timestamp)
      // To Apple, 410 is a failure like others.
      return outcome == .gone && endpoint.format == .appStore ? .failed(problem: "http_410", retryAfter: nil) : outcome
    } catch { return .failed(problem: Self.problem(error), retryAfter: nil) }
  }

  private static func outcome(of answer: TransportResponse, at now: Int64) -> WebhookOutcome {
    switch answer.status {
    case 200...299: .delivered
    case 410: .gone
    default: .failed(problem: "http_\(answer.status)", retryAfter: answer.retryAfter(at: now))
    }
  }

  private static func problem(_ error: TransportError) -> String {
    switch error {
    case .privateAddress: "private_address"
    case .invalidRequest: "invalid_request"
    case .resolve: "resolve"
    case .connect: "connect"
    case .tls: "tls"
    case .timedOut: "timed_out"
    case .tooLarge: "too_large"
    case .reset: "reset"
    case .protocolViolation: "protocol"
    case .overloaded: "overloaded"
    case .cancelled, .shutDown: "cancelled"
    case .other: "other"
    }
  }
}
