package import Access
package import Entitlements

/// Exposures to experiments.
package struct ExposureTable: LedgerTable {
  package let tables: LedgerTables

  /// Keeps the variant that a user saw, unless the user saw one of the experiment's before.
  /// - Parameter user: as `name(of:)` has it.
  func keep(_ exposure: Exposure, of user: UserID) throws {
    guard !user.isErased else { return }
    try execute(
      """
      INSERT INTO exposure (user_id, experiment, variant, exposed_at) VALUES (?, ?, ?, ?)
      ON CONFLICT (user_id, experiment) DO NOTHING
      """, user.key, exposure.experiment, exposure.variant, exposure.at)
    guard changesCount == 1 else { return }
    changes.invalidate(usageOf: user)
    try tables.marks.markExposures(of: user.key)
  }

  package func exposures(of key: String) throws -> [Exposure] {
    try all(
      "SELECT experiment, variant, exposed_at FROM exposure WHERE user_id = ? ORDER BY experiment", key,
      into: Exposure.init(experiment:variant:at:))
  }

  /// Gives a user what an anonymous customer saw. Of an experiment of which both saw a variant, the user's own stays.
  func move(exposuresOf id: UserID, to user: UserID) throws {
    try tables.marks.markExposures(of: id.key)
    try execute(
      """
      INSERT INTO exposure (user_id, experiment, variant, exposed_at)
        SELECT CAST(? AS TEXT), experiment, variant, exposed_at FROM exposure AS former WHERE former.user_id = ?
      ON CONFLICT (user_id, experiment) DO NOTHING
      """, user.key, id.key)
    try execute("DELETE FROM exposure WHERE user_id = ?", id.key)
    try tables.marks.markExposures(of: user.key)
  }
}

extension LedgerTables { package var exposures: ExposureTable { ExposureTable(tables: self) } }

extension Ledger {
  /// The variant that a user saw first of each experiment, whether the catalog has the experiment or not.
  /// - Returns: `user`: whom the ID means; another one for an anonymous customer who has signed in since.
  package func exposures(of user: UserID) async throws(LedgerError) -> (user: UserID, exposures: [Exposure]) {
    try await readShort { tables in
      let key = try tables.accounts.key(of: user)
      return (UserID(key), try tables.exposures.exposures(of: key))
    }
  }
}
