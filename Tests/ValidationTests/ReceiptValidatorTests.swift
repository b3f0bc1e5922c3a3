import Entitlements
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Validation

@Suite struct ReceiptValidatorTests {
  /// Expects a refusal with this code.
  @discardableResult private static func expect(
    _ code: String, sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
  ) async -> ValidationError? {
    let error = await #expect(throws: ValidationError.self, sourceLocation: sourceLocation) { try await body() }
    #expect(error?.code == code, sourceLocation: sourceLocation)
    return error
  }

  @Test func `a receipt is asked about, evaluated, recorded and written back, in this order`() async throws {
    try await UseCase.run(hasProfileStore: true) { useCase in
      let answer = try await useCase.validate(try useCase.receipt(.renewing), of: "anna")
      #expect(answer.entitlement.tier == "pro")
      #expect(answer.entitlement.reason == .renewing)
      #expect(!answer.isFromLedger && !answer.isPending)
      #expect(answer.write == .committed)
      #expect(useCase.upstreams.order == ["apple", "rows"])
      #expect(useCase.upstreams.rows.count == 1)
      #expect(useCase.upstreams.rows.first?.contains(#""subscription_tier":"pro""#) == true)
      let recorded = try #require(try await useCase.ledger.profile(of: "anna"))
      #expect(recorded.entitlement == answer.entitlement)
      #expect(recorded.version == 1)
    }
  }

  @Test func `the same receipt again records no second verdict`() async throws {
    try await UseCase.run { useCase in
      let receipt = try useCase.receipt(.renewing)
      let first = try await useCase.validate(receipt, of: "anna")
      let second = try await useCase.validate(receipt, of: "anna")
      #expect(second.entitlement.tier == first.entitlement.tier)
      #expect(try await useCase.ledger.profile(of: "anna")?.version == 1)
      #expect(useCase.upstreams.order == ["apple", "apple"])
    }
  }

  @Test func `a row that cannot be written keeps the verdict, and waits`() async throws {
    try await UseCase.run(hasProfileStore: true) { useCase in
      useCase.upstreams.setRowsAway(true)
      let answer = try await useCase.validate(try useCase.receipt(.renewing), of: "anna")
      #expect(answer.entitlement.tier == "pro")
      #expect(answer.write == .queued)
      #expect(try await useCase.ledger.waitingUpdate(of: "anna")?.entitlement.tier == "pro")
    }
  }

  @Test func `without Apple a known purchase stands, marked stale, and a new one waits`() async throws {
    try await UseCase.run { useCase in
      let known = try useCase.receipt(.renewing)
      _ = try await useCase.validate(known, of: "anna")
      useCase.upstreams.setAppleAway(true)
      let again = try await useCase.validate(known, of: "anna")
      #expect(again.entitlement.tier == "pro")
      #expect(again.entitlement.isStale && again.isFromLedger && !again.isPending)
      let new = try await useCase.validate(try useCase.receipt(.lifetime, subscriber: 2), of: "ben")
      #expect(new.isPending)
      #expect(new.entitlement.tier == "free")
      #expect(try await useCase.ledger.backlog(at: UseCase.start).pendingReceipts == 1)
    }
  }

  @Test func `a new purchase counts on its signature where the policy says so, and not where it is forged`()
    async throws
  {
    try await UseCase.run(provisional: .seconds(86_400)) { useCase in
      useCase.upstreams.setAppleAway(true)
      let signed = try await useCase.validate(try useCase.receipt(.renewing), of: "anna")
      #expect(signed.isPending && signed.entitlement.isProvisional)
      #expect(signed.entitlement.tier == "pro")
      let forged = try await useCase.validate(try useCase.receipt(.renewing, subscriber: 2, format: .forged), of: "eve")
      #expect(forged.entitlement.tier == "free")
    }
  }

  @Test func `a receipt that Apple does not authenticate is refused, and nothing of it is kept`() async throws {
    try await UseCase.run(provisional: .seconds(86_400)) { useCase in
      let receipt = try useCase.receipt(.renewing, format: .padded)
      await Self.expect("not_authentic") { _ = try await useCase.validate(receipt, of: "eve") }
      #expect(try await useCase.ledger.profile(of: "eve") == nil)
      #expect(try await useCase.ledger.backlog(at: UseCase.start).pendingReceipts == 0)
    }
  }

  @Test(
    arguments: [
      (.forged, .status21002), (.forged, .status21005), (.forged, .status21009), (.forged, .status21004),
      (.forged, .status21199),
      // Apple alone can tell about this kind, so that anybody can make one up.
      (.ios6, .status21002),
    ] as [(ReceiptFormat, Trouble)])
  func `a receipt that nothing proves is not kept once Apple has said anything of it`(
    format: ReceiptFormat, trouble: Trouble
  ) async throws {
    try await UseCase.run(provisional: .seconds(86_400)) { useCase in
      useCase.upstreams.setTrouble(trouble)
      let receipt = try useCase.receipt(.renewing, format: format)
      // Not a verdict either: roots may be out of date here, and a purchase must not be lost by that.
      await Self.expect("app_store_unavailable") { _ = try await useCase.validate(receipt, of: "eve") }
      #expect(try await useCase.ledger.backlog(at: UseCase.start).pendingReceipts == 0)
    }
  }

  @Test(arguments: [Trouble.http503, .html, .missingReceipt])
  func `a receipt that is refuted here waits while Apple is silent, and counts for nothing`(trouble: Trouble)
    async throws
  {
    try await UseCase.run(provisional: .seconds(86_400)) { useCase in
      useCase.upstreams.setTrouble(trouble)
      let answer = try await useCase.validate(try useCase.receipt(.renewing, format: .forged), of: "eve")
      #expect(answer.isPending && answer.entitlement.tier == "free" && !answer.entitlement.isProvisional)
    }
  }

  @Test func `a receipt that only Apple can prove waits while Apple has trouble`() async throws {
    try await UseCase.run(provisional: .seconds(86_400)) { useCase in
      useCase.upstreams.setTrouble(.status21009)
      let answer = try await useCase.validate(try useCase.receipt(.renewing, format: .ios6), of: "anna")
      #expect(answer.isPending)
    }
  }

  @Test func `a receipt that Apple refuses once, and then is away, is neither kept nor granted`() async throws {
    try await UseCase.run(provisional: .seconds(86_400)) { useCase in
      useCase.upstreams.setTrouble(.status21003)
      useCase.upstreams.setAppleAway(true, after: 1)
      let receipt = try useCase.receipt(.renewing)
      let error = await Self.expect("app_store_unavailable") { _ = try await useCase.validate(receipt, of: "eve") }
      #expect(error?.appleStatus == 21003)
      #expect(try await useCase.ledger.profile(of: "eve") == nil)
      #expect(try await useCase.ledger.backlog(at: UseCase.start).pendingReceipts == 0)
      useCase.upstreams.setAppleAway(false)
      await Self.expect("not_authentic") { _ = try await useCase.validate(receipt, of: "eve") }
    }
  }

  @Test func `a purchase whose receipt Apple calls malformed is reserved for the first who presents it`() async throws {
    try await UseCase.run(provisional: .seconds(86_400)) { useCase in
      let receipt = try useCase.receipt(.renewing)
      useCase.upstreams.setTrouble(.status21002)
      let reserved = try await useCase.validate(receipt, of: "anna")
      #expect(reserved.isPending && reserved.entitlement.tier == "free")
      useCase.upstreams.setAppleAway(true)
      for (user, isFirst) in [("eve", false), ("anna", true), ("eve", false)] as [(UserID, Bool)] {
        let answer = try await useCase.validate(receipt, of: user)
        #expect(answer.isPending && answer.entitlement.isProvisional == isFirst)
        #expect(answer.entitlement.tier == (isFirst ? "pro" : "free"))
      }
    }
  }

  @Test(arguments: [
    (OwnershipPolicy.keep, "anna" as UserID), (.transfer, "ben"), (.transferIfInactive, "anna"),
  ])
  func `a purchase has one owner, by the policy`(ownership: OwnershipPolicy, owner: UserID) async throws {
    try await UseCase.run(ownership: ownership) { useCase in
      let receipt = try useCase.receipt(.renewing)
      _ = try await useCase.validate(receipt, of: "anna")
      if owner == "anna" {
        await Self.expect("owned_by_another_user") { _ = try await useCase.validate(receipt, of: "ben") }
      } else {
        #expect(try await useCase.validate(receipt, of: "ben").entitlement.tier == "pro")
      }
      for user: UserID in ["anna", "ben"] {
        let tier = try await useCase.ledger.profile(of: user)?.entitlement.tier ?? "free"
        #expect(tier == (user == owner ? "pro" : "free"))
      }
    }
  }

  @Test func `a purchase that the catalog does not know has one owner too, an empty receipt none`() async throws {
    try await UseCase.run { useCase in
      let unknown = try useCase.receipt(.unknownProduct)
      let answer = try await useCase.validate(unknown, of: "anna")
      #expect(answer.entitlement.reason == .noKnownProduct)
      await Self.expect("owned_by_another_user") { _ = try await useCase.validate(unknown, of: "ben") }
      _ = try await useCase.validate(unknown, of: "anna")
      let empty = try useCase.receipt(.empty, subscriber: 2)
      for user: UserID in ["anna", "ben"] { _ = try await useCase.validate(empty, of: user) }
    }
  }

  @Test(arguments: OwnershipPolicy.allCases)
  func `an ID proves nothing: it refreshes what its user owns, and moves nothing`(ownership: OwnershipPolicy)
    async throws
  {
    try await UseCase.run(ownership: ownership) { useCase in
      let issued = try useCase.upstreams.apple.issue(ReceiptOrder(scenario: .renewing))
      _ = try await useCase.validate(issued.receiptData, of: "anna")
      let id = OriginalTransactionID(try #require(issued.originalTransactionIDs.first))
      func ask(_ user: UserID) async throws(ValidationError) -> ValidatedEntitlement {
        try await useCase.validator.validate(
          ReceiptSubmission(user: user, proof: .originalTransactionID(id), requestID: "request"),
          logger: UseCase.logger)
      }
      #expect(try await ask("anna").entitlement.tier == "pro")
      let asked = useCase.upstreams.order
      await Self.expect("owned_by_another_user") { _ = try await ask("ben") }
      #expect(useCase.upstreams.order == asked)
      #expect(try await useCase.ledger.profile(of: "anna")?.entitlement.tier == "pro")
      #expect(try await useCase.ledger.profile(of: "ben") == nil)
      guard ownership == .transfer else { return }
      // Nor does it take anything back.
      _ = try await useCase.validate(issued.receiptData, of: "ben")
      await Self.expect("owned_by_another_user") { _ = try await ask("anna") }
      #expect(try await useCase.ledger.profile(of: "ben")?.entitlement.tier == "pro")
    }
  }

  @Test func `a job whose verdict is not approved records nothing`() async throws {
    try await UseCase.run { useCase in
      let receipt = try useCase.receipt(.renewing)
      _ = try await useCase.validate(receipt, of: "anna")
      useCase.upstreams.apple.clock.advance(milliseconds: 90 * 86_400_000)
      let ended = try useCase.receipt(.expiredVoluntary)
      await Self.expect("internal_error") {
        _ = try await useCase.validate(ended, of: "anna", .recheck(approves: { _, _ in false }))
      }
      #expect(try await useCase.ledger.profile(of: "anna")?.entitlement.tier == "pro")
    }
  }
}
