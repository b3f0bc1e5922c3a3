/// Something that happens once and can be waited for, before or after.
package final class Event: Sendable {
  private let stream: AsyncStream<Void>
  private let end: AsyncStream<Void>.Continuation

  package init() { (stream, end) = AsyncStream<Void>.makeStream() }

  package func fire() { end.finish() }

  package func wait() async { for await _ in stream {} }
}
