internal import Entitlements
internal import struct FoundationEssentials.Date

/// An entry with everything precomputed that needs no transaction: there is one writer thread, but many callers.
struct PreparedEntry: Sendable {
  /// One subscription of the answer, as it will be stored.
  struct Subscription: Sendable {
    var evidence: SubscriptionEvidence
    var evidenceAt: Int64
    var evaluatedAt: Int64
    var rows: String

    init(_ evidence: SubscriptionEvidence) throws {
      var evidence = evidence
      // As it will be read.
      evidence.evidenceTime = evidence.evidenceTime.inWholeMilliseconds
      evidence.evaluatedAt = evidence.evaluatedAt.inWholeMilliseconds
      self.evidence = evidence
      evidenceAt = try StoredForm.milliseconds(evidence.evidenceTime)
      evaluatedAt = try StoredForm.milliseconds(evidence.evaluatedAt)
      rows = try StoredForm.text(evidence)
    }
  }

  var entry: LedgerEntry
  /// The receipt as it will be stored.
  private(set) var proof: StoredProof
  /// One per key, in the order of `SubscriptionKey.precedes`. Duplicate keys in the answer are merged.
  private(set) var subscriptions: [Subscription]
  /// Evidence that came under former IDs, beside that of the new ones.
  private(set) var past: [SubscriptionEvidence] = []
  let recordedAt: Int64
  /// The newest evidence time of the answer.
  let evidenceAt: Int64?
  let rowsDueAt: Int64

  init(_ entry: LedgerEntry) throws {
    var entry = entry
    entry.approves = ApprovalCache.remembering(entry.approves)
    self.entry = entry
    proof = StoredProof(
      entry.receipt, octets: entry.receiptOctets, sharing: entry.sharedOctets, digest: entry.receiptDigest)
    subscriptions = try Self.merged(entry.evidence)
    recordedAt = try StoredForm.milliseconds(entry.recordedAt)
    evidenceAt = subscriptions.map(\.evidenceAt).max()
    rowsDueAt = try entry.rowsClaimedUntil.map(StoredForm.milliseconds) ?? 0
  }

  private static func merged(_ evidence: [SubscriptionEvidence]) throws -> [Subscription] {
    var merged: [SubscriptionKey: SubscriptionEvidence] = [:]
    for evidence in evidence { merged[evidence.key] = merged[evidence.key]?.merging(evidence) ?? evidence }
    return try merged.values.sorted { $0.key.precedes($1.key) }.map(Subscription.init)
  }

  /// Puts evidence in the place of the entry's.
  mutating func take(_ evidence: [SubscriptionEvidence]) throws {
    past += evidence
    subscriptions = try Self.merged(evidence)
  }

  /// Leaves out what names erased users: nothing brings a name back that was erased.
  mutating func forgetErased(_ tables: LedgerTables) throws {
    var hasForgotten = entry.user.isErased
    for index in subscriptions.indices {
      let evidence = subscriptions[index].evidence
      let without = try tables.pseudonyms.withoutErasedAccounts(evidence, of: entry.user)
      guard without != evidence else { continue }
      subscriptions[index] = try Subscription(without)
      if !without.namesAnother(than: entry.user) { entry.keysNamingOthers.remove(without.key) }
      hasForgotten = true
    }
    // A signed transaction has the name inside. A receipt has none, and is needed to ask Apple.
    guard hasForgotten, entry.user.isErased || entry.receipt.base64.contains(".") else { return }
    entry.receipt.base64 = KeptReceipt.erasedText
    proof = StoredProof(entry.receipt)
  }
}
