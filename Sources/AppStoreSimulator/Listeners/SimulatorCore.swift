import Logging
import Synchronization

/// The state shared by the listeners and the running simulator.
struct SimulatorCore: Sendable {
  let clock: SimulatedClock
  let issuer: ReceiptIssuer
  let troubles: TroubleSwitch
  let calls: CallBook
  let delay: AnswerDelay
  let verifyReceipt: VerifyReceipt
  let serverAPI: ServerAPI
  let deviceCheck: DeviceCheckAPI
  let offers: PromotionalOffers
  let notifications: NotificationWriter
  let delivery: NotificationDelivery

  init(configuration: Simulator.Configuration, pki: DevelopmentPKI) throws {
    clock = SimulatedClock(standingAt: configuration.clock.map { Timestamp($0) })
    issuer = ReceiptIssuer(pki: pki)
    troubles = TroubleSwitch()
    calls = CallBook()
    delay = AnswerDelay()
    verifyReceipt = VerifyReceipt(
      issuer: issuer, clock: clock, troubles: troubles, calls: calls, sharedSecret: configuration.sharedSecret)
    deviceCheck = DeviceCheckAPI(
      devices: DeviceBitsRegistry(), tokens: try TeamTokens(startedAt: clock.now), clock: clock, troubles: troubles,
      calls: calls)
    offers = try PromotionalOffers(startedAt: clock.now)
    notifications = NotificationWriter(signer: pki.signedData)
    delivery = NotificationDelivery(
      customers: issuer.customers, writer: notifications, clock: clock, logger: configuration.logger)
    serverAPI = ServerAPI(
      customers: issuer.customers, signer: pki.signedData, tokens: try DeveloperTokens(startedAt: clock.now),
      clock: clock, troubles: troubles, calls: calls, delivery: delivery, notifications: notifications)
  }

  func issue(_ order: ReceiptOrder) throws(IssueError) -> IssuedReceipt {
    let receipt = try issuer.issue(order, at: clock.now)
    delivery.catchUp()
    return receipt
  }

  /// - Parameters:
  ///   - offer: with which the customer buys.
  ///   - eligibility: a JWS of the app's server on the introductory offer.
  func issueTransaction(
    _ order: ReceiptOrder, with offer: SignedOffer? = nil, eligibility: String? = nil
  ) throws(IssueError) -> IssuedTransaction {
    var order = order
    if offer != nil || eligibility != nil {
      let seed = try issuer.seed(of: order, at: clock.now)
      guard let newest = seed.newestRow(at: seed.createdAt) else { throw .nothingBought(order.scenario) }
      if let offer { order.offerID = try offers.accept(offer, of: newest.product, for: seed, at: clock.now) }
      if let eligibility {
        let isAllowed = try offers.accept(eligibility: eligibility, of: newest.product, for: seed, at: clock.now)
        guard isAllowed || !newest.isTrial else { throw .offer("the customer may not have the introductory offer") }
        order.hasIntroductoryOffer = isAllowed
      }
    }
    let transaction = try issuer.issueTransaction(order, at: clock.now)
    delivery.catchUp()
    return transaction
  }

  /// - Returns: a token that a device's app would get now.
  func deviceToken(of device: String, _ environment: StoreEnvironment) -> String {
    SimulatedDeviceToken(device: device, environment: environment, issuedAt: clock.now).text
  }

  /// Moves the clock, and posts the events in between.
  func moveClock(_ move: (SimulatedClock) -> Void) {
    move(clock)
    delivery.catchUp()
  }

  /// The events after `from`, up to and including `to`, of a transaction's customer.
  func notifications(
    of transactionID: String, after from: Timestamp, through to: Timestamp
  ) throws(IssueError) -> [SimulatedNotification] {
    guard let (customer, _, _) = issuer.customers.transaction(transactionID) else {
      throw .unknownTransaction(transactionID)
    }
    return try IssueError.signed { try notifications.notifications(of: customer.seed, after: from, through: to) }
  }

  /// A customer asks for a refund of a transaction: the store asks the app's server for consumption information, where it has
  /// its URL.
  func requestRefund(of transactionID: String, reason: String) throws(IssueError) -> SimulatedNotification {
    let now = clock.now
    guard let (customer, slot, number) = issuer.customers.transaction(transactionID),
      let row = customer.seed.state(at: now).rows.first(where: { $0.slot == slot && $0.number == number })
    else { throw .unknownTransaction(transactionID) }
    let event = StoreEvent(at: now, type: "CONSUMPTION_REQUEST", subtype: nil, row: row)
    let notification = try IssueError.signed { try notifications.write(event, of: customer.seed, reason: reason) }
    _ = delivery.post(notification)
    return notification
  }
}

/// The delay of every response.
final class AnswerDelay: Sendable {
  private let delay = Mutex(Duration.zero)

  var current: Duration { delay.withLock { $0 } }

  func set(_ delay: Duration) { self.delay.withLock { $0 = max(delay, .zero) } }
}
