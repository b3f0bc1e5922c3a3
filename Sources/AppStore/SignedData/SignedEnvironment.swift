package import Entitlements

package import struct FoundationEssentials.Date

/// A decoded payload that says when and in which environment it was signed.
package protocol SignedContent: Hashable, Sendable {
  var signedDate: Date { get }
  var signedEnvironment: SignedEnvironment { get }
}

package enum SignedEnvironment: Hashable, Sendable {
  case store(StoreEnvironment)
  /// StoreKit testing in Xcode: signed by the developer's own machine.
  case xcode
  /// StoreKit testing without a store, in unit tests: the same.
  case localTesting
  /// An unknown name, or none, as in 2021. The store may be known otherwise.
  case unknown

  init(name: String?) {
    self =
      switch name {
      case "Production": .store(.production)
      case "Sandbox": .store(.sandbox)
      case "Xcode": .xcode
      case "LocalTesting": .localTesting
      default: .unknown
      }
  }

  /// Apple's store; `nil` for the others.
  var store: StoreEnvironment? { if case .store(let store) = self { store } else { nil } }

  /// Whether a developer's machine signed it, and not Apple.
  package var isLocal: Bool { self == .xcode || self == .localTesting }
}
