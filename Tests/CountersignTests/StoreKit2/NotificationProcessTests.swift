import HTTPTransport
import Synchronization
import Testing

@testable import AppStoreSimulator

/// Notifications to the program as it is run.
@Suite struct NotificationProcessTests {
  /// The names of what was answered 200.
  private final class Acknowledged: Sendable {
    private let uuids = Mutex<Set<String>>([])
    var all: Set<String> { uuids.withLock { $0 } }

    /// - Returns: how many there are now.
    func add(_ uuid: String) -> Int {
      uuids.withLock { uuids in
        uuids.insert(uuid)
        return uuids.count
      }
    }
  }

  @Test func `a notification answered 200 is there after kill -9, and counts once`() async throws {
    try await ServiceProcess.withConfiguration(Settings(server: ["address_rate_limit": "0"])) { store, file in
      var notifications: [SimulatedNotification] = []
      for subscriber in 1...150 {
        let issued = try store.simulator.issueTransaction(.renewalOff, subscriber: Int64(subscriber))
        notifications += try store.simulator.notifications(of: issued.originalTransactionID)
      }
      #expect(notifications.count > 400)
      let acknowledged = Acknowledged()
      let service = try await ServiceProcess.start(configuration: file)
      let posted = notifications
      await withTaskGroup(of: Void.self) { group in
        for worker in 0..<8 {
          group.addTask {
            for notification in posted.enumerated().filter({ $0.offset % 8 == worker }).map(\.element) {
              let answer = try? await service.send(.post, "/v1/notifications/app-store", body: notification.body)
              guard answer?.status == 200 else { return }
              if acknowledged.add(notification.uuid) == 200 { await service.killAtOnce() }
            }
          }
        }
      }
      let known = acknowledged.all
      #expect(known.count >= 200 && known.count < notifications.count)

      let restarted = try await ServiceProcess.start(configuration: file)
      for notification in notifications {
        let answer = try await restarted.send(.post, "/v1/notifications/app-store", body: notification.body)
        #expect(answer.status == 200)
        // One that was not answered may be there all the same.
        if known.contains(notification.uuid) { #expect(answer["outcome"] == "duplicate") }
      }
      #expect(await restarted.stop().code == 0)
    }
  }
}
