import Synchronization

/// A receiver of webhooks on this machine, over plain HTTP: it notes what comes and answers as a test says.
package final class WebhookReceiver: Sendable {
  /// The answers to the next requests.
  package typealias Answer = @Sendable (TestRequest) -> TestAnswer?

  struct State {
    var requests: [TestRequest] = []
    var answer: Answer = { _ in TestAnswer(status: 200) }
  }

  /// Guards what came, and the answer.
  private let state = Mutex(State())
  private let boundPort = Mutex(0)

  /// Where it is, without a path.
  package var url: String { "http://127.0.0.1:\(port)" }
  package var port: Int { boundPort.withLock { $0 } }

  /// The requests that came, in their order, whatever was answered.
  package var requests: [TestRequest] { state.withLock { $0.requests } }

  /// From now on. Where there is no answer, the connection stays open until the sender closes it.
  package func answer(_ answer: @escaping Answer) { state.withLock { $0.answer = answer } }
  package func answer(_ status: Int) { answer { _ in TestAnswer(status: status) } }

  /// Starts a receiver that answers 200, runs `body`, and stops it.
  package static func running<Result: Sendable>(
    during body: @Sendable (WebhookReceiver) async throws -> Result
  ) async throws -> Result {
    let receiver = WebhookReceiver()
    return try await RawTLSServer.running(identity: nil) { connection in
      while let request = await connection.readRequest() {
        let answer = receiver.state.withLock { state in
          state.requests.append(request)
          return state.answer
        }
        guard let answer = answer(request) else { return await connection.waitForClose() }
        try await connection.write(answer)
      }
    } during: { server in
      receiver.boundPort.withLock { $0 = server.port }
      return try await body(receiver)
    }
  }
}
