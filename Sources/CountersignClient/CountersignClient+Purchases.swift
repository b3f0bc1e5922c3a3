import CountersignAPI
import Foundation

extension CountersignClient {
  /// Shows the App Store's sheet, posts the purchase, and returns the state that it caused.
  ///
  ///     let state = try await client.purchase("com.example.pro.monthly")
  ///     if state.access?.tier == "pro" { dismiss() }
  ///
  /// No purchase is lost: it is kept before it is posted, and the App Store delivers it again until the service
  /// has answered.
  ///
  /// - Parameters:
  ///   - productID: as App Store Connect has it.
  ///   - offer: with which the user buys: see `offers()`. The service signs it first, where the App Store wants that.
  ///   - verifying: called when the sheet has closed with a purchase, before that is posted.
  @discardableResult
  public func purchase(
    _ productID: String, offer: PurchaseOffer? = nil, verifying: @Sendable () async -> Void = {}
  ) async throws -> AccessState {
    try await record(productID, offer: offer, verifying: verifying)
    return try await refreshAfterPost()
  }

  /// Buys, and returns when the service has recorded it.
  func record(
    _ productID: String, offer: PurchaseOffer? = nil, verifying: @Sendable () async -> Void
  ) async throws {
    try checkSignedIn()
    let store = try theStore()
    let signed = try await sign(offer, of: productID)
    let outcome: StorePurchase
    do {
      outcome = try await store.purchase(
        productID: productID, appAccountToken: UUID(uuidString: user), offer: signed)
    } catch {
      throw error as? CountersignError ?? .refused(code: "store_error", detail: error.localizedDescription)
    }
    switch outcome {
    case .cancelled: throw CountersignError.cancelled
    case .pending: throw CountersignError.pending
    case .success(let transaction):
      // Kept first: a kill may come at any moment.
      keep([transaction])
      await verifying()
      if try await post(transaction).isQueued { try await waitForProfile() }
    }
  }

  /// The purchase is recorded: a no to the token is not one to the purchase.
  func refreshAfterPost() async throws -> AccessState {
    do { return try await refreshAnew() } catch let error as CountersignError where error.isRefusal {
      report(error)
      throw CountersignError.later(retryAfter: nil)
    }
  }

  /// Posts everything that the store account owns.
  ///
  ///     let restored = try await client.restore { done, total in
  ///       Task { @MainActor in progress = Double(done) / Double(total) }
  ///     }
  ///     if restored.purchases == 0 { message = "No purchases were found." }
  ///
  /// - Parameters:
  ///   - syncs: whether the App Store is asked anew, which may ask the user to sign in: only on a tap. `false` takes what
  ///     the device knows, as is right after the user has signed in to the app.
  ///   - progress: how many purchases are done, of how many. It is called with `(0, total)` first, and not at all where
  ///     there are none.
  @discardableResult
  public func restore(
    syncs: Bool = true, progress: @Sendable (_ done: Int, _ total: Int) -> Void = { _, _ in }
  ) async throws -> Restoration {
    let (posted, refused) = try await postOwned(syncs: syncs, progress: progress)
    let state = posted == 0 ? try await refreshAnew() : try await refreshAfterPost()
    return Restoration(state: state, purchases: posted, refused: refused)
  }

  /// Returns when the service has answered about each.
  func postOwned(
    syncs: Bool = true, progress: @Sendable (_ done: Int, _ total: Int) -> Void = { _, _ in }
  ) async throws -> (posted: Int, refused: Int) {
    try checkSignedIn()
    let store = try theStore()
    do { if syncs { try await store.sync() } } catch {
      throw error as? CountersignError ?? .refused(code: "store_error", detail: error.localizedDescription)
    }
    var found = await store.currentEntitlements()
    for transaction in await store.unfinished() where !found.contains(where: { $0.isSame(as: transaction) }) {
      found.append(transaction)
    }
    keep(found)
    if !found.isEmpty { progress(0, found.count) }
    var posted = 0
    var isQueued = false
    var trouble: CountersignError?
    var refused = 0
    for (index, transaction) in found.enumerated() {
      do {
        isQueued = try await post(transaction).isQueued || isQueued
        posted += 1
      } catch let error as CountersignError where isAboutOne(error, transaction) {
        trouble = trouble ?? error
        refused += error.isRefusal ? 1 : 0
      }
      progress(index + 1, found.count)
    }
    if posted == 0, let trouble {
      // A refused purchase may have been this user's until now.
      if trouble.isRefusal { await quietly { _ = try await refreshAnew() } }
      throw trouble
    }
    if isQueued { try await waitForProfile() }
    return (posted, refused)
  }

  /// The result of a restore.
  public struct Restoration: Hashable, Sendable {
    public var state: AccessState
    /// The number of purchases that the service took; 0 where the store account has none.
    public var purchases: Int
    /// The number that it refused, for instance because they are another account's. Any others wait, and are posted again.
    public var refused: Int
  }

  /// Posts what waits now, instead of later, and asks for the state. For a button beside "waits to be confirmed".
  @discardableResult
  public func retry() async throws -> AccessState {
    try checkSignedIn()
    // A post that fails is no reason not to ask for the state.
    var trouble: CountersignError?
    do { try await postWaiting() } catch let error as CountersignError where error != .signedOut { trouble = error }
    let state = try await refreshAnew()
    if let trouble { throw trouble }
    return state
  }

  /// Posts the waiting transactions, and those that the App Store says are not finished. Throws at the end what was about one
  /// transaction, and any other error at once: what is left goes on waiting.
  func postWaiting() async throws {
    runningPosts += 1
    defer { runningPosts -= 1 }
    readWaiting()
    let unfinished = await options.store?.unfinished() ?? []
    var transactions = unfinished
    for post in waiting.posts {
      // The same purchase may be signed anew meanwhile.
      let finish = unfinished.first { $0.id == post.transactionID }?.finish
      let transaction = StoreTransaction(id: post.transactionID, jwsRepresentation: post.jws, finish: finish ?? {})
      if !unfinished.contains(where: { $0.isSame(as: transaction) }) { transactions.append(transaction) }
    }
    transactions.removeAll { refused.contains($0.jwsRepresentation) }
    keep(transactions.filter { !answered.contains($0.jwsRepresentation) })
    var trouble: CountersignError?
    for transaction in transactions {
      do { try await postOnce(transaction) } catch let error as CountersignError where isAboutOne(error, transaction) {
        if !isOfAnother(error, transaction) { trouble = trouble ?? error }
      }
    }
    if let trouble { throw trouble }
  }

  /// Posts what the store account owns and the tier does not show, once in a run of the app: a purchase that the service
  /// never heard of, or has lost. Where both agree nothing is posted.
  func compareEntitlements() async throws {
    guard !hasCompared, let store = options.store, case .known(let access) = state else { return }
    hasCompared = true
    let owned = await store.currentEntitlements().filter { transaction in
      !answered.contains(transaction.jwsRepresentation) && !refused.contains(transaction.jwsRepresentation)
    }
    guard !owned.isEmpty else { return }
    let plans = try? await plans()
    let differing = owned.filter { transaction in
      // Without the catalog's order only "nothing" is known to be less.
      guard let plans, let plan = transaction.productID.flatMap(plans.plan(of:)), let owned = plans.rank(of: plan.tier),
        let shown = plans.rank(of: access.tier)
      else { return access.status == .expired }
      return owned > shown
    }
    guard !differing.isEmpty else { return }
    log(.info, "entitlements differ from the tier", ["count": "\(differing.count)", "tier": access.tier])
    var isNew = false
    for transaction in differing {
      do {
        _ = try await post(transaction)
        isNew = true
      } catch let error as CountersignError where isAboutOne(error, transaction) {
        if !isOfAnother(error, transaction) { report(error) }
      }
    }
    if isNew { _ = try await refreshAnew() }
  }

  /// A renewal, a refund, an approval, or a purchase on another device.
  func receive(_ transaction: StoreTransaction) async {
    guard !isSignedOut, !refused.contains(transaction.jwsRepresentation) else { return }
    let isNew = !answered.contains(transaction.jwsRepresentation)
    await quietly {
      do { try await postOnce(transaction) } catch let error as CountersignError where isOfAnother(error, transaction) {
        return
      }
      if isNew { _ = try await refreshAnew() }
    }
  }

  /// Whether the others may be posted all the same.
  private func isAboutOne(_ error: CountersignError, _ transaction: StoreTransaction) -> Bool {
    error.isRefusal || (error != .signedOut && troubled.contains(transaction.jwsRepresentation))
  }

  /// Whether the service left it with the user for whom the app bought it, on a device of both: no trouble of this user's.
  private func isOfAnother(_ error: CountersignError, _ transaction: StoreTransaction) -> Bool {
    error.isRefusal && transaction.isBoughtByAnother(than: user)
  }

  private func postOnce(_ transaction: StoreTransaction) async throws {
    if answered.contains(transaction.jwsRepresentation) {
      await transaction.finish()
      forget(transaction)
    } else {
      _ = try await post(transaction)
    }
  }

  /// The service's answer to a post.
  struct Submission {
    /// The app's own profile row is not written yet.
    var isQueued: Bool
  }

  func post(_ transaction: StoreTransaction) async throws -> Submission {
    let jws = transaction.jwsRepresentation
    if let posting = posting[jws] { return try await posting.value }
    keep([transaction])
    let task = Task {
      defer { posting[jws] = nil }
      do { return try await send(transaction) } catch {
        if (error as? CountersignError)?.isRefusal == true {
          // Not in this run of the app. At the next start the App Store delivers it again, and the cause, such as a
          // service that was not set up for this app, may be gone.
          refused.insert(jws)
          forget(transaction)
          log(.warning, "purchase refused", ["transaction_id": "\(transaction.id)"])
        } else {
          retryLater(error)
        }
        throw error
      }
    }
    posting[jws] = task
    return try await task.value
  }

  func send(_ transaction: StoreTransaction) async throws -> Submission {
    try checkSignedIn()
    troubled.remove(transaction.jwsRepresentation)
    let response = try await service.send(
      "POST", "/v1/validations",
      body: ValidationRequest(receiptData: transaction.jwsRepresentation, transactionID: "\(transaction.id)"))
    if response.status >= 500 { troubled.insert(transaction.jwsRepresentation) }
    let verdict = try response.decoded(EntitlementResponse.self, from: [200, 202], now: options.now())
    guard verdict.isTransactionFound == true else {
      if transaction.isBoughtByAnother(than: user) {
        // The service may keep it for this user until it can ask Apple, which decides. The App Store has it until then.
        forget(transaction)
        guard response.status == 202 else {
          throw CountersignError.refused(
            code: "owned_by_another_user", detail: "The transaction's appAccountToken is another user's.")
        }
      }
      // A verdict without this purchase: it is posted again, and holds up no other.
      log(.info, "purchase not found yet", ["transaction_id": "\(transaction.id)"])
      troubled.insert(transaction.jwsRepresentation)
      throw CountersignError.later(retryAfter: nil)
    }
    answered.insert(transaction.jwsRepresentation)
    refused.remove(transaction.jwsRepresentation)
    // The service has it on disk: now, and not before, the App Store may forget it.
    await transaction.finish()
    forget(transaction)
    log(.info, "purchase finished", ["transaction_id": "\(transaction.id)"])
    return Submission(isQueued: response.status == 200 && verdict.profileWrite == .queued)
  }

  /// Waits until the app's own profile row is written: every two seconds, for ten seconds at most.
  private func waitForProfile() async throws {
    let end = options.now().addingTimeInterval(10)
    for _ in 0..<5 where options.now() < end {
      guard (try? await options.sleep(2)) != nil else { return }
      // The purchase is recorded: trouble here is only a row that is not seen yet.
      if let write = try? await freshVerdict().profileWrite, write == .committed || write == .none { return }
    }
  }

  // MARK: The waiting transactions

  /// The keychain cannot be read before the first unlock of the device: what it has is not replaced unread.
  func readWaiting() {
    readToken()
    guard !isWaitingRead else { return }
    let json: Data?
    do { json = try options.storage.read("posts@\(account)") } catch { return }
    isWaitingRead = true
    waiting = WaitingPosts(json, then: waiting.posts, without: answered.union(refused))
    store(waiting.json, "posts")
  }

  func keep(_ transactions: [StoreTransaction]) {
    readWaiting()
    // A purchase that was refused may be this user's by now.
    refused.subtract(transactions.map(\.jwsRepresentation))
    guard transactions.contains(where: { !waiting.contains($0) }) else { return }
    waiting.add(transactions)
    storeWaiting()
  }

  private func forget(_ transaction: StoreTransaction) {
    readWaiting()
    guard waiting.contains(transaction) else { return }
    waiting.remove(transaction)
    storeWaiting()
  }

  private func storeWaiting() {
    if isWaitingRead { store(waiting.json, "posts") } else { report(.storage) }
  }
}
