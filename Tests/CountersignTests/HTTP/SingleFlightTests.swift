import Foundation
import Testing

@testable import AppStoreSimulator
@testable import Countersign

@Suite struct SingleFlightTests {
  @Test func `many users posting one receipt cost Apple far fewer calls, and each gets an answer of their own`()
    async throws
  {
    let clock = Date(timeIntervalSince1970: 1_718_452_800)
    try await RunningService.besideStore(at: clock) { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      store.simulator.setDelay(.seconds(2))
      let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 0..<100 {
          group.addTask { try await service.validate(receipt, user: "user-\(number)").status }
        }
        return try await group.reduce(into: [Int: Int]()) { $0[$1, default: 0] += 1 }
      }
      #expect(statuses == [200: 1, 409: 99])
      // One, unless this machine needs more than the two seconds to send a hundred requests.
      #expect(store.simulator.calls.total <= 5)
    }
  }
}
