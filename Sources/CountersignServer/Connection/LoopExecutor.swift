package import NIOCore

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
