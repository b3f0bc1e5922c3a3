package import Cryptography
import FoundationEssentials
import JSON
import Synchronization

/// The keys that sign access tokens: one, or two while one takes the place of the other. The first signs; both are
/// published.
package struct AccessTokenKeys: Sendable {
  /// The reason why a text holds no such keys. `description` is a sentence for the operator; it quotes nothing of the text.
  package enum Invalid: Error, Hashable, Sendable, CustomStringConvertible {
    case key(ES256PrivateKey.Invalid)
    case tooMany
    case twice
    /// libcrypto is out of memory or has lost its provider.
    case unusable

    package var description: String {
      switch self {
      case .key(let reason): reason.description
      case .tooMany: "There are more than two keys in it; the first signs, and a second one is for a change of keys."
      case .twice: "The same key is in it twice."
      case .unusable: "OpenSSL cannot tell the public part of the key."
      }
    }
  }

  /// A key's public part (RFC 7517).
  package struct Published: Encodable, Hashable, Sendable {
    let kty = "EC"
    let crv = "P-256"
    let alg = "ES256"
    let use = "sig"
    /// The thumbprint (RFC 7638), so that a key has the same name wherever it stands.
    package let kid: String
    package let x: String
    package let y: String

    init(_ key: ES256PrivateKey) throws(ES256PrivateKey.Failure) {
      let point = try key.point()
      x = Base64URL.encode(point.x)
      y = Base64URL.encode(point.y)
      kid = Base64URL.encode(SHA256Digest(of: Array(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#.utf8)).bytes)
    }
  }

  private let signing: ES256PrivateKey
  /// The one that signs comes first.
  package let published: [Published]

  private static let begin = "-----BEGIN "

  /// - Parameter pem: PEM (RFC 7468), one key after the other.
  package init(pem: String) throws(Invalid) {
    var keys: [ES256PrivateKey] = []
    for part in pem.split(separator: Self.begin, omittingEmptySubsequences: true) where part.contains("KEY-----") {
      guard keys.count < 2 else { throw .tooMany }
      do throws(ES256PrivateKey.Invalid) { keys.append(try ES256PrivateKey(pem: Self.begin + part)) } catch {
        throw .key(error)
      }
    }
    guard let first = keys.first else { throw .key(.notPEM) }
    signing = first
    var published: [Published] = []
    for key in keys {
      do throws(ES256PrivateKey.Failure) { published.append(try Published(key)) } catch { throw .unusable }
    }
    guard Set(published).count == published.count else { throw .twice }
    self.published = published
  }

  /// A signed token in the compact serialization (RFC 7515, section 7.1). Its `typ` sets it apart from users' credentials.
  ///
  /// - Throws: `ES256PrivateKey.Failure` where libcrypto cannot sign.
  package func token(_ claims: some Encodable) throws -> String {
    let header = ["alg": "ES256", "kid": published.first?.kid ?? "", "typ": AccessToken.type]
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    let signed = "\(Base64URL.encode(try encoder.encode(header))).\(Base64URL.encode(try encoder.encode(claims)))"
    return "\(signed).\(Base64URL.encode(try signing.sign(Array(signed.utf8))))"
  }
}

/// The keys in use. They can be replaced while the service runs.
package final class AccessTokenKeyring: Sendable {
  private let keys: Mutex<AccessTokenKeys>

  package init(_ keys: AccessTokenKeys) { self.keys = Mutex(keys) }

  package var current: AccessTokenKeys { keys.withLock { $0 } }

  package func replace(by keys: AccessTokenKeys) { self.keys.withLock { $0 = keys } }
}
