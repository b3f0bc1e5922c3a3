internal import Entitlements
internal import struct FoundationEssentials.Date

extension RevenueCatReport: LedgerOperation {
  /// Records an event of RevenueCat's once: the event, what it means, the verdicts and the updates of the app's rows are
  /// written together or not at all.
  package func run(_ tables: LedgerTables) throws -> RevenueCatReportOutcome {
    try RevenueCatReportOperation(report: self, tables: tables).run()
  }
}

private struct RevenueCatReportOperation {
  private let report: RevenueCatReport
  private let tables: LedgerTables
  /// Whether the event names somebody who was erased: its text is not kept.
  private let namesErased: Bool

  init(report: RevenueCatReport, tables: LedgerTables) throws {
    var report = report
    func known(_ user: UserID) throws -> UserID {
      let user = try tables.accounts.name(of: user)
      return try tables.pseudonyms.pseudonym(ofErased: user) ?? user
    }
    switch report.content {
    case .purchase(let key, var event):
      event.user = try known(event.user)
      report.content = .purchase(key, event)
    case .hint(let key, var event):
      event.user = try known(event.user)
      report.content = .hint(key, event)
    case .temporary(let environment, let store, var event, let key):
      event.user = try known(event.user)
      report.content = .temporary(environment, store, event, key)
    case .transfer(let from, let to): report.content = .transfer(from: try from.map(known), to: try known(to))
    case .nothing: break
    }
    (self.report, self.tables) = (report, tables)
    namesErased = try report.users.contains { try tables.pseudonyms.pseudonym(ofErased: $0) != nil }
  }

  private var context: EvaluationContext { report.evaluationContext }

  func run() throws -> RevenueCatReportOutcome {
    guard try !tables.notifications.isKnown(report.uuid) else { return .duplicate }
    let outcome: RevenueCatReportOutcome
    var key: SubscriptionKey?
    switch report.content {
    case .purchase(let purchase, let event):
      key = purchase
      outcome = try record(event, of: purchase)
    case .hint(let purchase, let event):
      key = purchase
      outcome = try keepHint(event, of: purchase)
    case .temporary(let environment, let store, let event, let purchase):
      key = purchase
      outcome = try giveTemporarily(event, environment, store, purchase)
    case .transfer(let from, let to): outcome = try transfer(from, to: to, report.ownership)
    case .nothing: outcome = .noted
    }
    var user: UserID?
    if case .recorded(let owner, _, _) = outcome { user = owner }
    let entry = NotificationEntry(
      uuid: report.uuid, type: report.type, subtype: report.store?.rawValue, environment: report.environment,
      signedAt: report.at, receivedAt: context.recordedAt, payload: namesErased ? "" : report.payload,
      evaluatedAt: context.evaluatedAt, rules: context.rules)
    try tables.notifications.append(entry, about: key, outcome: user == nil ? .noted : .recorded, user: user)
    return outcome
  }

  /// Whether a purchase by itself gives nothing.
  private func isInactive(_ evidence: SubscriptionEvidence, of user: UserID, at moment: Date) -> Bool {
    context.rules.evaluate(user, [evidence], among: nil, given: [], at: moment).isInactive
  }

  private func writer(for account: Account) throws -> VerdictWriter {
    try tables.writer(
      context, requestID: report.uuid, digest: tables.accounts.newestDigest(of: account),
      evidenceAt: StoredForm.milliseconds(report.at), rowsClaimedUntil: report.rowsClaimedUntil)
  }

  // MARK: Other stores

  private func record(_ event: StoreEvent, of key: SubscriptionKey) throws -> RevenueCatReportOutcome {
    let stored = try tables.otherStores.purchase(key)
    guard let event = named(event, or: stored?.owner) else { return .noted }
    try endTemporary(of: event.user, at: key, before: event.at)
    let events = StoreEvent.adding(event, to: stored?.events ?? [])
    let owner = try owner(of: events, key) ?? event.user
    var purchase =
      stored ?? OtherStoreTable.RevenueCatPurchase(owner: owner, events: [], evidence: .unreported(key, at: event.at))
    purchase.events = events
    purchase.evidence = SubscriptionEvidence(events, of: key) ?? .unreported(key, at: event.at)
    purchase.dueAt = report.nextTurn(purchase.evidence, max(context.evaluatedAt, purchase.evidence.evaluatedAt))
    let losers = try save(purchase, owner: owner)
    let name = try tables.accounts.name(of: owner)
    return .recorded(owner: name, losers: losers, isForAnother: event.user != name)
  }

  /// An event whose user cannot be read counts for the owner of its purchase; `nil` where there is none.
  private func named(_ event: StoreEvent, or owner: UserID?) -> StoreEvent? {
    guard event.user == .nobody else { return event }
    var event = event
    event.user = owner ?? .nobody
    return owner == nil ? nil : event
  }

  private func owner(of events: [StoreEvent], _ key: SubscriptionKey) throws -> UserID? {
    guard let first = events.first else { return nil }
    let transfers = try tables.storeTransfers.transfers(from: first.user)
    return StoreEvent.owner(of: events, transfers: transfers) { events, moment in
      guard let evidence = SubscriptionEvidence(events, of: key) else { return true }
      return isInactive(evidence, of: first.user, at: moment)
    }
  }

  /// Saves a purchase, with its owner and both verdicts.
  /// - Returns: the user who had it before, if it was another one.
  private func save(_ purchase: OtherStoreTable.RevenueCatPurchase, owner: UserID) throws -> [UserID] {
    var purchase = purchase
    let former = purchase.id == nil ? nil : purchase.owner
    var winner = try tables.accounts.knownOrNewAccount(of: owner)
    purchase.owner = winner.user
    let id = try tables.otherStores.save(purchase)
    guard former != winner.user else {
      try writer(for: winner).reevaluateIfChanged(&winner)
      return []
    }
    return try OwnershipMove(tables: tables, gained: [(id, from: former)], writer: writer).run(to: &winner)
  }

  // MARK: Hints

  private func keepHint(_ event: StoreEvent, of key: SubscriptionKey) throws -> RevenueCatReportOutcome {
    let key = try tables.purchases.successor(of: key) ?? key
    let (owner, stored) = try (tables.purchases.purchase(key)?.owner, tables.otherStores.report(key))
    guard let event = named(event, or: owner ?? stored?.user) else { return .noted }
    try endTemporary(of: event.user, at: RevenueCatReport.Store("app_store").key(key.environment, ""), before: event.at)
    var hint =
      try stored
      ?? OtherStoreTable.StoredReport(
        key: key, user: tables.accounts.name(of: owner ?? event.user), events: [], at: event.at,
        reportedAt: context.recordedAt, dueAt: context.recordedAt)
    hint.events = StoreEvent.adding(event, to: hint.events)
    hint.at = max(hint.at, event.at)
    hint.evidence = SubscriptionEvidence(hint.events, of: key)
    hint.dueAt = context.recordedAt
    try tables.otherStores.save(hint)
    if hint.until != nil { try reevaluate(hint.user) }
    return .hint(RevenueCatHint(hint))
  }

  private func reevaluate(_ user: UserID) throws {
    var account = try tables.accounts.knownOrNewAccount(of: user)
    try writer(for: account).reevaluateIfChanged(&account)
  }

  // MARK: Access while RevenueCat cannot reach a store

  private static func temporaryKey(
    _ environment: StoreEnvironment, _ store: RevenueCatReport.Store, _ user: UserID
  ) -> SubscriptionKey {
    store.key(environment, "temporary:\(user.key)")
  }

  /// Gives access until the sooner of the event's end and `policy.provisional`: the tier of the product that the event
  /// names, else of its entitlements, else the one that the user last had at that store.
  private func giveTemporarily(
    _ event: StoreEvent, _ environment: StoreEnvironment, _ store: RevenueCatReport.Store, _ purchase: SubscriptionKey?
  ) throws -> RevenueCatReportOutcome {
    guard !event.user.isErased else { return .noted }
    let limit = event.at.advanced(by: report.provisional)
    var event = event
    event.transaction = event.transaction ?? TransactionID("temporary:\(event.id)")
    event.purchasedAt = event.purchasedAt ?? event.at
    event.expiresAt = min(event.expiresAt ?? limit, limit)
    var given = temporaryEvidence(event, of: purchase ?? store.key(environment, "temporary:\(event.id)"))
    if store.isApples, let purchase, given != nil || report.provisional == .zero {
      return try keepHint(event, of: purchase)
    }
    let known = try tables.accounts.account(of: event.user).map { account in
      try
        (store.isApples
        ? tables.purchases.purchases(of: account).map(\.evidence) : tables.otherStores.storeEvidence(of: account))
        .filter { evidence in
          evidence.key.environment == environment
            && (store.isApples || evidence.key.originalTransactionID.rawValue.hasPrefix("\(store):"))
        }
    }
    // RevenueCat has reached the store since.
    guard known?.contains(where: { event.at <= $0.evidenceTime }) != true else { return .noted }
    if given == nil {
      let last = known?.flatMap { evidence in evidence.purchases.map { (evidence, $0) } }.max { one, other in
        (one.1.purchaseDate ?? .distantPast, one.1.transactionID.rawValue)
          < (other.1.purchaseDate ?? .distantPast, other.1.transactionID.rawValue)
      }
      guard let (evidence, purchase) = last else { return .noted }
      (event.product, event.entitlements) = (purchase.productID, evidence.unlocks[purchase.productID])
      given = temporaryEvidence(event, of: evidence.key)
    }
    let key = Self.temporaryKey(environment, store, event.user)
    given?.key = key
    guard let given, let until = event.expiresAt else { return .noted }
    if let former = try tables.otherStores.report(key), event.at <= former.at { return .noted }
    let user = try tables.accounts.account(of: event.user)?.user ?? event.user
    try tables.otherStores.save(
      OtherStoreTable.StoredReport(
        key: key, user: user, events: [], evidence: given, at: event.at, reportedAt: context.recordedAt,
        until: until, dueAt: until))
    try reevaluate(user)
    return .recorded(owner: user, losers: [], isForAnother: false)
  }

  /// - Returns: `nil` if the event gives nothing.
  private func temporaryEvidence(_ event: StoreEvent, of key: SubscriptionKey) -> SubscriptionEvidence? {
    var event = event
    // An entitlement without a product: its name stands for one.
    event.product = event.product ?? event.entitlements?.first.map { ProductID($0) }
    guard var given = SubscriptionEvidence([event], of: key) else { return nil }
    given.provisionalUntil = event.expiresAt
    return isInactive(given, of: event.user, at: event.at) ? nil : given
  }

  /// Ends what was given to a user temporarily: RevenueCat has reached the store.
  private func endTemporary(of user: UserID, at key: SubscriptionKey, before moment: Date) throws {
    let store = RevenueCatReport.Store(String(key.originalTransactionID.rawValue.prefix { $0 != ":" }))
    // A grant from before a join is stored under the joined ID.
    for id in try [user] + tables.customers.joinedAccounts(of: user) {
      let temporary = Self.temporaryKey(key.environment, store, id)
      guard let given = try tables.otherStores.report(temporary), given.at <= moment else { continue }
      tables.changes.invalidate(given.user)
      try tables.otherStores.removeReport(temporary)
      try reevaluate(given.user)
    }
  }

  // MARK: Transfers

  private func transfer(_ from: [UserID], to: UserID, _ policy: OwnershipPolicy) throws -> RevenueCatReportOutcome {
    guard policy != .keep else { return .noted }
    var losers: [UserID] = []
    let heir = try heir(of: to)
    for user in from where user != to {
      // Events from before a join name the ID of then.
      for id in try [user] + tables.customers.joinedAccounts(of: user) {
        try tables.storeTransfers.add(
          StoreTransfer(id: report.id, at: report.at, from: id, to: to, isOfInactive: policy == .transferIfInactive))
      }
      guard let account = try tables.accounts.account(of: user) else { continue }
      let isHeir = account.user.key == heir.key
      var hasMoved = false
      for id in account.purchases {
        let isMoved = try id < 0 ? moveStorePurchase(id) : !isHeir && moveApples(id, to: heir, policy)
        hasMoved = hasMoved || isMoved
      }
      if hasMoved { losers.append(account.user) }
    }
    return losers.isEmpty ? .noted : .recorded(owner: heir, losers: losers, isForAnother: false)
  }

  /// The user to whom transfers after this one lead, which may have arrived before it.
  private func heir(of user: UserID) throws -> UserID {
    try tables.storeTransfers.transfers(from: user).filter { report.at < $0.at }
      .sorted { ($0.at, $0.id) < ($1.at, $1.id) }
      .reduce(user) { heir, next in next.from.key == heir.key ? next.to : heir }
  }

  private func moveStorePurchase(_ id: Int64) throws -> Bool {
    guard let purchase = try tables.otherStores.purchase(id: id),
      let owner = try owner(of: purchase.events, purchase.evidence.key), owner != purchase.owner
    else { return false }
    _ = try save(purchase, owner: owner)
    return true
  }

  private func moveApples(_ id: Int64, to: UserID, _ policy: OwnershipPolicy) throws -> Bool {
    var purchase = try tables.purchases.purchase(id: id)
    let evidence = purchase.evidence
    guard try !tables.unclaimed.names(evidence, anotherThan: to, tokensAreUserIDs: context.tokensAreUserIDs) else {
      return false
    }
    if policy == .transferIfInactive,
      !isInactive(evidence, of: purchase.owner, at: max(context.evaluatedAt, evidence.evaluatedAt))
    {
      return false
    }
    if let grant = try tables.provisionalGrants.grant(on: evidence.key), grant.owner != to {
      try tables.provisionalGrants.end(on: evidence.key)
    }
    var winner = try tables.accounts.knownOrNewAccount(of: to)
    let former = purchase.owner
    purchase.owner = winner.user
    _ = try tables.purchases.save(purchase)
    try OwnershipMove(
      tables: tables, gained: [(id, from: former)], tellsAccountTokens: context.tellsAccountTokens, writer: writer
    ).run(to: &winner)
    return true
  }
}

extension RevenueCatHint {
  init(_ report: OtherStoreTable.StoredReport) {
    self.init(
      key: report.key, user: report.user, at: report.at, reportedAt: report.reportedAt, attempts: report.attempts,
      isTemporary: report.events.allSatisfy { $0.change == .temporary })
  }
}

extension SubscriptionEvidence {
  /// A purchase of which no period is known.
  fileprivate static func unreported(_ key: SubscriptionKey, at moment: Date) -> SubscriptionEvidence {
    SubscriptionEvidence(
      key: key, source: .revenuecat, evidenceTime: moment, evaluatedAt: moment, purchases: [],
      coverage: .partial(since: nil))
  }
}
