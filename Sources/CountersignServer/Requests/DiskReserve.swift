/// The part of the ledger's disk that is kept for purchases (`ledger.reserve`). What anybody can send in any number, events,
/// consumption, attributes, new customers and devices, is refused while less than that is free.
package struct DiskReserve: Sendable {
  /// From 0, no reserve, to 1.
  private let share: Double
  /// The free part of the disk; `nil` where it is not known, as of a database.
  let freeShare: @Sendable () -> Double?

  package init(share: Double, freeShare: @escaping @Sendable () -> Double?) {
    self.share = share
    self.freeShare = freeShare
  }

  var hasRoom: Bool { share == 0 || (freeShare() ?? 1) >= share }

  func requireRoom() throws(Problem) {
    guard !hasRoom else { return }
    throw Problem(
      .ledgerUnavailable, "The disk of this service is nearly full, and what is left is kept for purchases; try later.")
  }
}
