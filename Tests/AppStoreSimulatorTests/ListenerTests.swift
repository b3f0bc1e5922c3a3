import Glibc
import Hummingbird
import Logging
import Testing

@testable import AppStoreSimulator

@Suite struct ListenerTests {
  /// NIO stops the process for a connection that becomes active after its server: https://github.com/apple/swift-nio/issues/2813
  @Test func `a listener closes while connections come`() async throws {
    for _ in 0..<200 {
      let connections = ConnectionRegistry()
      let listener = try await Listener.open(
        host: "127.0.0.1", port: 0, tls: nil, clock: SimulatedClock(), logger: Logger(label: "closing")
      ) { _, _ in .init(status: .ok) }
      let clients = try (0..<20).map { _ in try Self.connection(to: listener.port) }
      await listener.close(connections)
      clients.forEach { _ = close($0) }
    }
  }

  /// A socket whose connection begins, and need not be accepted yet.
  private static func connection(to port: Int) throws -> Int32 {
    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    try #require(client >= 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(UInt16(port).bigEndian)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    let length = socklen_t(MemoryLayout<sockaddr_in>.size)
    _ = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(client, $0, length) }
    }
    return client
  }
}
