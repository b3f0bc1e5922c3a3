import NIOCore
import NIOPosix

/// A connection to the service on which a test says what it likes, byte by byte.
struct RawClient {
  /// Opens a connection, sends `parts` one after the other, and reads until the service closes the connection.
  ///
  /// - Returns: everything the service said.
  static func exchange(port: Int, _ parts: [String]) async throws -> String {
    let channel = try await connect(port: port)
    return try await channel.executeThenClose { inbound, outbound in
      // The service may have closed the connection by now, which is what some tests wait for.
      for part in parts where !part.isEmpty { try? await outbound.write(ByteBuffer(string: part)) }
      return try await Self.read(inbound)
    }
  }

  /// Opens a connection and says nothing more than `first`; returns what came until the service closed it.
  static func connect(port: Int) async throws -> NIOAsyncChannel<ByteBuffer, ByteBuffer> {
    try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connect(host: "127.0.0.1", port: port) { channel in
        channel.eventLoop.makeCompletedFuture { try NIOAsyncChannel(wrappingChannelSynchronously: channel) }
      }
  }

  static func read(_ inbound: NIOAsyncChannelInboundStream<ByteBuffer>) async throws -> String {
    var text = ""
    do {
      for try await part in inbound { text += String(buffer: part) }
    } catch is IOError, is ChannelError {
      // A reset ends the reading as a close does; what was said before it counts.
    }
    return text
  }
}
