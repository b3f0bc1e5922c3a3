import FoundationEssentials
import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Replaces the `Date` header that Hummingbird sets with the simulator's clock.
final class DateOfAnswers: ChannelOutboundHandler, RemovableChannelHandler {
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  private let clock: SimulatedClock

  init(clock: SimulatedClock) { self.clock = clock }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard case .head(var head) = unwrapOutboundIn(data) else { return context.write(data, promise: promise) }
    head.headerFields[.date] = clock.now.date.imfFixdate
    context.write(wrapOutboundOut(.head(head)), promise: promise)
  }
}

extension Date {
  /// The form of the `Date` header (RFC 9110, section 5.6.7): `Thu, 15 Jan 2026 12:00:00 GMT`.
  var imfFixdate: String { Timestamp(self).formatted("%a, %d %b %Y %T GMT") }
}
