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
    func problems(_ key: String, _ value: String) -> [String] {
      sample.setting(key, value).problems().map { $0.description.replacing(directory.path, with: "") }
    }
    #expect(
      problems("figures.currency", "GBP") == [
        #"figures.rates_file in countersign.yaml line 11: the file "/good.csv" has no rate of GBP"#
      ])
    #expect(
      problems("figures.currency", "dollars") == [
        #"figures.currency in countersign.yaml line 10: must be three capitals such as USD, not "dollars""#
      ])
    let bad = try directory.write("bad.csv", "<html>")
    #expect(
      problems("figures.rates_file", bad) == [
        #"figures.rates_file in countersign.yaml line 10: the file "/bad.csv" has no first line with Date and currencies, such as Date,USD,GBP"#
      ])
    let none = problems("figures.rates_file", directory.path)
    #expect(none.count == 1 && none.first?.hasSuffix("is not a regular file") == true)
  }
}
