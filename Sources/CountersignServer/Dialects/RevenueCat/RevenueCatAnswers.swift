import Access
import CountersignAPI
import Entitlements

/// `GET …/offerings`: what a paywall shows.
struct RevenueCatOfferings: Encodable {
  struct Offering: Encodable {
    var identifier: String
    var description: String
    var metadata: [String: PlansResponse.JSONMember]
    var packages: [Package]
  }

  struct Package: Encodable {
    var identifier: String
    var platformProductIdentifier: String
  }

  struct Placements: Encodable {
    @Nullable var fallbackOfferingID: String?
    var offeringIdsByPlacement: [String: String] = [:]
  }

  @Nullable var currentOfferingID: String?
  var offerings: [Offering]
  var placements = Placements()
  @Nullable var targeting: String?

  init(_ plans: Plans) {
    currentOfferingID = plans.currentOffering?.name
    offerings = plans.offerings.map { offering in
      Offering(
        identifier: offering.name, description: offering.name,
        metadata: offering.metadata.mapValues(PlansResponse.JSONMember.init),
        packages: offering.packages.map { Package(identifier: $0.name, platformProductIdentifier: $0.product.rawValue) }
      )
    }
  }
}

/// `GET /v1/product_entitlement_mapping`: of what an SDK computes access while the service is away.
struct ProductEntitlementMapping: Encodable {
  struct Product: Encodable {
    var productIdentifier: String
    @Nullable var basePlanID: String?
    var entitlements: [String]
  }

  var productEntitlementMapping: [String: Product]

  init(_ catalog: Catalog, scope: Plans.EntitlementScope) {
    productEntitlementMapping = Dictionary(
      uniqueKeysWithValues: catalog.products.map { id, product in
        let unlocked = scope.entitlements(of: product.tier, in: catalog)
        return (id.rawValue, Product(productIdentifier: id.rawValue, entitlements: unlocked.map(\.rawValue)))
      })
  }
}

/// `POST …/attributes`: what was not kept, and why.
struct AttributeErrors: Encodable {
  struct One: Encodable {
    var keyName: String
    var message: String
  }

  var attributeErrors: [One]
}

/// `GET /rcbilling/…/products`: what a page shows of the products of its offerings, by the catalog.
struct WebProducts: Encodable {
  struct Product: Encodable {
    var identifier: String
    var productType: String
    var title: String
    @Nullable var description: String?
    var defaultPurchaseOptionID = PurchaseOption.base
    var purchaseOptions: [String: PurchaseOption]

    fileprivate static func typeName(of kind: ProductKind) -> String {
      switch kind {
      case .subscription: "subscription"
      case .lifetime: "non_consumable"
      // Customers buy both again and again.
      case .consumable, .nonRenewing: "consumable"
      }
    }
  }

  struct PurchaseOption: Encodable {
    static let base = "base_option"

    let id = Self.base
    var priceID: String
    /// For a subscription.
    var base: PricingPhase?
    /// For any other product.
    var basePrice: Price?
    @Nullable var trial: String?
    @Nullable var introPrice: String?
  }

  struct PricingPhase: Encodable {
    var periodDuration: String
    let cycleCount = 1
    var price: Price
  }

  /// In millionths of the currency's unit.
  struct Price: Encodable {
    var amountMicros: Int64
    var currency: String
  }

  var productDetails: [Product]

  /// Those of these products of which the catalog has what the SDK needs: a price, and of a subscription the period.
  ///
  /// - Parameter currency: in which the page wants the prices.
  init(_ ids: [ProductID], in currency: String?, _ catalog: Catalog, _ plans: Plans) {
    productDetails = ids.compactMap { id in
      guard let product = catalog.products[id], let price = plans.terms[id]?.price(in: currency) else { return nil }
      var option = PurchaseOption(priceID: id.rawValue)
      let amount = Price(amountMicros: price.micros, currency: price.currency)
      if product.kind == .subscription {
        guard let period = plans.terms[id]?.period else { return nil }
        option.base = PricingPhase(periodDuration: period.text, price: amount)
      } else {
        option.basePrice = amount
      }
      return Product(
        identifier: id.rawValue,
        productType: Product.typeName(of: product.kind),
        title: plans.title(of: id, product), purchaseOptions: [PurchaseOption.base: option])
    }
  }
}

/// `POST /v1/offers`: promotional offers in the form that StoreKit took first, the only one that the SDKs know.
///
/// The SDK reads the reason only where the rest decodes: the three IDs have to be texts.
struct SignedOffers: Encodable {
  struct Offer: Encodable {
    var offerID: String
    var productID: String
    var keyID = ""
    @Nullable var signatureData: SignatureData?
    @Nullable var signatureError: SignatureError?
  }

  struct SignatureData: Codable, Hashable {
    var nonce: String
    var signature: String
    var timestamp: Int64
  }

  struct SignatureError: Codable, Hashable {
    var code: Int
    var message: String
  }

  var offers: [Offer]
}
