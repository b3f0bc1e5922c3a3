/// Consumption information about a transaction, for Apple's decision on a refund: the word of a policy or of the app's backend,
/// and the body that is sent. Names and values are Apple's.
///
/// https://developer.apple.com/documentation/appstoreserverapi/consumptionrequest
package struct ConsumptionInformation: Codable, Hashable, Sendable {
  package enum DeliveryStatus: String, Hashable, Codable, Sendable, CaseIterable {
    case delivered = "DELIVERED"
    case qualityIssue = "UNDELIVERED_QUALITY_ISSUE"
    case wrongItem = "UNDELIVERED_WRONG_ITEM"
    case serverOutage = "UNDELIVERED_SERVER_OUTAGE"
    case other = "UNDELIVERED_OTHER"
  }

  package enum RefundPreference: String, Hashable, Codable, Sendable, CaseIterable {
    case decline = "DECLINE"
    case grantFull = "GRANT_FULL"
    case grantProrated = "GRANT_PRORATED"
  }

  package var customerConsented: Bool?
  /// Thousandths of a percent: 40,000 is 40 %.
  package var consumptionPercentage: Int?
  package var deliveryStatus: DeliveryStatus?
  package var refundPreference: RefundPreference?
  /// Whether the customer had a sample or a trial before the purchase.
  package var sampleContentProvided: Bool?

  package static let whole = 100_000

  package init(
    customerConsented: Bool? = nil, consumptionPercentage: Int? = nil, deliveryStatus: DeliveryStatus? = nil,
    refundPreference: RefundPreference? = nil, sampleContentProvided: Bool? = nil
  ) {
    self.customerConsented = customerConsented
    self.consumptionPercentage = consumptionPercentage
    self.deliveryStatus = deliveryStatus
    self.refundPreference = refundPreference
    self.sampleContentProvided = sampleContentProvided
  }

  /// Adds the members that another one has.
  package func completed(by other: ConsumptionInformation) -> ConsumptionInformation {
    ConsumptionInformation(
      customerConsented: customerConsented ?? other.customerConsented,
      consumptionPercentage: consumptionPercentage ?? other.consumptionPercentage,
      deliveryStatus: deliveryStatus ?? other.deliveryStatus,
      refundPreference: refundPreference ?? other.refundPreference,
      sampleContentProvided: sampleContentProvided ?? other.sampleContentProvided)
  }

  /// The reason why Apple refuses these values for any product; `nil` if it may take them.
  package var contradiction: String? {
    guard let percentage = consumptionPercentage else { return nil }
    if !(0...Self.whole).contains(percentage) {
      return "'consumption_percentage' has to be from 0 to 100000: thousandths of a percent."
    }
    if let deliveryStatus, deliveryStatus != .delivered, percentage != 0 {
      return "'consumption_percentage' has to be 0 where 'delivery_status' is not DELIVERED."
    }
    if refundPreference == .grantProrated, percentage == 0 || percentage == Self.whole {
      return "'consumption_percentage' has to be from 1 to 99999 where 'refund_preference' is GRANT_PRORATED."
    }
    return nil
  }

  /// The values that Apple takes for a kind of product. Apple itself counts the time of an auto-renewable subscription, and
  /// prorates another product by a percentage alone.
  package func fit(isAutoRenewable: Bool) -> ConsumptionInformation {
    var fit = self
    if isAutoRenewable {
      fit.consumptionPercentage = nil
      return fit
    }
    if deliveryStatus != .delivered { fit.consumptionPercentage = 0 }
    if refundPreference == .grantProrated, !(1..<Self.whole).contains(fit.consumptionPercentage ?? 0) {
      fit.refundPreference = nil
    }
    return fit
  }
}
