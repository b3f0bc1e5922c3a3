package import struct FoundationEssentials.Date

extension [Purchase] {
  /// Those of a subscription's purchases that were made since a moment, and stand: no renewal of what ran then, and nothing
  /// that was taken back.
  package func bought(since start: Date) -> [Purchase] {
    let running = Set(filter { $0.isRunning(at: start) }.map(\.productID))
    return filter { purchase in
      !running.contains(purchase.productID) && (purchase.cancellationDate == nil || purchase.isUpgraded)
        && purchase.purchaseDate.map { $0 >= start } ?? false
    }
  }
}

extension Purchase {
  /// Whether it was bought before a moment, and neither over nor taken back then.
  fileprivate func isRunning(at moment: Date) -> Bool {
    begin < moment && moment < min(expiresDate ?? .distantFuture, cancellationDate ?? .distantFuture)
  }
}
