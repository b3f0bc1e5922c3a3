package import struct FoundationEssentials.Date

extension [Purchase] {
  /// A subscription's purchases since a moment, without renewals of a product that ran then, and without those that the
  /// store took back.
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
