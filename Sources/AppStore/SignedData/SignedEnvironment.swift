package import Entitlements

/// Where signed data says that it comes from.
package enum SignedEnvironment: Hashable, Sendable {
  case store(StoreEnvironment)
  /// StoreKit testing in Xcode: signed by the developer's own machine.
  case xcode
  /// StoreKit testing without a store, in unit tests: the same.
  case localTesting
  /// A name that Apple has added since, or none, as in 2021: whoever knows the store knows it otherwise.
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
  package var store: StoreEnvironment? {
    guard case .store(let store) = self else { return nil }
    return store
  }

  /// Not signed by Apple.
  package var isLocal: Bool { self == .xcode || self == .localTesting }
}
