import Cryptography
package import Entitlements
import Synchronization

/// The authenticated caller of a request.
enum Caller: Hashable, Sendable {
  /// A server or a member of staff, with an API key.
  case server(ServerCaller)
  /// A user of the app, with a token.
  case user(UserID)
  /// A copy of an app, with the key that all its copies carry. Whoever uses it is unknown.
  case app(PublicKey)

  /// The app whose public key the caller shows; `nil` for every other caller.
  var app: BundleID? { if case .app(let key) = self { key.bundleID } else { nil } }

  /// The name in the log: of a user only that it is one. No key can have this name.
  var logName: String {
    switch self {
    case .server(let server): server.name
    case .user: "(user)"
    case .app(let key): key.name
    }
  }
}

/// A caller with a name of its own.
enum NamedCaller: Hashable, Sendable {
  case server(ServerCaller)
  case user(UserID)
}

/// The owner of an API key.
struct ServerCaller: Hashable, Sendable {
  /// The name of the key in the configuration.
  var name: String
  var roles: Set<APIKey.Role>
}

/// The accepted keys: those of servers and staff as SHA-256 digests, those of apps in clear. They can be replaced while
/// the service runs.
package final class APIKeyring: Sendable {
  /// Guards the keys.
  private let keys: Mutex<[APIKey]>
  private let publicKeys: Mutex<[PublicKey]>

  package init(_ keys: [APIKey], publicKeys: [PublicKey] = []) {
    self.keys = Mutex(keys)
    self.publicKeys = Mutex(publicKeys)
  }

  /// Replaces the keys from the next request on.
  /// - Returns: the previous keys of servers and staff.
  package func replace(by keys: [APIKey], publicKeys: [PublicKey] = []) -> [APIKey] {
    self.publicKeys.withLock { $0 = publicKeys }
    return self.keys.withLock { current in
      defer { current = keys }
      return current
    }
  }

  /// The caller with this key, or the app; `nil` for an unknown key.
  func holder(presenting presented: String) -> Caller? {
    caller(presenting: presented).map(Caller.server) ?? app(presenting: presented).map(Caller.app)
  }

  /// The app with this key; `nil` for an unknown key. The key is no secret, so the time taken may reveal it.
  func app(presenting presented: String) -> PublicKey? {
    publicKeys.withLock { keys in keys.first { $0.key == presented } }
  }

  /// The caller with this key; `nil` for an unknown key.
  ///
  /// Every byte of every key is compared, so that the time taken reveals nothing about a near miss.
  func caller(presenting presented: String) -> ServerCaller? {
    let digest = SHA256Digest(of: presented.utf8).bytes
    var found: APIKey?
    for key in keys.withLock({ $0 }) where isEqualInConstantTime(key.digest.bytes, digest) { found = key }
    return found.map { ServerCaller(name: $0.name, roles: $0.roles) }
  }

  /// The form in which a key is configured: SHA-256 of its UTF-8, in lower-case hex.
  package static func sha256(_ key: String) -> String { SHA256Digest(of: key.utf8).hexadecimal }
}

/// A key that every copy of an app carries (`auth.public_keys`). It names the app, and proves nothing about a user: only
/// the routes of a dialect take it, and those of trials, where the device is the user.
package struct PublicKey: Hashable, Sendable {
  /// The name in logs and metrics.
  package let name: String
  /// The key in clear, as it stands in the app: RevenueCat's SDKs expect `appl_…` or `goog_…`.
  package let key: String
  /// The app that carries it.
  package let bundleID: BundleID

  package init(name: String, key: String, bundleID: BundleID) {
    self.name = name
    self.key = key
    self.bundleID = bundleID
  }
}
