import CountersignAPI
import Testing

@testable import Countersign

/// The brake in words.
@Suite struct BrakeStateTests {
  private static func report(_ json: String) throws(ServiceClient.Failure) -> BrakeState {
    try BrakeState(body: Array(json.utf8))
  }

  @Test func `counts of the brake are shown, null members are not`() throws {
    let report = try Self.report(
      #"{"engaged":true,"lowered":10,"looked_at":80,"since":"2026-01-15T12:00:00Z","withheld":null,"#
        + #""withheld_by_rules":0,"newer":{"a":1}}"#)
    #expect(report.isEngaged)
    #expect(
      Array(report.text.split(separator: "\n").dropFirst()) == [
        "  looked_at  80", "  lowered    10", "  since      2026-01-15T12:00:00Z",
      ])
  }

  @Test func `a brake that is released needs one line`() throws {
    let report = try Self.report(
      #"{"engaged":false,"looked_at":null,"lowered":null,"since":null,"withheld":null,"#
        + #""withheld_by_rules":0}"#)
    #expect(!report.isEngaged)
    #expect(report.text == "The brake is released: nobody is held back.")
  }

  @Test func `users whom a changed catalog would lower are not told to be nobody`() throws {
    let released = try Self.report(#"{"engaged":false,"withheld_by_rules":80}"#)
    #expect(
      released.text == "The brake is not engaged.\nA changed catalog or policy would lower 80 of the users: they keep "
        + "what they have. Look into it, then fix the configuration, or 'brake release'.")
    let none = try Self.report(#"{"engaged":false,"withheld_by_rules":0}"#)
    #expect(none.text == "The brake is released: nobody is held back.")
  }

  @Test(arguments: ["", "[]", "{}", "<html>", #"{"engaged":1}"#, #"{"engaged":null}"#])
  func `an answer that is no brake's is said not to be one`(body: String) {
    #expect(
      throws: ServiceClient.Failure.unreachable("the answer is not a brake's; is it Countersign that listens there?")
    ) {
      try Self.report(body)
    }
  }
}
