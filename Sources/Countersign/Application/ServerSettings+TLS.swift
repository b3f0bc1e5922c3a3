import CountersignServer
import Hummingbird
import HummingbirdCore
import HummingbirdTLS
import NIOCore

extension ServerSettings {
  /// The certificate that the server shows; `nil` for plain HTTP.
  func identities() throws(StartError) -> ServerIdentities? {
    guard let tls else { return nil }
    do throws(ServerIdentity.Unusable) {
      return try ServerIdentities(tls)
    } catch {
      throw StartError(
        description: "server.tls.\(error.isAboutKey ? "key_file" : "certificate_file"): \(error.sentence).")
    }
  }

  /// HTTP/1.1, in TLS where there is a certificate. `ConnectionGuard`'s deadline for the first request begins with the
  /// connection, so that a handshake counts against it.
  func protocols(
    _ identities: ServerIdentities?, _ counts: ConnectionCounts? = nil, patience: TimeAmount = BodyPace.usualPatience,
    front: @escaping @Sendable () -> [any RemovableChannelHandler] = { [] }
  ) throws(StartError) -> HTTPServerBuilder {
    let http1 = http1(counts, patience: patience, front: front)
    let plain = HTTPServerBuilder { responder in
      LoopBoundChannel(base: HTTP1Channel(responder: responder, configuration: http1))
    }
    guard let identities else { return plain }
    do {
      return try .tls(plain, tlsConfiguration: identities.tlsConfiguration)
    } catch {
      throw StartError(description: "server.tls: TLS cannot be set up: \(error).")
    }
  }
}
