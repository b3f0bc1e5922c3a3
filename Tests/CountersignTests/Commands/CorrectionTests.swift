import Testing

@testable import Countersign

/// A misspelt command is told with the one that was meant.
@Suite struct CorrectionTests {
  @Test(arguments: [
    (["serv"], "serve"), (["doctr", "--json"], "doctor"), (["ledger", "verfy"], "verify"),
    (["brake", "relase"], "release"),
  ])
  func `the nearest command is named`(arguments: [String], meant: String) {
    #expect(Countersign.correction(of: arguments)?.hasSuffix("; did you mean '\(meant)'?") == true)
  }

  @Test(arguments: [
    [], ["serve"], ["help", "serv"], ["--version"], ["inspect", "serv"], ["--config", "serv"], ["something-else"],
    ["ledger", "verify", "--against", "serv"],
  ])
  func `nothing is said of a command that is right, an argument, an option and what resembles none`(arguments: [String])
  {
    #expect(Countersign.correction(of: arguments) == nil)
  }
}
