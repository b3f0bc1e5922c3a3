import Figures
import Testing

@testable import Countersign

/// `figures`: exchange rates.
@Suite struct FiguresConfigurationTests {
  @Test func `a file of rates is read at the start, and one that is none stops it with a sentence`() throws {
    let directory = try TemporaryDirectory()
    let good = try directory.write("good.csv", "Date,USD\n2026-11-27,1.25\n")
    let sample = SampleConfiguration().setting("figures.rates_file", good)
    #expect(try sample.load().figures.rates?.rates.currency == "USD")
    #expect(try SampleConfiguration().load().figures.rates == nil)
    #expect(
      sample.setting("figures.currency", "GBP").problems().map(\.description) == [
        "figures.rates_file: the file '\(good)' has no rate of GBP"
      ])
    #expect(
      sample.setting("figures.currency", "dollars").problems().map(\.description) == [
        "figures.currency: must be three capitals such as USD, not 'dollars'"
      ])
    let bad = try directory.write("bad.csv", "<html>")
    #expect(
      sample.setting("figures.rates_file", bad).problems().map(\.description) == [
        "figures.rates_file: the file '\(bad)' has no first line with Date and currencies, such as Date,USD,GBP"
      ])
    let problems = sample.setting("figures.rates_file", directory.path).problems().map(\.description)
    #expect(problems.count == 1 && problems.first?.hasSuffix("is not a regular file") == true)
  }
}
