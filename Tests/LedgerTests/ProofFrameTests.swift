import Entitlements
import Foundation
import LedgerFixtures
import TestSupport
import Testing

@testable import Ledger

/// The common part of receipts is stored once, and each receipt is given back octet for octet.
@Suite struct ProofFrameTests {
  /// Stands for the certificates of one signer.
  private static func certificates(_ signer: UInt8 = 1, count: Int = 3_000) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 256 &+ Int(signer)) }
  }

  private struct Receipt {
    var base64: String
    var shared: Range<Int>?
  }

  private static func receipt(_ number: UInt8, around certificates: [UInt8]) -> Receipt {
    let head = [UInt8](repeating: number, count: 300)
    let octets = head + certificates + [UInt8](repeating: number, count: 256)
    return Receipt(
      base64: Data(octets).base64EncodedString(), shared: head.count..<(head.count + certificates.count))
  }

  private static func record(_ receipt: Receipt, of user: UserID, _ id: String, time: Double = 0, in ledger: Ledger)
    async throws
  {
    let entry = entry(user, [evidence(id, time: time)], receipt: receipt.base64).with {
      $0.sharedOctets = receipt.shared
    }
    #expect(try await ledger.record(entry).recorded != nil)
  }

  private static func isKept(_ receipt: Receipt, as id: OriginalTransactionID, in ledger: Ledger) async throws -> Bool {
    try await ledger.receipts(mentioning: id).map(\.base64) == [receipt.base64]
  }

  @Test(.ofTheFile) func `receipts of one signer share its certificates, those of another have others`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let receipts = [
        Self.receipt(1, around: Self.certificates()), Self.receipt(2, around: Self.certificates()),
        Self.receipt(3, around: Self.certificates(2)),
      ]
      for (number, receipt) in receipts.enumerated() {
        try await Self.record(receipt, of: UserID("u\(number)"), "\(number)", in: ledger)
      }
      for (number, receipt) in receipts.enumerated() {
        #expect(try await Self.isKept(receipt, as: OriginalTransactionID("\(number)"), in: ledger))
      }
      #expect(try await scratch.rows("SELECT length(content) FROM proof") == [["556"], ["556"], ["556"]])
      #expect(try await scratch.rows("SELECT length(content) FROM proof_frame") == [["3000"], ["3000"]])
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test(.ofTheFile) func `a receipt that was decoded before is stored as one that was not`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let receipt = Self.receipt(1, around: Self.certificates())
      let octets = try #require(Data(base64Encoded: receipt.base64).map { Array($0) })
      for (user, octets) in [("u1", nil), ("u2", octets)] as [(String, [UInt8]?)] {
        let entry = entry(UserID(user), [evidence(user)], receipt: receipt.base64).with {
          ($0.receiptOctets, $0.sharedOctets) = (octets, receipt.shared)
        }
        #expect(try await ledger.record(entry).recorded != nil)
        #expect(try await Self.isKept(receipt, as: OriginalTransactionID(user), in: ledger))
      }
      #expect(try await scratch.rows("SELECT DISTINCT hex(sha256), is_text, hex(content) FROM proof").count == 1)
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test(.ofTheFile) func `a signed transaction shares its header`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      let header = String(repeating: "eyJ4NWMiOlsi", count: 100)
      for number in 1...2 {
        let receipt = Receipt(base64: header + ".payload\(number).signature", shared: 0..<header.utf8.count)
        try await Self.record(receipt, of: UserID("u\(number)"), "\(number)", in: ledger)
        #expect(try await Self.isKept(receipt, as: OriginalTransactionID("\(number)"), in: ledger))
      }
      #expect(try await scratch.rows("SELECT length(content) FROM proof_frame") == [["1200"]])
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test(.ofTheFile) func `too little to share, no part of the receipt, or all of it: it is stored whole`() async throws
  {
    try await Scratch.withLedger { ledger, scratch in
      let whole = Self.receipt(1, around: Self.certificates())
      let frames = [0..<511, 3_500..<4_100, 0..<3_556, -600..<100, 0..<Int.max]
      for (number, frame) in frames.enumerated() {
        var receipt = whole
        receipt.shared = frame
        try await Self.record(receipt, of: UserID("u\(number)"), "\(number)", in: ledger)
        #expect(try await Self.isKept(receipt, as: OriginalTransactionID("\(number)"), in: ledger))
      }
      // A text that is no base64 and no signed transaction.
      let text = Receipt(base64: String(repeating: "!", count: 2_000), shared: 0..<1_000)
      try await Self.record(text, of: "text", "text", in: ledger)
      #expect(try await Self.isKept(text, as: "text", in: ledger))
      #expect(try await scratch.rows("SELECT count(*) FROM proof_frame") == [["0"]])
      #expect(try await scratch.rows("SELECT DISTINCT frame_id, frame_at FROM proof") == [[nil, nil]])
    }
  }

  @Test(.ofTheFile) func `a receipt in the place of another has its own frame, or none`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      var whole = Self.receipt(3, around: Self.certificates(3))
      whole.shared = nil
      let receipts = [
        Self.receipt(1, around: Self.certificates()), Self.receipt(2, around: Self.certificates(2)), whole,
      ]
      for (number, receipt) in receipts.enumerated() {
        try await Self.record(receipt, of: "anna", "1", time: Double(number), in: ledger)
        #expect(try await Self.isKept(receipt, as: "1", in: ledger))
        #expect(try await scratch.verify().findings == [])
      }
      #expect(try await scratch.rows("SELECT count(*) FROM proof") == [["1"]])
    }
  }

  @Test(.ofTheFile) func `an erased user's receipt is gone, and the certificates of Apple's stay`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      for user in ["anna", "ben"] as [UserID] {
        let number: UInt8 = user == "anna" ? 1 : 2
        try await Self.record(Self.receipt(number, around: Self.certificates()), of: user, user.rawValue, in: ledger)
      }
      _ = try await ledger.erase(Anna.erasure("anna", hasRows: false))
      #expect(try await ledger.receipts(mentioning: "anna").map(\.isErased) == [true])
      #expect(try await Self.isKept(Self.receipt(2, around: Self.certificates()), as: "ben", in: ledger))
      #expect(try await scratch.verify().findings == [])
    }
  }

  @Test(.ofTheFile) func `a damaged frame takes no later receipt along`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await Self.record(Self.receipt(1, around: Self.certificates()), of: "anna", "1", in: ledger)
      try await scratch.change("UPDATE proof_frame SET content = zeroblob(3000)")
      let receipt = Self.receipt(2, around: Self.certificates())
      try await Self.record(receipt, of: "ben", "2", in: ledger)
      #expect(try await Self.isKept(receipt, as: "2", in: ledger))
    }
  }

  @Test(.ofTheFile) func `nobody can fill the ledger with frames`() async throws {
    try await Scratch.withLedger { ledger, scratch in
      try await scratch.change(
        """
        INSERT INTO proof_frame (id, sha256, content)
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(ProofFrame.limit - 1))
        SELECT i, randomblob(32), x'00' FROM n
        """)
      let receipts = (1...3).map { Self.receipt($0, around: Self.certificates($0 == 3 ? 1 : $0)) }
      for (number, receipt) in receipts.enumerated() {
        try await Self.record(receipt, of: UserID("u\(number)"), "\(number)", in: ledger)
        #expect(try await Self.isKept(receipt, as: OriginalTransactionID("\(number)"), in: ledger))
      }
      // The second signer came too late; the first one's is still shared.
      #expect(try await scratch.rows("SELECT length(content) FROM proof ORDER BY id") == [["556"], ["3556"], ["556"]])
      #expect(try await scratch.rows("SELECT count(*) FROM proof_frame") == [["\(ProofFrame.limit)"]])
    }
  }

  @Test(
    .ofTheFile,
    arguments: [
      "UPDATE proof_frame SET content = x'00'", "UPDATE proof SET frame_at = frame_at + 1", "DELETE FROM proof_frame",
      "UPDATE proof SET frame_at = 10000", "UPDATE proof SET frame_id = NULL, frame_at = NULL",
    ]) func `a frame that is not the receipt's is found`(tampering: String) async throws
  {
    let scratch = try Scratch()
    let ledger = try await scratch.open()
    try await Self.record(Self.receipt(1, around: Self.certificates()), of: "anna", "1", in: ledger)
    await ledger.close()
    try await scratch.change(tampering)
    #expect(try await scratch.verify().findings.count == 1)
  }

  @Test func `replicas store receipts whole`() async throws {
    let url = try await TestEngine.newURL()
    let ledger = try await Ledger.open(url: url, connections: 1)
    let receipt = Self.receipt(1, around: Self.certificates())
    try await Self.record(receipt, of: "anna", "1", in: ledger)
    #expect(try await Self.isKept(receipt, as: "1", in: ledger))
    await ledger.close()
    let back = try Scratch()
    _ = try await LedgerCopy.copy(from: .database(url: url, connections: 1), to: .file(back.path)) { _ in }
    #expect(try Self.lengths(of: back) == ["3556"])
  }

  @Test func `a ledger that is copied to a database and back keeps its frames`() async throws {
    let (scratch, back) = try (Scratch(), Scratch())
    let ledger = try await Ledger.open(path: scratch.path) { _ in }
    let receipt = Self.receipt(1, around: Self.certificates())
    try await Self.record(receipt, of: "anna", "1", in: ledger)
    await ledger.close()
    let url = try await TestEngine.newURL()
    _ = try await LedgerCopy.copy(from: .file(scratch.path), to: .database(url: url, connections: 1)) { _ in }
    #expect(try await LedgerVerification.verify(url: url).findings == [])
    let shared = try await Ledger.open(url: url, connections: 1)
    #expect(try await Self.isKept(receipt, as: "1", in: shared))
    await shared.close()
    _ = try await LedgerCopy.copy(from: .database(url: url, connections: 1), to: .file(back.path)) { _ in }
    #expect(try await LedgerVerification.verify(path: back.path).findings == [])
    #expect(try Self.lengths(of: back) == ["556"])
  }

  private static func lengths(of scratch: Scratch) throws -> [String] {
    try SQLiteFile(scratch.path).all("SELECT CAST(length(content) AS TEXT) FROM proof")
  }
}
