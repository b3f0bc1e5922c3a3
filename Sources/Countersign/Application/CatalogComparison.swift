import CountersignServer
import Entitlements
import Ledger

/// The subscriptions that a catalog would lower: one wrong letter in a product ID is the easiest mistake to make.
struct CatalogComparison: Hashable, Sendable {
  struct Loss: Hashable, Sendable {
    var product: ProductID
    var users: Int
    /// `80 of com.example.app.pro.monthly are kept, and it is not in the catalog; did you mean …?`
    var sentence: String
    /// The catalog lacks the tier, also among the former names.
    var isOfUnknownTier = false
  }

  /// The one with the most users first.
  let losses: [Loss]
  /// Users with more than the lowest tier.
  let total: Int

  init(_ counts: [AccessCount], catalog: Catalog) {
    let counts = counts.filter { catalog.rank(of: $0.tier) > 0 }
    let kept = Set(counts.map(\.product))
    // A product that somebody has was not meant to be another one.
    let candidates = catalog.products.keys.filter { !kept.contains($0) }.map(\.rawValue).sorted()
    total = counts.reduce(0) { $0 + $1.users }
    losses = counts.compactMap { count in
      Self.cause(of: count, catalog: catalog, candidates: candidates).map { cause in
        let number = "\(count.users) of \(count.product) \(count.users == 1 ? "is" : "are") kept"
        return Loss(
          product: count.product, users: count.users, sentence: "\(number)\(cause)",
          isOfUnknownTier: !catalog.lists(count.tier))
      }
    }.sorted { ($1.users, $0.product.rawValue) < ($0.users, $1.product.rawValue) }
  }

  private static func cause(of count: AccessCount, catalog: Catalog, candidates: [String]) -> String? {
    guard let product = catalog.products[count.product] else {
      return ", and it is not in the catalog" + suggestion(for: count.product.rawValue, among: candidates)
    }
    guard catalog.lists(count.tier) else {
      return " with the tier \(count.tier), and it is not in catalog.tiers"
        + Suggestion.clause(for: count.tier.rawValue, among: catalog.tiers.map(\.rawValue))
    }
    if product.kind == .consumable { return " with the tier \(count.tier), and the catalog calls it a consumable" }
    if catalog.rank(of: product.tier) < catalog.rank(of: count.tier) {
      return " with the tier \(count.tier), and the catalog gives it \(product.tier)"
    }
    if count.isForLife, product.kind != .lifetime { return " for life, and the catalog calls it a subscription" }
    return nil
  }

  /// Compared without what all of them begin with, which would make any two look alike.
  private static func suggestion(for word: String, among candidates: [String]) -> String {
    var common = 0
    let parts = ([word] + candidates).map { $0.split(separator: ".") }
    while let part = parts.first?.dropFirst(common).first, parts.allSatisfy({ $0.dropFirst(common + 1).first != nil }),
      parts.allSatisfy({ $0.dropFirst(common).first == part })
    { common += 1 }
    let ends = parts.map { $0.dropFirst(common).joined(separator: ".") }
    guard let end = ends.first, let nearest = Suggestion.nearest(to: end, among: Array(ends.dropFirst())),
      let place = ends.dropFirst().firstIndex(of: nearest)
    else { return "" }
    return "; did you mean \(candidates[place - 1])?"
  }

  /// The reason why a service must not start with the catalog; `nil` where it may.
  /// - Parameters:
  ///   - accepted: products whose loss somebody means.
  ///   - percent: of those who have more than the lowest tier, how many may lose it. A tier that the catalog lacks is never
  ///     lost: what it gave is not known.
  func refusal(accepting accepted: Set<ProductID>, percent: Int) -> String? {
    let refused = losses.filter { !accepted.contains($0.product) }
    let users = refused.reduce(0) { $0 + $1.users }
    let isTierUnknown = refused.contains(where: \.isOfUnknownTier)
    guard isTierUnknown || users * 100 > percent * total else { return nil }
    let products = Set(refused.map(\.product.rawValue)).sorted()
    let why =
      isTierUnknown
      ? "and lacks a tier that some of them have"
      : "which is more than revalidation.max_downgrades allows (\(percent) %)"
    let fix =
      isTierUnknown
      ? "Fix the catalog: a tier with a new name says what it was called, formerly: …." : "Fix the catalog."
    return """
      The catalog would take something from \(users) of \(total) subscribers, \(why). \(Self.sentences(refused)) \(fix) If \
      it is meant, list \(Self.names(products)) in catalog.accept_loss: then the service starts, and nobody loses anything \
      until somebody releases the downgrade brake.
      """
  }

  private static func sentences(_ losses: [Loss]) -> String {
    let named = losses.prefix(Self.named).map { $0.sentence.hasSuffix("?") ? $0.sentence : $0.sentence + "." }
    let rest = losses.count - named.count
    return (named + (rest > 0 ? ["So it is with \(rest) more."] : [])).joined(separator: " ")
  }

  private static func names(_ products: [String]) -> String {
    let rest = products.count - Self.named
    return products.prefix(Self.named).joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
  }

  private static let named = 5
}
