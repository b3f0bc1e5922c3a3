package import HummingbirdCore
package import NIOCore

extension ServerSettings {
  /// Connections that are accepted at each turn of the event loop. NIO's own four would take many seconds to accept many
  /// clients where every turn is full of work. They come in before they are counted: few where few may be held.
  package var acceptedAtOnce: Int { min(256, max(1, maxConnections / 32)) }

  /// Connections are bounded in every direction by `ConnectionGuard`; headers by the decoder.
  ///
  /// - Parameter front: handlers of a connection that come before the router.
  package func http1(
    _ counts: ConnectionCounts? = nil, patience: TimeAmount = BodyPace.usualPatience,
    front: @escaping @Sendable () -> [any RemovableChannelHandler] = { [] }
  ) -> HTTP1Channel.Configuration {
    let limits = ConnectionGuard.Limits(
      idle: TimeAmount(idleTimeout), request: TimeAmount(requestDeadline), patience: patience)
    return HTTP1Channel.Configuration(
      additionalChannelHandlers: [ConnectionGuard(limits: limits, counts: counts)] + front(),
      httpDecoderConfiguration: .init(
        maxHeaderFieldSize: 16 * 1024, maxHeaderListSize: 16 * 1024, maxHeaderFieldCount: 64))
  }
}
