import Foundation

/// The store that sells: StoreKit 2, or a script in tests.
public protocol Store: Sendable {
  /// Every transaction that arrives while the app runs: renewals, refunds, approvals, other devices.
  func updates() -> AsyncStream<StoreTransaction>
  /// The transactions that were not finished yet.
  func unfinished() async -> [StoreTransaction]
  /// The purchases that the store account owns now.
  func currentEntitlements() async -> [StoreTransaction]
  /// Asks the App Store anew. It may ask the user to sign in, so call it on a tap only.
  func sync() async throws
  /// The products that the store sells of these, with its prices. Throws a `CountersignError`.
  func products(_ ids: [String]) async throws -> [StoreProduct]
  /// Shows the App Store's sheet for a product. Throws a `CountersignError`.
  ///
  /// - Parameters:
  ///   - productID: as App Store Connect has it.
  ///   - appAccountToken: the user's ID, where that is a UUID. The transaction names it.
  ///   - offer: with which it is bought; `nil` for none but the store's own.
  func purchase(productID: String, appAccountToken: UUID?, offer: StoreOffer?) async throws -> StorePurchase
}

/// An offer as the App Store takes it.
public enum StoreOffer: Hashable, Sendable {
  /// A promotional offer, signed by the service.
  case promotional(id: String, jws: String)
  /// Whether the customer gets the introductory offer, signed by the service.
  case introductory(jws: String)
  /// A win-back offer, on which the App Store decides by itself.
  case winBack(id: String)
}

extension Store {
  /// A store without prices.
  public func products(_ ids: [String]) async throws -> [StoreProduct] { [] }
}

/// The end of a purchase at the App Store.
public enum StorePurchase: Sendable {
  case success(StoreTransaction)
  case pending
  case cancelled
}

/// A signed transaction, whether this device could verify it or not: the service judges.
public struct StoreTransaction: Sendable {
  public var id: UInt64
  /// The signed transaction as text, three parts with dots between.
  public var jwsRepresentation: String
  /// Tells the App Store that the purchase was delivered. Until then it comes again at each start of the app.
  public var finish: @Sendable () async -> Void

  public init(id: UInt64, jwsRepresentation: String, finish: @escaping @Sendable () async -> Void) {
    self.id = id
    self.jwsRepresentation = jwsRepresentation
    self.finish = finish
  }
}

extension StoreTransaction {
  func isSame(as other: StoreTransaction) -> Bool { jwsRepresentation == other.jwsRepresentation }

  /// The members that Apple signed, unchecked; `nil` where it cannot be read.
  private struct Claims: Decodable {
    var productId: String?
    var appAccountToken: String?
  }

  private var claims: Claims? { AccessToken.claims(Claims.self, of: jwsRepresentation) }

  var productID: String? { claims?.productId }

  /// Whether the app bought it for another user than this one, who may have it all the same: support moves purchases. Where an
  /// ID is no UUID nothing tells.
  func isBoughtByAnother(than user: String) -> Bool {
    guard let user = UUID(uuidString: user), let buyer = claims?.appAccountToken.flatMap(UUID.init(uuidString:)) else {
      return false
    }
    return buyer != user
  }
}

#if canImport(StoreKit)
  import StoreKit
  #if os(visionOS)
    import UIKit
  #endif

  /// StoreKit 2.
  public struct AppStoreStore: Store {
    public init() {}

    public func updates() -> AsyncStream<StoreTransaction> {
      AsyncStream { continuation in
        let task = Task {
          for await result in Transaction.updates { continuation.yield(StoreTransaction(result)) }
          continuation.finish()
        }
        continuation.onTermination = { _ in task.cancel() }
      }
    }

    public func unfinished() async -> [StoreTransaction] {
      var found: [StoreTransaction] = []
      for await result in Transaction.unfinished { found.append(StoreTransaction(result)) }
      return found
    }

    public func currentEntitlements() async -> [StoreTransaction] {
      var found: [StoreTransaction] = []
      for await result in Transaction.currentEntitlements { found.append(StoreTransaction(result)) }
      return found
    }

    public func products(_ ids: [String]) async throws -> [StoreProduct] {
      do {
        var found: [StoreProduct] = []
        for product in try await Product.products(for: ids) { found.append(await StoreProduct(product)) }
        return found
      } catch {
        throw CountersignError(store: error)
      }
    }

    public func sync() async throws {
      do { try await AppStore.sync() } catch { throw CountersignError(store: error) }
    }

    public func purchase(
      productID: String, appAccountToken: UUID?, offer: StoreOffer?
    ) async throws -> StorePurchase {
      do {
        guard let product = try await Product.products(for: [productID]).first else {
          throw CountersignError.refused(code: "product_unavailable", detail: "The App Store has no such product.")
        }
        var options = try Self.options(of: offer, product)
        if let appAccountToken { options.insert(.appAccountToken(appAccountToken)) }
        switch try await Self.purchase(product, options) {
        case .success(let result): return .success(StoreTransaction(result))
        case .pending: return .pending
        case .userCancelled: return .cancelled
        @unknown default:
          throw CountersignError.refused(code: "store_error", detail: "The App Store gave an answer that is not known.")
        }
      } catch {
        throw error as? CountersignError ?? CountersignError(store: error)
      }
    }
  }

  extension AppStoreStore {
    private static func options(
      of offer: StoreOffer?, _ product: Product
    ) throws -> Set<Product.PurchaseOption> {
      switch offer {
      case nil: return []
      #if compiler(>=6.2)
        case .promotional(let id, let jws): return Set(Product.PurchaseOption.promotionalOffer(id, compactJWS: jws))
        case .introductory(let jws): return [.introductoryOfferEligibility(compactJWS: jws)]
      #else
        // StoreKit has them as of Xcode 26, and takes them on every system.
        case .promotional, .introductory:
          throw CountersignError.refused(code: "offer_unavailable", detail: "The app is built without Xcode 26.")
      #endif
      case .winBack(let id):
        if #available(iOS 18, macOS 15, tvOS 18, watchOS 11, visionOS 2, *),
          let offer = product.subscription?.winBackOffers.first(where: { $0.id == id })
        {
          return [.winBackOffer(offer)]
        }
        throw CountersignError.refused(code: "offer_unavailable", detail: "The App Store has no such win-back offer.")
      }
    }

    /// visionOS shows the sheet in a scene, and has no `purchase(options:)`.
    private static func purchase(
      _ product: Product, _ options: Set<Product.PurchaseOption>
    ) async throws -> Product.PurchaseResult {
      #if os(visionOS)
        let scene = await MainActor.run {
          UIApplication.shared.connectedScenes.first { $0.activationState == .foregroundActive }
        }
        guard let scene else {
          throw CountersignError.refused(code: "store_error", detail: "The app shows no scene for the sheet.")
        }
        return try await product.purchase(confirmIn: scene, options: options)
      #else
        return try await product.purchase(options: options)
      #endif
    }
  }

  extension StoreTransaction {
    /// Verified and unverified alike: this device's own check may fail where the service's does not.
    fileprivate init(_ result: VerificationResult<Transaction>) {
      let transaction = result.unsafePayloadValue
      self.init(id: transaction.id, jwsRepresentation: result.jwsRepresentation) { await transaction.finish() }
    }
  }

  extension CountersignError {
    fileprivate init(store error: any Error) {
      self =
        switch error {
        case StoreKitError.userCancelled: .cancelled
        // `later` would tell the user that something was bought and is kept.
        case StoreKitError.networkError, is URLError:
          .refused(code: "store_unreachable", detail: error.localizedDescription)
        case Product.PurchaseError.productUnavailable, StoreKitError.notAvailableInStorefront:
          .refused(code: "product_unavailable", detail: error.localizedDescription)
        default: .refused(code: "store_error", detail: error.localizedDescription)
        }
    }
  }
#endif
