import AppStore

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
      let digits = Array(text.utf8)
      guard digits.count == 2 * Self.count else { return nil }
      var bytes: [UInt8] = []
      for index in stride(from: 0, to: digits.count, by: 2) {
        guard let high = Self.value(of: digits[index]), let low = Self.value(of: digits[index + 1]) else { return nil }
        bytes.append(high << 4 | low)
      }
      self.bytes = bytes
    }

    package var description: String { "***" }
    package var customMirror: Mirror { Mirror(self, children: []) }

    private static func value(of digit: UInt8) -> UInt8? {
      switch digit {
      case 0x30...0x39: digit - 0x30
      case 0x61...0x66: digit - 0x61 + 10
      default: nil
      }
    }
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
