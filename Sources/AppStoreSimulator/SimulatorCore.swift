import Logging
import Synchronization

/// What the listeners and the running simulator share.
struct SimulatorCore: Sendable {
  let clock: SimulatedClock
  let issuer: ReceiptIssuer
  let troubles: TroubleSwitch
  let calls: CallBook
  let delay: AnswerDelay
  let verifyReceipt: VerifyReceipt
  let logger: Logger

  init(configuration: Simulator.Configuration, pki: DevelopmentPKI) {
    clock = SimulatedClock(standingAt: configuration.clock.map { Timestamp($0) })
    issuer = ReceiptIssuer(pki: pki)
    troubles = TroubleSwitch()
    calls = CallBook()
    delay = AnswerDelay()
    logger = configuration.logger
    verifyReceipt = VerifyReceipt(
      issuer: issuer, clock: clock, troubles: troubles, calls: calls, sharedSecret: configuration.sharedSecret)
  }
}

/// How long every answer is held back.
final class AnswerDelay: Sendable {
  private let delay = Mutex(Duration.zero)

  var current: Duration { delay.withLock { $0 } }

  func set(_ delay: Duration) {
    self.delay.withLock { $0 = max(delay, .zero) }
  }
}
