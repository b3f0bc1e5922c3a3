package import Entitlements
package import struct FoundationEssentials.Date

/// The customers of SDKs.
extension Ledger {
  /// The customer with an ID, who is kept from the first time on.
  /// - Returns: `isNew`: nothing was known of the ID before.
  package func meet(_ id: UserID, at now: Date) async throws(LedgerError) -> (customer: Customer, isNew: Bool) {
    let (known, isKept) = try await readShort { tables in
      (try tables.customers.customer(id), try tables.customers.isCustomer(id))
    }
    if let known, isKept, now.inWholeMilliseconds < known.lastSeenAt.advanced(by: Customer.visit) {
      return (known, false)
    }
    return try await engine.submit { tables in
      let isNew = try tables.customers.customer(id) == nil
      try tables.customers.meet(id, at: now)
      // A user whom the ID turned out to be was seen too.
      try tables.customers.meet(tables.accounts.name(of: id), at: now)
      guard let customer = try tables.customers.customer(id) else { throw StoredForm.Unstorable() }
      return (customer, isNew)
    }
  }

  /// The user whom an ID means: of an anonymous customer who has signed in since, that user.
  package func user(named id: UserID) async throws(LedgerError) -> UserID {
    guard id.isAnonymous else { return id }
    return try await readShort { tables in try tables.accounts.name(of: id) }
  }

  /// The times at which renewal was first seen off and billing first failed, by purchase, of purchases with either.
  package func troubles(of user: UserID) async throws(LedgerError) -> [SubscriptionKey: PurchaseTroubles] {
    try await readShort { tables in
      var troubles: [SubscriptionKey: PurchaseTroubles] = [:]
      for purchase in try tables.purchases.purchases(of: tables.accounts.account(of: user)) {
        let (off, failed) = (purchase.renewalOffAt.map(StoredForm.date), purchase.billingFailedAt.map(StoredForm.date))
        guard off != nil || failed != nil else { continue }
        troubles[purchase.evidence.key] = PurchaseTroubles(renewalOffAt: off, billingFailedAt: failed)
      }
      return troubles
    }
  }

  /// Whether an ID is known: as a customer's, or as that of a user with any record.
  package func knows(_ id: UserID) async throws(LedgerError) -> Bool {
    try await readShort { tables in try tables.customers.isCustomer(id) || tables.customers.customer(id) != nil }
  }

  /// Forgets customers with nothing but an ID who were last seen before a moment.
  /// - Returns: how many; `limit` means that there may be more.
  package func pruneCustomers(before moment: Date, limit: Int) async throws(LedgerError) -> Int {
    let bare = try await read { tables in try tables.customers.bareCustomers(seenBefore: moment, limit: limit) }
    guard !bare.isEmpty else { return 0 }
    return try await engine.submit { tables in
      // Something may have come meanwhile.
      for key in try bare.filter({ try tables.customers.isBare(UserID($0)) }) {
        try tables.customers.forget(key)
      }
      return bare.count
    }
  }

  /// Merges what an app says of a customer: under each name the newest statement stands.
  /// - Returns: the names that were not kept, as the customer has too many, or too long ones all together.
  package func keep(
    _ attributes: [String: CustomerAttribute], of id: UserID, at now: Date
  ) async throws(LedgerError) -> [String] {
    guard !attributes.isEmpty else { return [] }
    return try await engine.submit { tables in
      let user = try tables.accounts.name(of: id)
      try tables.customers.meet(user, at: now)
      var kept = try tables.customers.attributes(of: user)
      var bytes = kept.reduce(0) { $0 + $1.value.size(named: $1.key) }
      var refused: [String] = []
      for (name, attribute) in attributes.sorted(by: { $0.key < $1.key }) {
        let former = kept[name]
        if let former, former.updatedAtMilliseconds > attribute.updatedAtMilliseconds { continue }
        if former == nil, attribute.value == nil { continue }
        let total = bytes + attribute.size(named: name) - (former?.size(named: name) ?? 0)
        guard former != nil || kept.count < CustomerAttribute.most, total <= CustomerAttribute.mostBytes else {
          refused.append(name)
          continue
        }
        (kept[name], bytes) = (attribute, total)
        if attribute != former { try tables.customers.save(attribute, named: name, of: user) }
      }
      return refused
    }
  }
}

extension Ledger {
  /// Whether an answer with this evidence would be refused a user, as the purchases are another's. Nothing is recorded.
  ///
  /// - Parameter contested: the keys that decide, as in `LedgerEntry`.
  package func isAnothers(
    _ evidence: [SubscriptionEvidence], contested: Set<SubscriptionKey>, than user: UserID,
    ownership: OwnershipPolicy, _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) -> Bool {
    try await readShort { tables in
      let user = try tables.accounts.name(of: user)
      let contested = try Set(contested.map { try tables.purchases.successor(of: $0) ?? $0 })
      let evidence = try evidence.map {
        let evidence = try tables.pseudonyms.withoutErasedAccounts($0, of: user)
        return try tables.purchases.successor(of: evidence.key).map(evidence.migrated) ?? evidence
      }
      let namingOthers = try evidence.filter {
        try tables.unclaimed.names($0, anotherThan: user, tokensAreUserIDs: evaluationContext.tokensAreUserIDs)
      }.map(\.key)
      var stored: [SubscriptionKey: PurchaseTable.StoredPurchase] = [:]
      for key in evidence.map(\.key) { stored[key] = try tables.purchases.purchase(key) }
      let ruling = try OwnershipRuling.decide(
        user: user, keys: Set(evidence.map(\.key)), contested: contested, owners: stored.mapValues(\.owner),
        policy: ownership, ofNobody: Set(evidence.filter(\.isOfUnknownOwnership).map(\.key)),
        namingOthers: Set(namingOthers), naming: Set(evidence.filter { $0.names(user) }.map(\.key)),
        unpresented: Set(stored.filter { $0.value.claim == .accountToken }.map(\.key)),
        ownerless: Set(stored.filter { $0.value.owner.isErased }.map(\.key)),
        isInactive: tables.purchases.inactivity(
          of: stored, by: evaluationContext.rules, at: evaluationContext.evaluatedAt))
      return ruling == .refused
    }
  }
}
