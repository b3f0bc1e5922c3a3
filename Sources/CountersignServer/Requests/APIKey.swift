import AppStore
import Cryptography

/// An API key of the configuration, known by its SHA-256: the service never has the key itself.
package struct APIKey: Hashable, Sendable {
  /// A part of a key's holder: the app's server, or support staff. A key may have both.
  package enum Role: String, Hashable, Sendable, CaseIterable {
    case service
    case support
  }

  /// The SHA-256 of a key's UTF-8. It is not printed: a weak key could be guessed from it.
  package struct Digest: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    package static let count = 32

    /// `count` bytes.
    let bytes: [UInt8]

    /// - Returns: `nil` for anything but 64 lower-case hexadecimal digits.
    package init?(hexadecimal text: String) {
      guard text.utf8.count == 2 * Self.count, text == text.lowercased(), let bytes = octets(ofHexadecimal: text) else {
        return nil
      }
      self.bytes = bytes
    }

    package var description: String { "***" }
    package var customMirror: Mirror { Mirror(self, children: []) }
  }

  package let name: String
  /// At least one.
  package let roles: Set<Role>
  package let digest: Digest

  package init(name: String, roles: Set<Role>, digest: Digest) {
    self.name = name
    self.roles = roles
    self.digest = digest
  }
}
