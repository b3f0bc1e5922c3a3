import AppStore
import Cryptography
import Entitlements
import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator

/// Our reader of signed data and our client of the Server API, against the simulator that was written apart from both.
@Suite struct SimulatedServerAPITests {
  private func verifier(_ store: SimulatedStore) throws -> SignedDataVerifier {
    SignedDataVerifier(roots: try TrustedRoots(files: [store.simulator.rootPEMPath]))
  }

  private func client(_ store: SimulatedStore) throws -> ServerAPIClient {
    let simulator = store.simulator
    var configuration = CurlTransport.Configuration()
    configuration.caFile = simulator.rootPEMPath
    let key = try ServerAPIKey(
      keyID: simulator.serverAPIKeyID, issuerID: simulator.serverAPIIssuerID,
      key: try ES256PrivateKey(pem: simulator.serverAPIKeyPEM))
    var timing = CallTiming.live
    timing.date = { simulator.now }
    return ServerAPIClient(
      transport: try CurlTransport(configuration: configuration),
      configuration: ServerAPIClient.Configuration(
        productionURL: simulator.serverAPIURL, sandboxURL: simulator.serverAPISandboxURL, key: key),
      verifier: try verifier(store), timing: timing)
  }

  @Test func `every notification of an eventful year is taken for Apple's, and all that it carries`() async throws {
    try await SimulatedStore.run { store in
      for environment in AppStoreSimulator.StoreEnvironment.allCases {
        let issued = try store.simulator.issueTransaction(
          .eventfulYear, environment: environment, subscriber: 7, appAccountToken: UUID())
        let end = noon.addingTimeInterval(400 * 86_400)
        let reported = try store.simulator.notifications(of: issued.transactionID, to: end)
        #expect(reported.count == 23)
        for notification in reported {
          let verified = try verifier(store).notification(notification.signedPayload, now: end)
          #expect(verified.notification.uuid == notification.uuid)
          #expect(verified.signedDate == notification.at)
          #expect(verified.environment?.rawValue == environment.rawValue)
          #expect(verified.transaction?.payload.purchase.appAccountToken != nil)
          #expect(verified.renewalInfo != nil)
        }
      }
    }
  }

  @Test(arguments: Scenario.allCases)
  func `the Server API's answer about each scenario is read`(scenario: Scenario) async throws {
    guard scenario != .empty else { return }
    try await SimulatedStore.run { store in
      for environment in AppStoreSimulator.StoreEnvironment.allCases {
        let issued = try store.simulator.issueTransaction(scenario, environment: environment, subscriber: 8)
        let jws = try verifier(store).transaction(issued.signedTransaction, now: noon)
        #expect(jws.payload.purchase.transactionID.rawValue == issued.transactionID)
        do {
          let answer = try await client(store).history(
            of: OriginalTransactionID(issued.transactionID), bundleIDs: [BundleID(Product.defaultBundleID)],
            includesOneTimePurchases: true, deadline: .now + .seconds(60))
          #expect(answer.history.environment.rawValue == environment.rawValue)
          #expect(!answer.history.purchases.isEmpty)
          #expect(answer.signedTransactions[OriginalTransactionID(issued.originalTransactionID)] != nil)
        } catch AppStoreError.notFound {
          #expect(scenario == .wrongApp || scenario == .accountGone)
        }
      }
    }
  }

  @Test func `a stranger's key is rejected`() async throws {
    try await SimulatedStore.run { store in
      let issued = try store.simulator.issueTransaction()
      store.simulator.setTrouble(.serverAPIKeyRejected)
      await #expect(throws: AppStoreError.keyRejected) {
        try await client(store).history(
          of: OriginalTransactionID(issued.transactionID), bundleIDs: [BundleID(Product.defaultBundleID)],
          includesOneTimePurchases: false, deadline: .now + .seconds(60))
      }
    }
  }
}
