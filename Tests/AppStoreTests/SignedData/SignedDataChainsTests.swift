import Foundation
import Testing

@testable import AppStore

@Suite("Chains of signed data")
struct SignedDataChainsTests {
  private let pki: SignedDataPKI
  private let verifier: SignedDataVerifier

  init() throws {
    pki = try SignedDataPKI()
    verifier = try pki.verifier()
  }

  private typealias Sample = SignedSample

  @Test func `a chain is verified once, however many transactions it signed`() throws {
    for day in 0..<20 {
      let transaction = Sample.transaction(["signedDate": Sample.signedDate - Int64(day) * 86_400_000])
      _ = try verifier.transaction(pki.sign(transaction), now: Sample.now)
    }
    _ = try verifier.renewalInfo(pki.sign(Sample.renewalInfo()), now: Sample.now)
    #expect(verifier.chains.counts == (1, 1))
  }

  @Test func `a remembered chain still has to be valid at each signed date`() throws {
    let later = Date(timeIntervalSince1970: 1_893_456_000)
    _ = try verifier.transaction(pki.sign(Sample.transaction()), now: later)
    // The leaf is valid from 2023-01-01T00:00:00Z until 2026-01-01T00:00:00Z.
    for (milliseconds, reason): (Int64, NotAuthentic?) in [
      (1_672_531_199_999, .notYetValid(.signer)), (1_672_531_200_000, nil), (1_767_225_599_999, nil),
      (1_767_225_600_000, .expired(.signer)),
    ] {
      let jws = try pki.sign(Sample.transaction(["signedDate": milliseconds]))
      for verifier in [verifier, try pki.verifier()] {
        if let reason {
          #expect(throws: SignedDataError.notAuthentic(reason)) { try verifier.transaction(jws, now: later) }
        } else {
          _ = try verifier.transaction(jws, now: later)
        }
      }
    }
    #expect(verifier.chains.counts.remembered == 1)
  }

  @Test func `a refused chain is not remembered`() throws {
    let forged = try SignedDataPKI(rootKey: SignedDataPKI.Keys.otherRoot).sign(Sample.transaction())
    for _ in 0..<3 {
      #expect(throws: SignedDataError.notAuthentic(.untrustedRoot)) {
        try verifier.transaction(forged, now: Sample.now)
      }
    }
    #expect(verifier.chains.counts == (3, 0))
  }

  @Test func `a remembered chain does not vouch for another key's signature`() throws {
    _ = try verifier.transaction(pki.sign(Sample.transaction()), now: Sample.now)
    var forged = try TestJWS(Sample.transaction(["productId": "com.example.app.premium"]), pki)
    forged.key = try SignedDataPKI.Keys.otherLeaf.get()
    let jws = try forged.text()
    #expect(throws: SignedDataError.notAuthentic(.signatureMismatch)) { try verifier.transaction(jws, now: Sample.now) }
    #expect(verifier.chains.counts == (1, 1))
  }

  @Test func `the memory is bounded, and the chain that was used last stays`() throws {
    let limit = 4
    var options = SignedDataPKI.Options()
    let usual = try SignedDataPKI(options)
    let verifier = try usual.verifier(cachedChains: limit)
    let jws = try usual.sign(Sample.transaction())
    _ = try verifier.transaction(jws, now: Sample.now)
    for serial in 1...20 {
      options.serial = Int64(serial)
      let other = try SignedDataPKI(options).sign(Sample.transaction())
      _ = try verifier.transaction(other, now: Sample.now)
      _ = try verifier.transaction(jws, now: Sample.now)
      #expect(verifier.chains.counts.remembered <= limit)
    }
    // Its own and the twenty others: it was never forgotten.
    #expect(verifier.chains.counts == (21, limit))
  }

  @Test func `a third certificate that changes makes no new name for the same chain`() throws {
    for number in 0..<10 {
      var jws = try TestJWS(Sample.transaction(), pki)
      jws.certificates[2] = [UInt8(number)]
      _ = try verifier.transaction(jws.text(), now: Sample.now)
    }
    #expect(verifier.chains.counts == (1, 1))
  }

  @Test func `copies of a verifier share what they remember, on every thread`() async throws {
    let jws = try pki.sign(Sample.transaction())
    _ = try verifier.transaction(jws, now: Sample.now)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<64 {
        group.addTask { _ = try verifier.transaction(jws, now: Sample.now) }
      }
      try await group.waitForAll()
    }
    #expect(verifier.chains.counts == (1, 1))
  }
}
