import Crypto
import Entitlements
import Synchronization

/// Who is asking.
enum Caller: Hashable, Sendable {
  /// A server, or a person at a desk, with an API key.
  case server(ServerCaller)
  /// A user of the app, by the token of their phone.
  case user(UserID)

  /// For the log: of a user only that it is one. No key can be named like that.
  var logName: String {
    switch self {
    case .server(let server): server.name
    case .user: "(user)"
    }
  }
}

/// Whoever has an API key.
struct ServerCaller: Hashable, Sendable {
  /// The name of the key in the configuration.
  var name: String
  var role: APIKey.Role
}

/// The keys that callers may present, which may be replaced while callers come. Only their SHA-256 is known here.
package final class APIKeyring: Sendable {
  /// Guards the keys.
  private let keys: Mutex<[APIKey]>

  package init(_ keys: [APIKey]) { self.keys = Mutex(keys) }

  /// Requests that come from now on are held against these.
  /// - Returns: those before.
  package func replace(by keys: [APIKey]) -> [APIKey] {
    self.keys.withLock { current in
      defer { current = keys }
      return current
    }
  }

  /// The caller who presents this key; `nil` when it is none of ours.
  ///
  /// Every key is compared, and every byte of it, so that the time taken tells nothing about which was nearly right.
  func caller(presenting presented: String) -> ServerCaller? {
    let digest = Array(SHA256.hash(data: Array(presented.utf8)))
    var found: APIKey?
    for key in keys.withLock({ $0 }) {
      // Both are SHA-256 digests, so they are of one length.
      var difference: UInt8 = 0
      for (a, b) in zip(key.digest.bytes, digest) { difference |= a ^ b }
      if difference == 0 { found = key }
    }
    return found.map { ServerCaller(name: $0.name, role: $0.role) }
  }

  /// The form in which a key is configured: SHA-256 of its UTF-8, in lower-case hex.
  package static func sha256(_ key: String) -> String {
    SHA256.hash(data: Array(key.utf8)).map { byte in
      String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
    }.joined()
  }
}
