import Testing

@testable import Entitlements

@Suite struct ConsumptionInformationTests {
  @Test func `values that Apple refuses for any product are told`() {
    #expect(ConsumptionInformation(consumptionPercentage: 100_001).contradiction?.contains("0 to 100000") == true)
    #expect(ConsumptionInformation(consumptionPercentage: -1).contradiction != nil)
    #expect(ConsumptionInformation(consumptionPercentage: 1, deliveryStatus: .serverOutage).contradiction != nil)
    for whole in [0, 100_000] {
      #expect(
        ConsumptionInformation(consumptionPercentage: whole, refundPreference: .grantProrated).contradiction != nil)
    }
    for fine in [
      ConsumptionInformation(), ConsumptionInformation(refundPreference: .grantProrated),
      ConsumptionInformation(consumptionPercentage: 0, deliveryStatus: .other),
      ConsumptionInformation(consumptionPercentage: 100_000, deliveryStatus: .delivered, refundPreference: .decline),
    ] { #expect(fine.contradiction == nil) }
  }

  @Test func `a percentage is Apple's own of a subscription, and none of what was not delivered`() {
    var said = ConsumptionInformation(
      consumptionPercentage: 40_000, deliveryStatus: .delivered, refundPreference: .grantProrated)
    #expect(said.fit(isAutoRenewable: false) == said)
    #expect(said.fit(isAutoRenewable: true).consumptionPercentage == nil)
    #expect(said.fit(isAutoRenewable: true).refundPreference == .grantProrated)
    said.deliveryStatus = .qualityIssue
    #expect(said.fit(isAutoRenewable: false).consumptionPercentage == 0)
    // Apple prorates by a percentage between nothing and all.
    #expect(said.fit(isAutoRenewable: false).refundPreference == nil)
    said = ConsumptionInformation(deliveryStatus: .delivered, refundPreference: .grantFull)
    #expect(said.fit(isAutoRenewable: false) == said)
  }

  @Test func `a statement about a transaction goes before the policy`() {
    let policy = ConsumptionInformation(
      customerConsented: true, refundPreference: .decline, sampleContentProvided: false)
    let said = ConsumptionInformation(customerConsented: false, refundPreference: .grantFull)
    #expect(
      said.completed(by: policy)
        == ConsumptionInformation(customerConsented: false, refundPreference: .grantFull, sampleContentProvided: false))
  }
}
