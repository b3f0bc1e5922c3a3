import Entitlements
import Profiles
import Testing

@testable import Validation

/// The profile store's health as operators are told it.
@Suite struct ProfileStoreHealthTests {
  private let health = ProfileStoreHealth()

  private static func trouble(_ code: String) -> ProfileStoreTrouble { ProfileStoreTrouble(code: code, sentence: "") }

  private static func away(_ code: String) -> ProfileWriteOutcome { .unavailable(trouble(code), retryAfter: nil) }

  private static let hidden = ProfileStoreCheck.misconfigured(trouble(ProfileStoreTrouble.noRowsVisible))

  @Test(arguments: [ProfileWriteOutcome.noSuchProfile, .refused(trouble("23514")), .impossibleUserID(trouble("22P02"))])
  func `hidden rows stay told where no row was seen`(outcome: ProfileWriteOutcome) {
    health.note(Self.hidden)
    let reported = ProfileStoreHealth.State.misconfigured(code: "no_rows_visible")
    #expect(health.state == reported)
    health.note(outcome, of: "anna")
    #expect(health.state == reported)
    // Nor does an outage in between make it forgotten.
    health.note(Self.away("http_503"), of: "anna")
    #expect(health.state == .unavailable(code: "http_503"))
    health.note(outcome, of: "anna")
    #expect(health.state == reported)
  }

  @Test(arguments: [ProfileWriteOutcome.applied, .superseded(by: 9)])
  func `a row that was seen ends it`(outcome: ProfileWriteOutcome) {
    health.note(Self.hidden)
    health.note(outcome, of: "anna")
    #expect(health.state == .ok)
    health.note(.noSuchProfile, of: "ben")
    #expect(health.state == .ok)
  }

  @Test(arguments: ["timed_out", "57014", "55P03"])
  func `one row that somebody has locked is not a store that is away`(code: String) {
    health.note(ProfileStoreCheck.ok)
    health.note(.refused(Self.trouble("23514")), of: "anna")
    #expect(health.state == .ok)
    for _ in 1...3 { health.note(Self.away(code), of: "anna") }
    #expect(health.state == .ok)
    health.note(.applied, of: "ben")
    health.note(Self.away(code), of: "anna")
    #expect(health.state == .ok)
    // Two in a row: it is not about one of them.
    health.note(Self.away(code), of: "ben")
    #expect(health.state == .unavailable(code: code))
    health.note(Self.away(code), of: "ben")
    #expect(health.state == .unavailable(code: code))
    health.note(.applied, of: "carl")
    #expect(health.state == .ok)
  }

  @Test func `one row that a trigger changes is no misconfigured store, and a second one is`() {
    let changed = ProfileWriteOutcome.misconfigured(Self.trouble("changed_by_store"))
    let reported = ProfileStoreHealth.State.misconfigured(code: "changed_by_store")
    for _ in 1...3 { health.note(changed, of: "anna") }
    #expect(health.state == .ok)
    // Another problem is another row's.
    health.note(Self.away("timed_out"), of: "ben")
    #expect(health.state == .ok)
    health.note(changed, of: "ben")
    #expect(health.state == reported)
    health.note(changed, of: "anna")
    #expect(health.state == reported)
    health.note(.applied, of: "carl")
    #expect(health.state == .ok)
  }

  @Test func `a store that was never seen well is away at the first row`() {
    health.note(Self.away("timed_out"), of: "anna")
    #expect(health.state == .unavailable(code: "timed_out"))
  }

  @Test func `a column that was told to be missing stays told while it may still come`() {
    health.note(.misconfigured(Self.trouble("PGRST204")))
    health.note(Self.away("PGRST204"), of: "anna")
    #expect(health.state == .misconfigured(code: "PGRST204"))
    health.note(Self.away("http_503"), of: "anna")
    #expect(health.state == .unavailable(code: "http_503"))
    health.note(.applied, of: "anna")
    #expect(health.state == .ok)
  }

  @Test func `an ID that the database could not read says nothing of our privileges`() {
    health.note(.misconfigured(Self.trouble("42501")))
    health.note(.impossibleUserID(Self.trouble("22P02")), of: "anna")
    #expect(health.state == .misconfigured(code: "42501"))
    health.note(Self.away("http_503"), of: "anna")
    health.note(.impossibleUserID(Self.trouble("22P02")), of: "anna")
    #expect(health.state == .ok)
  }
}
