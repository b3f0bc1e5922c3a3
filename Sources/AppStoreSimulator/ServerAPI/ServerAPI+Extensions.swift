import FoundationEssentials

/// Extend a Subscription Renewal Date, and the same for all active subscribers of a product.
extension ServerAPI {
  func extend(_ id: String, _ call: Call, _ bundleID: String, now: Timestamp) throws -> Answer {
    delivery.catchUp()
    let purchase = try subscription(id, call, bundleID, now)
    let extended = try delivery.extensions.extend(
      purchase.seed, slot: purchase.slot, by: try Self.extensionRequest(call), at: now)
    if let notification = extended.notification { _ = delivery.post(notification) }
    guard let end = extended.row.expiresAt else { throw ServerAPIError.internalError }
    let item = extended.seed.webOrderLineItemID(slot: extended.row.slot, number: extended.row.number)
    return .ofServerAPI(
      .object([
        ("originalTransactionId", .string(id)), ("webOrderLineItemId", .string(String(item))), ("success", true),
        ("effectiveDate", .integer(end.milliseconds)),
      ]))
  }

  func extendAll(_ call: Call, _ bundleID: String, now: Timestamp) throws -> Answer {
    let request = try Self.extensionRequest(call)
    let identifier = try delivery.extensions.begin(request, of: bundleID, in: call.environment, at: now)
    return .ofServerAPI(.object([("requestIdentifier", .string(identifier))]))
  }

  func extensionStatus(_ productID: String, _ identifier: String, _ call: Call, _ bundleID: String) throws -> Answer {
    delivery.catchUp()
    let key = RenewalExtensions.Job.Key(
      environment: call.environment, bundleID: bundleID, productID: productID, requestIdentifier: identifier)
    guard let job = delivery.extensions.job(key) else { throw ServerAPIError.extensionRequestNotFound }
    var members: [(String, JSON)] = [
      ("requestIdentifier", .string(identifier)), ("complete", .boolean(job.isComplete)),
    ]
    if job.isComplete {
      members += [
        ("completeDate", .integer(job.due.milliseconds)), ("succeededCount", .integer(Int64(job.succeeded))),
        ("failedCount", .integer(Int64(job.failed))),
      ]
    }
    return .ofServerAPI(.object(members))
  }

  private static func extensionRequest(_ call: Call) throws(ServerAPIError) -> RenewalExtensions.Request {
    guard let request = try? JSONDecoder().decode(RenewalExtensions.Request.self, from: Data(call.body)) else {
      throw .badRequest
    }
    return request
  }

  /// The subscription under an original transaction ID; no other ID of it will do.
  private func subscription(
    _ id: String, _ call: Call, _ bundleID: String, _ now: Timestamp
  ) throws(ServerAPIError) -> (seed: ReceiptSeed, slot: Int) {
    guard !id.isEmpty, id.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
      throw .invalidOriginalTransactionID
    }
    guard let (customer, slot, number) = customers.transaction(id), number == 0,
      customer.seed.environment == call.environment, customer.seed.bundleID == bundleID,
      customer.seed.state(at: now).rows.contains(where: { $0.slot == slot && $0.product.isSubscription })
    else { throw .originalTransactionNotFound }
    if customer.seed.scenario == .accountGone { throw .accountNotFound }
    return (customer.seed, slot)
  }
}
