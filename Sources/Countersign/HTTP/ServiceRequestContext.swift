import Hummingbird
import Logging
import NIOCore

/// What is known of a request while it is handled.
struct ServiceRequestContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  /// The caller's `X-Request-Id`, or one of ours.
  var requestID = ""
  /// Set by the authentication; `nil` on routes that are open.
  var caller: Caller?

  init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
  }
}
