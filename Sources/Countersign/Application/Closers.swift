import ServiceLifecycle

/// Closes what a start has opened, the last first: when a later step of it fails, and when the service stops.
struct Closers: Service {
  private var closers: [@Sendable () async -> Void] = []

  mutating func add(_ close: @escaping @Sendable () async -> Void) { closers.append(close) }

  func close() async {
    for close in closers.reversed() { await close() }
  }

  func run() async throws {
    try? await gracefulShutdown()
    await close()
  }
}
