package import Access
package import Entitlements

extension Ledger {
  /// The variant that a user saw first of each experiment, whether the catalog has the experiment or not.
  /// - Returns: `user`: whom the ID means; another one for an anonymous customer who has signed in since.
  package func exposures(of user: UserID) async throws(LedgerError) -> (user: UserID, exposures: [Exposure]) {
    try await readShort { tables in
      let key = try tables.key(of: user)
      return (UserID(key), try tables.exposures(of: key))
    }
  }
}
