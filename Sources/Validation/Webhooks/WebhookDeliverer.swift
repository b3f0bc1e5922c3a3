package import Access
package import Entitlements
import JSON
package import Ledger
package import Logging
import Resilience
import ServiceLifecycle
package import Webhooks

package import struct FoundationEssentials.Date

/// The job that delivers events to receivers: each at least once, and those of a user in their order.
///
///     events ─► not looked at yet ─► sent ─► delivered
///                                     └────► waits, by `WebhookSchedule` ─► … ─► given up
///
/// An event that was not taken waits, and so does everything of its user behind it; events of other users go on. An event
/// that was given up, or cannot be read, holds up nothing. What was sent and not recorded, as the process ended, is sent again with the same ID.
///
/// While nothing gets through, one event at a time is tried, ever more rarely, in turn one that is due and one that was never
/// tried. So events that are never taken hold up nobody but their users:
///
///     turns in vain   1     2      3      4      5       6       7 …
///     rest            5 s   10 s   20 s   40 s   1.3 m   2.7 m   5 min
package struct WebhookDeliverer: Service {
  package enum Attempt: String, Hashable, Sendable, CaseIterable {
    case delivered
    case failed
    /// The last attempt of an event failed.
    case dead
    /// The receiver wants nothing more.
    case gone
  }

  var endpoints: [WebhookEndpoint]
  var sender: any WebhookSender
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  var jitter: @Sendable (Duration) -> Duration
  /// The pause after a turn without work, unless an event comes.
  var pause: Duration
  /// The catalog and the scope of entitlements turn tiers into RevenueCat's format.
  var catalog: Catalog
  var entitlements: Plans.EntitlementScope
  var onAttempt: @Sendable (_ webhook: String, Attempt, Duration) -> Void
  let claims: WebhookClaims

  /// Events of one turn: those that wait, and those that nobody has looked at.
  static let dueBatch = 32
  static let freshBatch = 100
  /// Users whose events are delivered at the same time.
  static let width = 8
  /// Standard Webhooks, section "Request timeouts": 15 to 30 s.
  static let longestAttempt = HTTPWebhookSender.deadline
  static let rest = Backoff(base: .seconds(5), cap: .seconds(300))

  package init(
    endpoints: [WebhookEndpoint], sender: any WebhookSender, ledger: Ledger, logger: Logger,
    now: @escaping @Sendable () -> Date, jitter: @escaping @Sendable (Duration) -> Duration, pause: Duration,
    catalog: Catalog, entitlements: Plans.EntitlementScope,
    onAttempt: @escaping @Sendable (_ webhook: String, Attempt, Duration) -> Void
  ) {
    self.endpoints = endpoints
    self.sender = sender
    self.ledger = ledger
    self.logger = logger
    self.now = now
    self.jitter = jitter
    self.pause = pause
    self.catalog = catalog
    self.entitlements = entitlements
    self.onAttempt = onAttempt
    claims = WebhookClaims(ledger: ledger, names: endpoints.map(\.name))
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      await claims.renew(at: now(), logger)
      await withTaskGroup(of: Void.self) { group in
        if ledger.isShared {
          group.addTask {
            await repeatUntilCancelled {
              await claims.renew(at: now(), logger)
              return pause * WebhookClaims.pollsPerRenewal
            }
          }
        }
        for endpoint in endpoints { group.addTask { await follow(endpoint) } }
      }
    }
    await claims.release()
  }

  private func follow(_ endpoint: WebhookEndpoint) async {
    var pace = Pace()
    while !Task.isCancelled {
      let rings = ledger.bell.rings
      let goesOn = await turn(endpoint, &pace)
      if !goesOn { await ledger.bell.wait(after: rings, atMost: pause) }
    }
  }

  struct Pace {
    /// Turns in which nothing got through.
    var failures = 0
    var restsUntil = Date.distantPast
  }

  private struct Sending: Sendable {
    var event: ChangeEvent
    var attempts: Int
    /// One, but for formats that tell some events by several.
    var messages: [WebhookMessage]
  }

  /// - Returns: whether there may be more to do at once.
  func turn(_ endpoint: WebhookEndpoint, _ pace: inout Pace) async -> Bool {
    let start = now()
    guard !Self.rest.isResting(until: pace.restsUntil, at: start) else { return false }
    guard claims.holds(endpoint.name, at: start, for: Self.longestAttempt) else { return false }
    let isProbing = pace.failures > 0
    do throws(LedgerError) {
      var work = try await ledger.webhookWork(
        of: endpoint.name, dueAt: start, due: isProbing ? 1 : Self.dueBatch, fresh: Self.freshBatch,
        withPayloads: endpoint.format == .appStore, withAttributes: endpoint.format == .revenuecat)
      guard work.isEnabled, !work.due.isEmpty || !work.fresh.isEmpty else { return false }
      if isProbing { choose(from: &work, for: endpoint, after: pace.failures) }
      let unreadable = giveUpUnreadable(in: work, for: endpoint)
      let (results, isGone) = await send(work, to: endpoint)
      // The rest counts from the moment that is recorded.
      let end = now()
      try await ledger.settleWebhook(
        endpoint.name, by: claims.holder, unreadable + results, through: work.fresh.last?.sequence, isGone: isGone,
        at: end)
      return note(results, isGone: isGone, isFull: work.fresh.count == Self.freshBatch, endpoint, at: end, &pace)
    } catch {
      logger.warning(
        "webhooks cannot be read or recorded", metadata: ["webhook": "\(endpoint.name)", "error": "\(error)"])
      return false
    }
  }

  /// Leaves one event to send: one that is due or, every other time, the first fresh one that has to wait for nothing, with
  /// what comes before it.
  private func choose(from work: inout WebhookWork, for endpoint: WebhookEndpoint, after failures: Int) {
    guard failures.isMultiple(of: 2) || work.due.isEmpty else { return work.fresh = [] }
    let first = work.fresh.firstIndex { event in
      endpoint.wants(event.type) && !work.blocked.contains(event.user)
        && !messages(of: event, for: endpoint, work).isEmpty
    }
    if let first {
      work.due = []
      work.fresh.removeSubrange((first + 1)...)
    } else if work.fresh.count == Self.freshBatch {
      // It may be on the next page.
      work.due = []
    }
  }

  private func giveUpUnreadable(in work: WebhookWork, for endpoint: WebhookEndpoint) -> [WebhookResult] {
    let fresh = work.fresh.filter { endpoint.takes($0.type) }.map { (event: $0, attempts: 0) }
    let unreadable = (work.due.map { (event: $0.event, attempts: $0.attempts) } + fresh).filter(\.event.isUnreadable)
    return unreadable.map { event, attempts in
      logger.error(
        "an event in the ledger cannot be read, and was given up",
        metadata: ["webhook": "\(endpoint.name)", "event_id": "\(event.id)", "type": "\(event.type)"])
      return WebhookResult(of: event, .dead(attempts: attempts, problem: "unreadable"))
    }
  }

  private func note(
    _ results: [WebhookResult], isGone: Bool, isFull: Bool, _ endpoint: WebhookEndpoint, at end: Date,
    _ pace: inout Pace
  ) -> Bool {
    let isDelivered = results.contains { $0.outcome == .delivered }
    let isFailed = results.contains { result in
      switch result.outcome {
      case .failed, .dead: true
      case .delivered, .untold, .waits: false
      }
    }
    if isDelivered {
      if pace.failures > 0 {
        logger.notice("a webhook's receiver answers again", metadata: ["webhook": "\(endpoint.name)"])
      }
      pace = Pace()
    } else if isFailed {
      pace.restsUntil = end.advanced(by: Self.rest.drawn(after: pace.failures, jitter: jitter))
      pace.failures += 1
    }
    return !isGone && (isDelivered || (isFull || results.contains { $0.outcome == .untold }) && !isFailed)
  }

  // MARK: Sending

  /// Sends retries and new events: users in parallel, one user's in order.
  private func send(
    _ work: WebhookWork, to endpoint: WebhookEndpoint
  ) async -> (results: [WebhookResult], isGone: Bool) {
    var results: [WebhookResult] = []
    var users: [UserID] = []
    var ofUser: [UserID: [Sending]] = [:]
    func add(_ event: ChangeEvent, attempts: Int, _ messages: [WebhookMessage]) {
      if ofUser[event.user] == nil { users.append(event.user) }
      ofUser[event.user, default: []].append(Sending(event: event, attempts: attempts, messages: messages))
    }
    for one in work.due where !one.event.isUnreadable {
      let messages = messages(of: one.event, for: endpoint, work)
      guard !messages.isEmpty else {
        // The receiver has another format now, in which there is no such event.
        results.append(WebhookResult(of: one.event, .untold))
        continue
      }
      add(one.event, attempts: one.attempts, messages)
    }
    for event in work.fresh where endpoint.wants(event.type) {
      let messages = messages(of: event, for: endpoint, work)
      guard !messages.isEmpty else { continue }
      if work.blocked.contains(event.user) {
        results.append(WebhookResult(of: event, .waits))
      } else {
        add(event, attempts: 0, messages)
      }
    }
    let queues = users.compactMap { ofUser[$0] }
    let sent = await mapConcurrently(queues, width: Self.width, while: { !$0.isInVain }) { queue in
      await send(queue, to: endpoint)
    }
    results += sent.flatMap(\.results)
    // Where nothing got through, the others were not tried. What was due before stays as it is.
    let tried = Set(sent.flatMap(\.results).map(\.sequence))
    for one in queues.joined()
    where !tried.contains(one.event.sequence) && work.fresh.contains(where: { $0.sequence == one.event.sequence }) {
      results.append(WebhookResult(of: one.event, .waits))
    }
    return (results, sent.contains(where: \.isGone))
  }

  private struct Sent: Sendable {
    var results: [WebhookResult] = []
    var isGone = false
    /// The first of the user's failed, so that the receiver may be away.
    var isInVain = false
  }

  private func send(_ queue: [Sending], to endpoint: WebhookEndpoint) async -> Sent {
    var sent = Sent()
    for (index, one) in queue.enumerated() {
      guard claims.holds(endpoint.name, at: now(), for: Self.longestAttempt * one.messages.count) else {
        // Another replica goes on.
        sent.isInVain = true
        return sent
      }
      let begin = ContinuousClock.now
      var outcome = WebhookOutcome.delivered
      for message in one.messages where outcome == .delivered {
        outcome = await sender.send(message, to: endpoint, at: now().millisecondsSince1970 / 1_000)
      }
      let (result, attempt) = judge(outcome, of: one, endpoint)
      // A shutdown is no failure of the receiver's.
      guard !Task.isCancelled || outcome == .delivered else {
        sent.isInVain = true
        return sent
      }
      onAttempt(endpoint.name, attempt, begin.duration(to: .now))
      sent.results.append(WebhookResult(of: one.event, result))
      guard outcome != .delivered else { continue }
      sent.isGone = outcome == .gone
      sent.isInVain = index == 0
      sent.results += queue[(index + 1)...].map { WebhookResult(of: $0.event, .waits) }
      break
    }
    return sent
  }

  private func judge(
    _ outcome: WebhookOutcome, of one: Sending, _ endpoint: WebhookEndpoint
  ) -> (WebhookResult.Outcome, Attempt) {
    let attempts = one.attempts + 1
    var metadata: Logger.Metadata = [
      "webhook": "\(endpoint.name)", "event_id": "\(one.event.id)", "type": "\(one.event.type)",
      "attempt": .stringConvertible(attempts),
    ]
    switch outcome {
    case .delivered:
      logger.debug("an event was delivered", metadata: metadata)
      return (.delivered, .delivered)
    case .gone:
      logger.error(
        "a webhook's receiver answered 410, and gets no more events: redeliver to it, or change its URL",
        metadata: metadata)
      return (.failed(attempts: attempts, due: now(), problem: "http_410"), .gone)
    case .failed(let problem, let retryAfter):
      metadata["problem"] = "\(problem)"
      guard
        let pause = WebhookSchedule.pause(
          after: attempts, in: endpoint.format, retryAfter: retryAfter, jitter: jitter)
      else {
        logger.error("an event was given up: it can be redelivered", metadata: metadata)
        return (.dead(attempts: attempts, problem: problem), .dead)
      }
      logger.warning("an event was not delivered", metadata: metadata)
      return (.failed(attempts: attempts, due: now().advanced(by: pause), problem: problem), .failed)
    }
  }

  /// - Returns: no message for an event that the format does not have, or that cannot be read.
  private func messages(
    of event: ChangeEvent, for endpoint: WebhookEndpoint, _ work: WebhookWork
  ) -> [WebhookMessage] {
    guard !event.isUnreadable else { return [] }
    return switch endpoint.format {
    case .countersign:
      event.type == EventType.forwarded ? [] : [WebhookMessage(id: event.id, body: EventDocument.json(of: event))]
    case .revenuecat:
      RevenueCatDocument(
        appID: endpoint.appID, attributes: work.attributes[event.user] ?? [:], catalog: catalog, scope: entitlements
      ).messages(of: event)
    // The text went with the user whom it named, or was too long to keep.
    case .appStore:
      event.payload.map { payload in
        [WebhookMessage(id: event.id, body: JSONWriter.object { json in json.member("signedPayload", payload) })]
      } ?? []
    }
  }
}

extension WebhookEndpoint {
  /// Whether events of a type are for the receiver: it wants them, and its format may have them.
  package func takes(_ type: String) -> Bool {
    switch format {
    case .countersign: wants(type) && type != EventType.forwarded
    case .revenuecat: wants(type) && RevenueCatDocument.mayHave(type)
    case .appStore: type == EventType.forwarded
    }
  }
}
