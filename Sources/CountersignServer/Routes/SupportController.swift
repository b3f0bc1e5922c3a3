import CountersignAPI
import Entitlements
import HTTPTransport
import HTTPTypes
import Hummingbird
import Ledger
import Validation

import struct FoundationEssentials.Date

/// The routes for support: find the user behind an ID, read a history, ask Apple again, and move a purchase.
struct SupportController: Controller {
  var ledger: Ledger
  var revalidation: UserRevalidation
  var transfer: PurchaseTransfer
  var lookUp: SupportLookUp
  var rules: EntitlementRules
  var body = JSONRequestBody(limit: BodyBudgets.supportLimit)
  var budget: ByteBudget
  var now: @Sendable () -> Date

  func addRoutes(to routes: Routes) {
    routes.serve("/v1/lookup/{id}", [.get: find])
    routes.serve("/v1/profiles/{user_id}/history", [.get: history])
    routes.serve("/v1/profiles/{user_id}/revalidation", [.post: revalidate])
    routes.serve("/v1/transactions/{original_transaction_id}", [.get: transaction])
    routes.serve("/v1/transactions/{original_transaction_id}/transfer", [.post: transfer])
    routes.serve("/v1/notifications/refused", [.get: refusedNotifications])
  }

  // MARK: GET /v1/lookup/{id}

  func find(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support)
    guard let text = context.parameters["id"].flatMap(UserID.percentDecoded) else {
      throw Problem(.malformedRequest, "The ID in the path is not percent-encoded UTF-8.")
    }
    // Apple's IDs are letters and digits, as users' may be; one of Xcode's may be 0, which names no user.
    // 64 bits have at most 20 digits.
    let isNumber = text.utf8.count <= 20 && UInt64(text) != nil
    let id = isNumber ? UserID(text) : try UserID(checking: text, named: "id")
    let found = try await context.validating(await lookUp.find(id, logger: context.logger))
    return JSONBody.uncached(LookUpResponse(id: text, found, purchases: try await bodies(of: found.purchases, context)))
  }

  // MARK: GET /v1/profiles/{user_id}/history

  func history(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support)
    let user = try context.checkedUserInPath()
    let limit = try request.wholeNumber("limit", in: 1...200) ?? 50
    let position = try request.parameter("cursor").map { text throws(Problem) in
      guard let position = TimelinePosition(cursor: text) else {
        throw Problem(.malformedRequest, "'cursor' is unknown: take it from 'next' of the previous page.")
      }
      return position
    }
    let (page, profile) = try await context.reading(
      (
        await ledger.timeline(of: user, before: position, limit: limit),
        await ledger.profile(of: user)
      ))
    let evidence = try await context.reading(await ledger.includingPast(profile?.evidence ?? [], of: user))
    return JSONBody.uncached(
      HistoryResponse(
        userID: user.rawValue, now: ExplainedEntitlement(rules.standing(of: user, profile, at: now()), after: nil),
        periods: PurchasePeriod.all(of: evidence, rules: rules),
        entries: page.events.map { HistoryEvent($0, for: user) },
        next: page.next.map {
          "/v1/profiles/\(user.rawValue.percentEncoded)/history?limit=\(limit)&cursor=\($0.cursor)"
        }))
  }

  // MARK: POST /v1/profiles/{user_id}/revalidation

  func revalidate(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.support, .service)
    let user = try context.checkedUserInPath()
    // A server need not say why, and need not send a body to say nothing. Of support the note is missing.
    let posted = try await body.decodeIfPresent(UserRevalidationRequest.self, from: request, budget.loan())
    defer { withExtendedLifetime(posted?.loan) {} }
    let said = try NoteText.checked(posted?.value.note, by: caller).map { note(of: caller, $0, context) }
    let answer = try await context.validating(
      await revalidation.revalidate(user, note: said, requestID: context.requestID, logger: context.logger))
    return JSONBody.uncached(EntitlementResponse(answer))
  }

  // MARK: /v1/notifications/refused

  /// Answers the newest fifty of each kind, proven and unproven; the ledger keeps a thousand.
  func refusedNotifications(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support, .service)
    let refused = try await context.reading(await ledger.refusedNotifications(limit: 50))
    return JSONBody.uncached(
      RefusedNotifications(
        notifications: refused.map { one in
          RefusedNotifications.Entry(receivedAt: one.receivedAt, problem: one.problem, isAuthentic: one.isSigned)
        }))
  }

  // MARK: /v1/transactions/{original_transaction_id}

  func transaction(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.support)
    let id = try context.originalTransactionIDInPath()
    let purchases = try await context.reading(await ledger.ownedPurchases(id))
    guard !purchases.isEmpty else { throw Self.neverSeen }
    return JSONBody.uncached(
      TransactionResponse(originalTransactionID: id.rawValue, purchases: try await bodies(of: purchases, context)))
  }

  /// Purchases as reads show them, each held by the verdict on its owner.
  private func bodies(
    of purchases: [OwnedPurchase], _ context: ServiceRequestContext
  ) async throws(Problem) -> [PurchaseResponse] {
    var bodies: [PurchaseResponse] = []
    for purchase in purchases {
      let owner = try await context.reading(await ledger.profile(of: purchase.owner))
      bodies.append(body(of: purchase, recorded: owner?.entitlement))
    }
    return bodies
  }

  func transfer(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireCaller(.support)
    let id = try context.originalTransactionIDInPath()
    let posted = try await body.decode(TransferRequest.self, from: request, budget.loan())
    defer { withExtendedLifetime(posted.loan) {} }
    let user = try UserID(checking: posted.value.to, named: "to")
    guard let text = try posted.value.note.map(NoteText.checked) else { throw NoteText.missing }
    let environment = try posted.value.environment.map(StoreEnvironment.checked)
    let key = try await key(of: id, in: environment, context)
    let note = note(of: caller, text, context)
    let creates = posted.value.create ?? false
    let purchase: OwnedPurchase?
    do throws(Problem) {
      purchase =
        if let key {
          try await context.validating(
            await transfer.transfer(key, to: user, creates: creates, note: note, logger: context.logger))
        } else {
          try await context.validating(
            await transfer.claim(id, in: environment, for: user, creates: creates, note: note, logger: context.logger))
        }
    } catch {
      // Support cannot post the purchase, which the usual sentence asks for.
      throw error.code == .unknownTransaction ? Self.neverSeen : error
    }
    guard let purchase else {
      throw Problem(
        .unknownUser, "This service has never seen the user of 'to'; if the ID is right, add '\"create\": true'.")
    }
    return JSONBody.uncached(body(of: purchase))
  }

  /// The two stores hand out IDs independently: where both know this one, the caller has to say which is meant.
  /// - Returns: `nil` for a purchase that nobody has.
  private func key(
    of id: OriginalTransactionID, in environment: StoreEnvironment?, _ context: ServiceRequestContext
  ) async throws(Problem) -> SubscriptionKey? {
    let keys = try await context.reading(await ledger.ownedPurchases(id))
      .map(\.evidence.key).filter { environment == nil || $0.environment == environment }
    guard keys.count <= 1 else { throw .inBothStores }
    return keys.first
  }

  /// - Parameter recorded: the verdict on its owner: where this purchase gave it, it stands until what the rules would take
  ///   is released.
  private func body(of purchase: OwnedPurchase, recorded: Entitlement? = nil) -> PurchaseResponse {
    PurchaseResponse(purchase, rules.standing(of: purchase.owner, [purchase.evidence], recorded: recorded, at: now()))
  }

  private static let neverSeen = Problem(
    .unknownTransaction, "This service has never seen a purchase with this original transaction ID.")

  private func note(of caller: ServerCaller, _ text: String, _ context: ServiceRequestContext) -> Note {
    Note(author: caller.name, text: text, requestID: context.requestID, recordedAt: now())
  }
}

extension LookUpResponse {
  init(id: String, _ found: SupportLookUp.Found, purchases: [PurchaseResponse]) {
    self.init(
      id: id, foundAs: found.kinds.map(\.rawValue), userID: found.user?.rawValue, purchases: purchases,
      unowned: found.unowned.map(UnownedPurchase.init), searchedAll: found.isComplete,
      appStore: found.appStore.rawValue)
  }
}

extension LookUpResponse.UnownedPurchase {
  fileprivate init(_ purchase: SupportLookUp.UnownedPurchase) {
    self.init(
      originalTransactionID: purchase.key.originalTransactionID.rawValue,
      environment: EntitlementState.Environment(purchase.key.environment), productID: purchase.productID?.rawValue,
      accountToken: purchase.accountToken, source: purchase.source.rawValue)
  }
}

extension PurchaseResponse {
  init(_ purchase: OwnedPurchase, _ entitlement: Entitlement) {
    let key = purchase.evidence.key
    self.init(
      originalTransactionID: key.originalTransactionID.rawValue,
      environment: EntitlementState.Environment(key.environment), userID: purchase.owner.shown,
      ownedSince: purchase.changes.first?.recordedAt, state: ExplainedEntitlement(entitlement, after: nil),
      ownershipChanges: purchase.changes.map { HistoryEvent($0, for: purchase.owner) })
  }
}
