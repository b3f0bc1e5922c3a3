import FoundationEssentials
import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import NIOPosix

/// A plain HTTP URL for notifications, such as a service on the same machine has.
struct PlainHTTPURL: Hashable, Sendable, CustomStringConvertible {
  let host: String
  let port: Int
  /// Includes the query.
  let path: String

  /// - Returns: nil for anything but `http://host[:port][/path]`.
  init?(_ text: String) {
    guard text.hasPrefix("http://"), !text.contains("#"), let components = URLComponents(string: text),
      let host = components.host, !host.isEmpty, components.user == nil
    else { return nil }
    self.host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
    port = components.port ?? 80
    let path = components.percentEncodedPath.isEmpty ? "/" : components.percentEncodedPath
    self.path = path + (components.percentEncodedQuery.map { "?" + $0 } ?? "")
  }

  init(checking text: String) throws(NotAnAddress) {
    guard let url = PlainHTTPURL(text) else { throw NotAnAddress(text: text) }
    self = url
  }

  var authority: String { "\(host.contains(":") ? "[\(host)]" : host):\(port)" }

  var description: String { "http://\(authority)\(path)" }
}

/// Notifications cannot be sent to this URL; the text is for the caller.
struct NotAnAddress: Error, Hashable, CustomStringConvertible {
  var text: String

  var description: String {
    "'\(text)' is no address to post to, such as http://127.0.0.1:8080/v1/notifications/app-store"
  }
}

/// One POST of JSON over a connection of its own.
enum PlainHTTPPost {
  /// Why there is no status.
  enum Failure: Error {
    case noAnswer
  }

  /// A busy machine's receiver may be slow.
  private static let timeLimit = TimeAmount.seconds(60)

  /// - Returns: the response's status; its body is not read.
  static func send(_ body: [UInt8], to url: PlainHTTPURL) async throws -> Int {
    let connection = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connectTimeout(timeLimit)
      .connect(host: url.host, port: url.port) { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHTTPClientHandlers()
          try channel.pipeline.syncOperations.addHandler(HTTP1ToHTTPClientCodec())
          return try NIOAsyncChannel<HTTPResponsePart, HTTPRequestPart>(wrappingChannelSynchronously: channel)
        }
      }
    let closing = connection.channel.eventLoop.scheduleTask(in: timeLimit) {
      connection.channel.close(promise: nil)
    }
    defer { closing.cancel() }
    return try await connection.executeThenClose { inbound, outbound in
      var request = HTTPRequest(method: .post, scheme: "http", authority: url.authority, path: url.path)
      request.headerFields[.contentType] = "application/json"
      request.headerFields[.contentLength] = String(body.count)
      request.headerFields[.connection] = "close"
      // In one write: a receiver that has the whole body may answer and close before another one.
      try await outbound.write(contentsOf: [.head(request), .body(ByteBuffer(bytes: body)), .end(nil)])
      for try await part in inbound {
        if case .head(let response) = part { return response.status.code }
      }
      throw Failure.noAnswer
    }
  }
}
