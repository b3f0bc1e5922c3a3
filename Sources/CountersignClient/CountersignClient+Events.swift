import CountersignAPI
import Foundation

extension CountersignClient {
  /// Reports what the user did, so that a funnel is whole. The event is on disk when this returns, and is delivered within
  /// seconds, or when the service is back; a kill of the app loses and repeats none.
  ///
  ///     await client.track(.paywallViewed, ["source": "settings", "variant": .text(variant)])
  ///
  /// A thousand events wait at most: of more the oldest are dropped, and `diagnose()` counts them.
  ///
  /// - Parameters:
  ///   - name: a letter, then letters, digits and `_`; 64 at most.
  ///   - properties: up to 8 KiB as JSON. An event with more, or with another kind of name, is dropped, and told to
  ///     `options.onError`.
  public func track(_ name: EventName, _ properties: [String: EventValue] = [:]) {
    guard !isSignedOut else { return }
    readEvents()
    let size = (try? JSONEncoder().encode(properties))?.count ?? .max
    if name.isValid, size <= EventQueue.longestProperties {
      let event = AppEvent(type: name, id: UUID().uuidString, at: options.now(), properties: properties)
      events.add(event, size: size)
    } else {
      events.noteDropped()
      report(.refused(code: "bad_event", detail: "The event's name or properties are not what the service takes."))
    }
    storeEvents()
    if isStarted, delivering == nil, retryingEvents == nil { deliverLater(after: 10) }
  }

  /// Delivers the events that wait, instead of within seconds. Call it when the app goes to the background.
  public func flush() async throws {
    try checkSignedIn()
    if let delivering { return try await delivering.value }
    let task = Task {
      defer { delivering = nil }
      try await deliver()
    }
    delivering = task
    try await task.value
  }

  private func deliver() async throws {
    readEvents()
    var alone = 0
    while true {
      events.dropOld(at: options.now())
      let batch = Array(events.events.prefix(alone > 0 ? 1 : EventReport.most))
      guard !batch.isEmpty else { break }
      // By the service's clock: a device's may be wrong by hours.
      let shifted = batch.map { event in
        AppEvent(
          type: event.type, id: event.id, at: event.at + (clockDifference ?? 0), properties: event.properties)
      }
      let response = try await service.send("POST", "/v1/events", body: EventReport(events: shifted))
      alone = max(0, alone - 1)
      do {
        _ = try response.decoded(EventsRecorded.self, now: options.now())
        events.remove(Set(batch.map(\.id)))
      } catch let error as CountersignError where error.isRefusal && [400, 413, 422].contains(response.status) {
        if batch.count > 1 {
          // One of them is refused: each goes alone, and the others are taken.
          alone = batch.count
          continue
        }
        events.remove(Set(batch.map(\.id)), isDrop: true)
        report(error)
      }
      storeEvents()
    }
  }

  func deliverQuietly() async {
    retryingEvents = nil
    do {
      try await flush()
      eventFailures = 0
    } catch {
      let error = error as? CountersignError ?? .later(retryAfter: nil)
      report(error)
      guard case .later(let retryAfter) = error else { return }
      eventFailures += 1
      let backoff = min(600, 10 * pow(2, Double(eventFailures))) * Double.random(in: 0.75...1.25)
      deliverLater(after: max(retryAfter ?? 0, backoff))
    }
  }

  private func deliverLater(after pause: TimeInterval) {
    guard isStarted, !isSignedOut, retryingEvents == nil else { return }
    retryingEvents = Task { [weak self, sleep = options.sleep] in
      guard (try? await sleep(pause)) != nil else { return }
      await self?.deliverQuietly()
    }
  }

  // MARK: Storage

  /// Files cannot be read before the first unlock of the device: what they have is not replaced unread.
  func readEvents() {
    guard !areEventsRead else { return }
    let data: Data?
    do { data = try options.cache.read("events@\(account)") } catch { return }
    areEventsRead = true
    if let stored = data.flatMap({ try? JSONDecoder().decode(EventQueue.self, from: $0) }) { events.prepend(stored) }
  }

  private func storeEvents() {
    guard areEventsRead else { return report(.storage) }
    cache(events.events.isEmpty && events.dropped == 0 ? nil : try? JSONEncoder().encode(events), "events")
  }
}
