import Testing

@testable import Countersign

/// The brake in words.
@Suite struct BrakeReportTests {
  private static func report(_ json: String) throws(ServiceClient.Failure) -> BrakeReport {
    try BrakeReport(body: Array(json.utf8))
  }

  @Test func `what a newer service says more is shown, and what is null is not`() throws {
    let report = try Self.report(
      #"{"engaged":true,"lowered":10,"since":"2026-01-15T12:00:00Z","withheld":null,"share":12.34,"is_new":true,"#
        + #""products":[{"id":"com.example.\u001b[31mpro","subscriptions":80},{"id":"b","subscriptions":1}],"empty":[]}"#
    )
    #expect(report.isEngaged)
    let lines = report.text.split(separator: "\n").dropFirst()
    #expect(
      Array(lines) == [
        "  is_new    yes", "  lowered   10",
        "  products  id com.example.[31mpro, subscriptions 80; id b, subscriptions 1",
        "  share     12.3", "  since     2026-01-15T12:00:00Z",
      ])
  }

  @Test func `a brake that is released needs one line`() throws {
    let report = try Self.report(#"{"engaged":false,"looked_at":null,"lowered":null,"since":null,"withheld":null}"#)
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
  func `what is no brake is said not to be one`(body: String) {
    #expect(
      throws: ServiceClient.Failure.unreachable("the answer is not a brake's; is it Countersign that listens there?")
    ) {
      try Self.report(body)
    }
  }
}
