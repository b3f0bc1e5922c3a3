import Hummingbird
import NIOCore
import NIOPosix
import Testing

@testable import CountersignServer

@Suite(.timeLimit(.minutes(10))) struct TaskPerRequestTests {
  private struct Responder: HTTPResponder {
    var answer: @Sendable () async throws -> Response

    func respond(to request: Request, context: Void) async throws -> Response { try await answer() }
  }

  private struct Refusal: Error {}

  private func respond(_ answer: @escaping @Sendable () async throws -> Response) async throws -> Response {
    let request = Request(
      head: .init(method: .get, scheme: nil, authority: nil, path: "/"), body: RequestBody(buffer: ByteBuffer()))
    return try await TaskPerRequest(Responder(answer: answer)).respond(to: request, context: ())
  }

  private static var task: Int? { withUnsafeCurrentTask { $0?.hashValue } }

  @Test func `a request is not answered in its connection's task, and yet on its thread`() async throws {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let connection = Self.task
    try await withTaskExecutorPreference(LoopExecutor(loop)) {
      let response = try await respond {
        #expect(Self.task != nil)
        #expect(Self.task != connection)
        #expect(loop.inEventLoop)
        return Response(status: .accepted)
      }
      #expect(response.status == .accepted)
      #expect(Self.task == connection)
      #expect(loop.inEventLoop)
    }
  }

  @Test func `an error is the caller's`() async {
    await #expect(throws: Refusal.self) { try await respond { throw Refusal() } }
  }

  @Test func `a request ends with its connection`() async throws {
    let begun = AsyncStream.makeStream(of: Void.self)
    let never = AsyncStream.makeStream(of: Void.self)
    defer { never.continuation.finish() }
    let connection = Task {
      try await respond {
        begun.continuation.yield()
        // Ends by cancellation alone.
        for await _ in never.stream {}
        try Task.checkCancellation()
        return Response(status: .ok)
      }
    }
    for await _ in begun.stream.prefix(1) {}
    connection.cancel()
    await #expect(throws: CancellationError.self) { try await connection.value }
  }
}
