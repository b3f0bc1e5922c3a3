package import Entitlements

/// A set of products that a paywall shows together.
package struct Offering: Hashable, Sendable {
  /// A product in its place: `$rc_monthly`.
  package struct Package: Hashable, Sendable {
    package let name: String
    package let product: ProductID

    package init(name: String, product: ProductID) {
      self.name = name
      self.product = product
    }
  }

  /// A value for the app's own use, as JSON has it.
  package indirect enum Metadata: Hashable, Sendable {
    case null
    case boolean(Bool)
    case integer(Int)
    case number(Double)
    case text(String)
    case list([Metadata])
    case mapping([String: Metadata])
  }

  package let name: String
  package let isCurrent: Bool
  /// In the order of the catalog.
  package let packages: [Package]
  package let metadata: [String: Metadata]

  package init(name: String, isCurrent: Bool = false, packages: [Package], metadata: [String: Metadata] = [:]) {
    self.name = name
    self.isCurrent = isCurrent
    self.packages = packages
    self.metadata = metadata
  }
}
