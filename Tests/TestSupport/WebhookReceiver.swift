import NIOCore
import NIOPosix
import Synchronization

/// A receiver of webhooks on this machine, over plain HTTP: it notes what comes and answers as a test says.
package final class WebhookReceiver: Sendable {
  /// The answers to the next requests.
  package typealias Answer = @Sendable (TestRequest) -> TestAnswer?

  struct State {
    var requests: [TestRequest] = []
    var answer: Answer
  }

  /// Guards what came, and the answer.
  private let state: Mutex<State>
  private let listener = Mutex<(any Channel)?>(nil)

  private init(_ answer: @escaping Answer) { state = Mutex(State(answer: answer)) }

  /// Where it is, without a path.
  package var url: String { "http://127.0.0.1:\(listener.withLock { $0?.localAddress?.port ?? 0 })" }
  package var port: Int { listener.withLock { $0?.localAddress?.port ?? 0 } }

  /// The requests that came, in their order, whatever was answered.
  package var requests: [TestRequest] { state.withLock { $0.requests } }

  /// From now on. Where there is no answer, the connection stays open until the sender closes it.
  package func answer(_ answer: @escaping Answer) { state.withLock { $0.answer = answer } }
  package func answer(_ status: Int) { answer { _ in TestAnswer(status: status) } }

  /// Starts a receiver that answers 200, runs `body`, and stops it.
  package static func running<Result: Sendable>(
    during body: @Sendable (WebhookReceiver) async throws -> Result
  ) async throws -> Result {
    let receiver = WebhookReceiver { _ in TestAnswer(status: 200) }
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let (stream, feed) = AsyncStream<[UInt8]>.makeStream()
          try channel.pipeline.syncOperations.addHandler(StreamFeeder(feed))
          receiver.serve(channel, reading: stream)
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    receiver.listener.withLock { $0 = channel }
    do {
      let result = try await body(receiver)
      try await channel.close()
      return result
    } catch {
      try? await channel.close()
      throw error
    }
  }

  private func serve(_ channel: any Channel, reading stream: AsyncStream<[UInt8]>) {
    Task {
      let connection = RawConnection(number: 0, channel: channel, incoming: stream)
      while let request = await connection.readRequest() {
        let answer = state.withLock { state in
          state.requests.append(request)
          return state.answer
        }
        guard let answer = answer(request) else {
          await connection.waitForClose()
          break
        }
        try? await connection.write(answer)
      }
      try? await channel.close()
    }
  }
}
