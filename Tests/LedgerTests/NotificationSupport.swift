import Entitlements
import Ledger
import LedgerFixtures
import TestSupport
import Testing

struct Unexpected: Error {}

let bensAccount = "00000000-0000-4000-8000-000000000002"

/// One signed transaction, by default of a period that runs from -100 s to 1 000 s, signed at `reported`.
func part(
  _ id: String, _ transaction: String = "t1", reported: Double = 0, begin: Double = -100, expires: Double = 1_000,
  cancelled: Double? = nil, account: String? = nil, renewal: RenewalInfo? = nil,
  environment: StoreEnvironment = .production, source: EvidenceSource = .notification
) -> SubscriptionEvidence {
  var info = renewal
  info?.originalTransactionID = OriginalTransactionID(id)
  info?.reportedAt = at(reported)
  return SubscriptionEvidence(
    key: key(id, environment), source: source, evidenceTime: at(reported), evaluatedAt: at(reported),
    purchases: [
      Purchase(
        productID: pro, transactionID: TransactionID(transaction), originalTransactionID: OriginalTransactionID(id),
        purchaseDate: at(begin), expiresDate: at(expires), cancellationDate: cancelled.map(at),
        appAccountToken: account, reportedAt: at(reported))
    ], renewals: [info].compactMap { $0 }, coverage: .partial(since: nil))
}

func proof(_ text: String, _ environment: StoreEnvironment = .production) -> KeptReceipt {
  KeptReceipt(base64: text, environment: environment, bundleID: "com.example.app")
}

func notification(
  _ uuid: String, _ evidence: [SubscriptionEvidence], proof kept: KeptReceipt? = proof("jws"),
  for claimant: UserID? = nil, makesClaimant: Bool = true,
  received: Double = 5_000, payload: String = "signed", rules: any VerdictRules = checkedRules
) -> NotificationEntry {
  let reported = evidence.map(\.evidenceTime).max()
  return NotificationEntry(
    uuid: uuid, type: "DID_RENEW", subtype: "BILLING_RECOVERY", environment: .production, bundleID: "com.example.app",
    signedAt: reported, receivedAt: clock(received), payload: payload, evidence: evidence, proof: kept,
    claimant: claimant,
    makesClaimant: makesClaimant, evaluatedAt: reported ?? at(0), rules: rules)
}

/// A signed transaction that a user posts.
func posted(
  _ user: UserID, _ evidence: [SubscriptionEvidence], jws: String = "posted", ownership: OwnershipPolicy = .keep,
  request: String = "post"
) -> LedgerEntry {
  entry(user, evidence, receipt: jws, ownership: ownership, request: request, rules: checkedRules).with {
    $0.keepsReceipts = true
    $0.keysNamingOthers = Set(evidence.filter { $0.namesAnother(than: user) }.map(\.key))
  }
}

extension NotificationOutcome {
  var recorded: (user: UserID, recorded: Recorded)? {
    if case .recorded(let user, let recorded) = self { (user, recorded) } else { nil }
  }
  var isDuplicate: Bool { if case .duplicate = self { true } else { false } }
  var isUnclaimed: Bool { if case .unclaimed = self { true } else { false } }
  var isNoted: Bool { if case .noted = self { true } else { false } }
}

extension Scratch {
  /// The rows that another connection reads.
  func fetch<Value: SQLiteFileValue & Sendable>(_ sql: String, as type: Value.Type = Value.self) async throws
    -> [Value]
  {
    if TestEngine.isPostgreSQL {
      return try await rows(sql).map { row in
        let values = row[0].map { [.text($0), Int64($0).map(SQLiteFile.Value.integer) ?? .null] } ?? [.null]
        return try #require(values.lazy.compactMap(Value.init).first)
      }
    }
    return try SQLiteFile(path, isReadOnly: true).all(sql)
  }
}
