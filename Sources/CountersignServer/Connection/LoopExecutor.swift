package import HummingbirdCore
package import Logging
package import NIOCore
import Resilience
package import ServiceLifecycle

/// Runs tasks on the thread of an event loop.
///
/// By default a request is handled on Swift's own threads, and waits there behind all that others do: a read took 32 ms or
/// more at the median while large answers were decoded. On the loop's thread it takes 2 to 7 ms.
///
/// Long work does not belong here: every other connection of the loop waits meanwhile.
package final class LoopExecutor: TaskExecutor {
  private let loop: any EventLoop

  package init(_ loop: any EventLoop) { self.loop = loop }

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}

/// Runs a service on Swift's own threads, whatever thread its runner is on.
package struct OnSharedThreads: Service, CustomStringConvertible {
  var base: any Service

  package init(base: any Service) {
    self.base = base
  }

  /// The name for the log, which would otherwise print the whole value.
  package var description: String { "\(type(of: base))" }

  package func run() async throws {
    try await withTaskExecutorPreference(globalConcurrentExecutor) { try await base.run() }
  }
}

/// A server's connections, each handled on its own event loop's thread.
package struct LoopBoundChannel<Base: ServerChildChannel>: ServerChildChannel {
  package var base: Base

  package init(base: Base) {
    self.base = base
  }

  package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
    base.setup(channel: channel, logger: logger)
  }

  package func handle(value: Base.Value, logger: Logger) async {
    let executor = LoopExecutor(value.channel.eventLoop)
    await withTaskExecutorPreference(executor) {
      await PreferredExecutor.$current.withValue(executor) { await base.handle(value: value, logger: logger) }
    }
  }
}
