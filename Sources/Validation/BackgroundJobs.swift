import Access
import AppStore
import Entitlements
package import Ledger
package import Logging
package import ServiceLifecycle

extension UseCases {
  /// The jobs that the service runs beside its requests, in the order of their start.
  ///
  /// - Parameters:
  ///   - replica: what this process is called among those that share a ledger.
  ///   - rate: how many subscriptions the jobs may ask Apple about in a second, all together.
  ///   - width: how many subscriptions of a run are asked about at the same time.
  ///   - eventAge: how long events are kept.
  ///   - historyAge: how long histories are kept whole; `nil`: for ever.
  ///   - consumption: the policy for answers to Apple's requests for consumption information.
  ///   - onConsumption: called with the last state of each request.
  ///   - onAccountToken: called where Apple was told the user of a purchase, or refuses it.
  ///   - onRemoved: called with the number of lines of the history that retention removed.
  ///   - isAppleAway: whether calls to Apple are useless at the moment.
  ///   - isAppleDoubtful: whether Apple was away when it last was called.
  ///   - asksForMissed: whether Apple is asked for missed notifications at the start and every day.
  ///   - refundSweep: how often Apple is asked for refunds of purchases that no check is due for; zero: never.
  ///   - pause: how long a job rests if it has nothing to do.
  package func backgroundJobs(
    replica: (id: String, name: String), rate: Int, width: Int, eventAge: Duration, historyAge: Duration?,
    consumption: ConsumptionPolicy, onConsumption: @escaping @Sendable (ConsumptionRequest.State) -> Void,
    onAccountToken: @escaping @Sendable (AccountTokenOutcome) -> Void,
    onRemoved: @escaping @Sendable (_ lines: Int) -> Void, isAppleAway: @escaping @Sendable () -> Bool,
    isAppleDoubtful: @escaping @Sendable () -> Bool, asksForMissed: Bool, refundSweep: Duration, pause: Duration,
    logger: Logger
  ) -> [any Service] {
    let now = now
    let isClockConfirmed: @Sendable () -> Bool = { [clock] in clock.isConfirmed }
    let check = SubscriptionCheck(validator: validator, ledger: ledger, brake: brake)
    let pacer = Pacer(rate: rate)
    let gate = NotificationGate()
    let serverAPI = validator.gateway.serverAPI
    if serverAPI == nil { gate.open() }
    func pruner(_ name: String, _ age: Duration, batch: Int = 500, _ prune: @escaping Pruner.Prune) -> Pruner {
      Pruner(
        name: name, age: age, batch: batch, logger: logger, now: now, isClockConfirmed: isClockConfirmed, prune: prune)
    }
    var jobs: [any Service] = [
      ClockWatch(
        clock: clock, catchUp: validator.gateway.catchUp, ledger: ledger, verdicts: validator.verdicts, logger: logger,
        pause: pause),
      PendingSettler(
        validator: validator, ledger: ledger, logger: logger, now: now, isAppleDoubtful: isAppleDoubtful,
        isClockConfirmed: isClockConfirmed, pause: pause),
      RecheckScheduler(
        check: check, ledger: ledger, brake: brake, logger: logger, now: now, isAppleAway: isAppleAway,
        isAppleDoubtful: isAppleDoubtful, mayBegin: { gate.isOpen }, pacer: pacer, pause: pause),
      RulesReviewer(
        review: review, rules: rules, ledger: ledger, brake: brake, logger: logger, now: now,
        pause: pause),
      pruner("notifications", Pruner.notificationAge, ledger.pruneNotifications),
      pruner("events", eventAge, ledger.pruneChangeEvents),
      pruner("customers", Customer.bareAge, ledger.pruneCustomers),
      RevenueCatFollower(
        check: check, ledger: ledger, logger: logger, now: now, pacer: pacer, pause: pause,
        lease: JobLease(ledger: ledger, name: "$revenuecat")),
      RevalidationRunner(
        check: check, ledger: ledger, brake: brake, logger: logger, now: now, isAppleAway: isAppleAway, pacer: pacer,
        width: width, progress: progress, pause: pause),
    ]
    if let serverAPI {
      jobs.append(
        NotificationCatchUp(
          history: history, serverAPI: serverAPI, receiver: notifications, ledger: ledger, logger: logger, now: now,
          pacer: pacer, deadline: validator.gateway.deadline, isAutomatic: asksForMissed, pause: pause, gate: gate))
      jobs.append(
        ConsumptionAnswerer(
          policy: consumption, serverAPI: serverAPI, catalog: rules.catalog, ledger: ledger, logger: logger, now: now,
          isClockConfirmed: isClockConfirmed, pacer: pacer, deadline: validator.gateway.deadline,
          isAway: serverAPI.isAway, pause: pause, onClosed: onConsumption))
      jobs.append(
        ExtensionFollower(
          extensions: extensions, ledger: ledger, logger: logger, now: now, pacer: pacer,
          deadline: validator.gateway.deadline, isAway: serverAPI.isAway, pause: pause))
    }
    if let serverAPI, validator.verdicts.tellsAccountTokens {
      jobs.append(
        AccountTokenTeller(
          serverAPI: serverAPI, ledger: ledger, logger: logger, now: now, pacer: pacer,
          deadline: validator.gateway.deadline, isAway: serverAPI.isAway, pause: pause, onEnd: onAccountToken))
    }
    if serverAPI != nil, refundSweep > .zero {
      jobs.append(
        RefundSweep(
          refunds: refunds, brake: brake, interval: refundSweep, logger: logger, now: now, mayBegin: { gate.isOpen },
          isAppleAway: isAppleAway, pacer: pacer, pause: pause))
    }
    if let historyAge {
      // The batch limits the rows examined: examining is what takes time.
      jobs.append(
        pruner("history", historyAge, batch: 100) { (moment, limit) async throws(LedgerError) in
          let thinned = try await ledger.thinHistory(before: moment, limit: limit)
          if thinned.removed > 0 {
            onRemoved(thinned.removed)
            logger.debug("history was removed by retention", metadata: ["lines": .stringConvertible(thinned.removed)])
          }
          return thinned.isBusy ? limit : thinned.examined
        })
    }
    if ledger.isShared {
      jobs.append(
        ReplicaWatch(
          ledger: ledger, pacer: pacer, brake: brake, review: review, replica: replica.id, name: replica.name,
          logger: logger))
    }
    if let writeBack = validator.verdicts.writeBack {
      jobs.append(
        UpdateDeliverer(writeBack: writeBack, ledger: ledger, logger: logger, now: now, pause: pause))
    }
    return jobs
  }
}
