import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

/// The treatment of each column of the schema that can hold a name.
@Suite(.ofTheFile) struct ErasedColumnTests {
  /// How a text or the bytes of a column are treated.
  enum Treatment: String {
    /// It is a user's ID, or has one: renamed or gone.
    case named
    /// It may say anything: gone, or without the name.
    case free
    /// The row goes with the user.
    case gone
    /// It cannot hold a name: a word of ours, an ID of Apple's, a digest, a number.
    case none
  }

  static let columns: [String: [String: Treatment]] = [
    "account": [
      "key": .named, "spelling": .named, "tier": .none, "status": .none, "product_id": .none, "purchases": .none,
      "given": .none,
    ],
    "purchase": [
      "environment": .none, "original_transaction_id": .none, "user_id": .named, "claim": .none, "source": .none,
      "evidence": .named,
    ],
    "migrated_purchase": ["environment": .none, "original_transaction_id": .none, "successor_id": .none],
    "proof": ["sha256": .none, "environment": .none, "bundle_id": .none, "content": .free],
    // Certificates of Apple's.
    "proof_frame": ["sha256": .none, "content": .none],
    "event": [
      "user_id": .named, "kind": .none, "request_id": .free, "receipt_sha256": .none, "entitlement": .none,
      "other_user_id": .named, "author": .none, "text": .free,
    ],
    "thinned": ["user_id": .named, "digest": .none],
    "outbox": ["key": .named, "state": .none, "problem": .none, "reset": .none, "reset_spelling": .named],
    "given_period": [
      "user_id": .named, "kind": .none, "tier": .none, "author": .none, "text": .free, "request_id": .free,
      "idempotency_key": .free,
    ],
    "access_count": ["tier": .none, "product_id": .none],
    "pending_receipt": ["user_id": .gone, "sha256": .gone, "base64": .gone, "request_id": .gone],
    "provisional_grant": [
      "environment": .gone, "original_transaction_id": .gone, "user_id": .gone, "source": .gone, "evidence": .gone,
    ],
    "notification": [
      "uuid": .none, "type": .none, "subtype": .none, "environment": .none, "bundle_id": .none,
      "original_transaction_id": .none, "outcome": .none, "user_id": .named, "payload": .free,
    ],
    // Words of Apple's, and IDs of transactions.
    "consumption_request": [
      "environment": .none, "transaction_id": .none, "said": .none, "original_transaction_id": .none,
      "bundle_id": .none, "state": .none, "problem": .none,
    ],
    "account_token_due": [
      "environment": .none, "original_transaction_id": .none, "bundle_id": .none, "account_token": .named,
    ],
    "renewal_extension": [
      "request_identifier": .none, "environment": .none, "subject": .none, "storefronts": .none, "bundle_id": .none,
      "reason": .none, "author": .none, "note": .free, "request_id": .free, "idempotency_key": .free, "state": .none,
      "problem": .none,
    ],
    "refused_notification": ["sha256": .none, "problem": .none, "payload": .free],
    "unclaimed_evidence": [
      "environment": .none, "original_transaction_id": .none, "source": .none, "evidence": .named,
      "account_token": .named, "bundle_id": .none, "proof": .free,
    ],
    "memo": ["name": .none, "text": .named],
    "run": ["idempotency_key": .none, "state": .none, "stop_reason": .none],
    "run_item": ["environment": .none, "original_transaction_id": .none],
    "consumption": ["user_id": .gone, "feature": .gone, "idempotency_key": .gone, "request": .gone, "answer": .gone],
    "feature_total": ["user_id": .gone, "feature": .gone],
    "user_time_zone": ["user_id": .gone, "name": .gone],
    "trial": ["name": .none, "user_id": .named, "device_id": .none],
    "trial_session": ["idempotency_key": .gone],
    "device": [
      "user_id": .named, "device_id": .none, "app": .none, "model": .free, "ios_version": .free, "app_version": .free,
      "push_token": .free,
    ],
    "revenuecat_purchase": [
      "environment": .none, "original_transaction_id": .none, "user_id": .named, "events": .named, "evidence": .none,
      "unlocks": .none,
    ],
    "revenuecat_report": [
      "environment": .gone, "original_transaction_id": .gone, "user_id": .gone, "events": .named, "evidence": .gone,
      "unlocks": .gone,
    ],
    "revenuecat_transfer": ["from_user_id": .named, "id": .none, "to_user_id": .named],
    "change_event": ["user_id": .named, "type": .none, "data": .free, "sale": .none],
    "covered_verdict": ["user_id": .gone, "entitlement": .gone],
    "recorded_refusal": ["user_id": .gone, "subject": .gone],
    "reported_event": ["user_id": .gone, "id_sha256": .gone],
    // Days, products and amounts; a purchase's stay as its evidence does.
    "counted_purchase": ["counts": .none],
    // Without account tokens.
    "past_evidence": ["evidence": .none],
    "limit_due": ["user_id": .gone],
    "figure": ["grain": .none, "product_id": .none, "currency": .none],
    "user_progress": ["user_id": .named],
    "near_limit": ["user_id": .gone, "feature": .gone, "tier": .gone],
    "figure_cohort": ["product_id": .none],
    "tally": ["name": .none, "label": .none, "detail": .none],
    "tally_change": ["name": .none, "label": .none, "detail": .none],
    "product_period": ["product_id": .none, "period": .none],
    // Those that Anna saw go with her; the sums keep that somebody did.
    "exposure": ["user_id": .gone, "experiment": .gone, "variant": .gone],
    "exposure_due": ["user_id": .gone],
    "counted_exposure": ["user_id": .gone, "counts": .gone],
    "variant_figure": ["experiment": .none, "variant": .none, "currency": .none],
    "webhook": ["name": .none, "url_sha256": .none],
    "webhook_lease": ["webhook": .none, "holder": .none],
    "webhook_delivery": ["webhook": .none, "user_id": .gone, "problem": .gone],
    "customer_attribute": ["key": .gone, "name": .gone, "value": .gone],
    "reported_bytes": ["user_id": .gone],
    "customer": ["key": .gone, "spelling": .gone, "joined_to": .gone],
  ]

  /// A table or a column that comes new has to be thought of here, and in `EraseUser`.
  @Test func `every column that can hold a text is treated`() async throws {
    try await Scratch.withLedger { _, scratch in
      let columns = try SQLiteFile(scratch.path).rows(
        """
        SELECT tables.name AS "table", columns.name AS "column" FROM sqlite_master AS tables
        JOIN pragma_table_info(tables.name) AS columns
        WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%' AND tables.name <> 'ledger_migration'
          AND columns.type IN ('TEXT', 'BLOB', 'ANY', '')
        """
      ).map { (table: $0["table"] as String, column: $0["column"] as String) }
      #expect(columns.count > 80)
      for (table, column) in columns {
        #expect(Self.columns[table]?[column] != nil, "\(table).\(column): can it name a user?")
      }
      for (table, treated) in Self.columns {
        for column in treated.keys {
          #expect(columns.contains { $0.table == table && $0.column == column }, "\(table).\(column) is no more")
        }
      }
    }
  }

  /// Each column that names a user did name Anna before, or the tests of the erasure would prove nothing about it.
  @Test func `Anna is in every table that can name a user, and in none afterwards`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await Anna.fill(ledger)
      try await scratch.change(
        "INSERT INTO thinned VALUES ('\(annasAccount)', 0, 0, NULL, 1, 1, 0, 0, zeroblob(32))")
      try await scratch.change(
        """
        INSERT INTO account_token_due (environment, original_transaction_id, bundle_id, account_token, due_at, attempts)
        VALUES ('production', '1', 'com.example.app', '\(annasAccount)', 0, 0)
        """)
      let names = Anna.names.map { $0.lowercased() }
      func named() throws -> Set<String> {
        let file = try SQLiteFile(scratch.path)
        var found: Set<String> = []
        for (table, columns) in Self.columns {
          for (column, treatment) in columns where treatment != .none {
            let texts = try file.all(
              "SELECT lower(CAST(\(column) AS TEXT)) FROM \(table) WHERE \(column) IS NOT NULL", as: String.self)
            if texts.contains(where: { text in names.contains { text.contains($0) } }) { found.insert(table) }
          }
        }
        return found
      }
      // These tables name users in base64, or only when nobody owns the purchase.
      let hidden: Set = ["refused_notification", "unclaimed_evidence"]
      let naming = Set(Self.columns.filter { $0.value.values.contains { $0 != .none } }.keys).subtracting(hidden)
      let before = try named()
      #expect(before == naming, "\(before.symmetricDifference(naming))")
      _ = try await ledger.erase(Anna.erasure(hasRows: false))
      let after = try named()
      #expect(after == [])
    }
  }
}
