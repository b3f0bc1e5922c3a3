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

    enum CodingKeys: String, CodingKey {
      case identifier
      case platformProductIdentifier = "platform_product_identifier"
    }
  }

  struct Placements: Encodable {
    @Nullable var fallbackOfferingID: String?
    var offeringIDsByPlacement: [String: String] = [:]

    enum CodingKeys: String, CodingKey {
      case fallbackOfferingID = "fallback_offering_id"
      case offeringIDsByPlacement = "offering_ids_by_placement"
    }
  }

  @Nullable var currentOfferingID: String?
  var offerings: [Offering]
  var placements = Placements()
  @Nullable var targeting: String?

  enum CodingKeys: String, CodingKey {
    case currentOfferingID = "current_offering_id"
    case offerings, placements, targeting
  }

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

    enum CodingKeys: String, CodingKey {
      case productIdentifier = "product_identifier"
      case basePlanID = "base_plan_id"
      case entitlements
    }
  }

  var products: [String: Product]

  enum CodingKeys: String, CodingKey {
    case products = "product_entitlement_mapping"
  }

  init(_ catalog: Catalog) {
    products = Dictionary(
      uniqueKeysWithValues: catalog.products.map { id, product in
        let unlocks = product.kind != .consumable && catalog.rank(of: product.tier) > 0
        return (
          id.rawValue,
          Product(productIdentifier: id.rawValue, entitlements: unlocks ? [product.tier.rawValue] : [])
        )
      })
  }
}

/// `POST …/attributes`: what was not kept, and why.
struct AttributeErrors: Encodable {
  struct One: Encodable {
    var keyName: String
    var message: String

    enum CodingKeys: String, CodingKey {
      case keyName = "key_name"
      case message
    }
  }

  var attributeErrors: [One]

  enum CodingKeys: String, CodingKey {
    case attributeErrors = "attribute_errors"
  }
}

/// `POST /v1/offers`: promotional offers are not signed here.
struct UnsignedOffers: Encodable {
  struct Offer: Encodable {
    @Nullable var offerID: String?
    @Nullable var productID: String?
    @Nullable var keyID: String?
    @Nullable var signatureData: String?
    var signatureError: SignatureError

    enum CodingKeys: String, CodingKey {
      case offerID = "offer_id"
      case productID = "product_id"
      case keyID = "key_id"
      case signatureData = "signature_data"
      case signatureError = "signature_error"
    }
  }

  struct SignatureError: Encodable {
    var code = RevenueCatError.Code.badRequest
    var message = "This service signs no promotional offers."
  }

  var offers: [Offer]
}
