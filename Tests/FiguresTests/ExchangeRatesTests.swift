import Entitlements
import Figures
import SeededRandom
import Testing

/// Exchange rates, as the European Central Bank publishes them.
@Suite struct ExchangeRatesTests {
  private static func day(_ day: Int) -> Int { (CalendarDay(year: 2026, month: 11, day: day)?.daysSince1970 ?? 0) }

  private static func rates(_ text: String, into currency: String = "USD") throws -> ExchangeRates {
    try ExchangeRates(csv: Array(text.utf8), into: currency)
  }

  /// A Friday, a Thursday and a Wednesday, the newest first, with a comma at each line's end.
  private static let history = """
    Date,USD,JPY,CYP,GBP,
    2026-11-27,1.25,160.0,N/A,0.8,
    2026-11-26,1.20,150.0,N/A,N/A,
    2026-11-25,1.00,100.0,N/A,0.5,

    """

  @Test func `a day has its rates, a day without those before it, and the ends go on`() throws {
    let rates = try Self.rates(Self.history)
    #expect(rates.days == Self.day(25)...Self.day(27) && rates.currency == "USD")
    func factor(_ currency: String, _ days: Range<Int>) -> Double? {
      rates.factor(currency, over: Self.day(days.lowerBound)..<Self.day(days.lowerBound) + days.count)
        .map { ($0 * 1e9).rounded() / 1e9 }
    }
    #expect(factor("EUR", 25..<26) == 1 && factor("EUR", 26..<27) == 1.2 && factor("USD", 26..<27) == 1)
    #expect(factor("JPY", 25..<26) == 0.01 && factor("JPY", 27..<28) == 1.25 / 160)
    // Of Thursday there is none of the pound's; at the weekend Friday's stay; before the text the first are.
    #expect(factor("GBP", 26..<27) == 2.4)
    #expect(factor("EUR", 28..<29) == 1.25 && factor("EUR", 30..<31) == 1.25 && factor("EUR", 2..<3) == 1)
    // Of a span it is the mean of its days.
    #expect(abs((factor("EUR", 24..<29) ?? 0) - (1 + 1 + 1.2 + 1.25 + 1.25) / 5) < 1e-12)
    #expect(factor("CYP", 25..<26) == nil && factor("VND", 25..<26) == nil && factor("EUR", 25..<25) == nil)
  }

  @Test func `the daily file is read as it is published, with any end of line`() throws {
    for end in ["\n", "\r\n"] {
      let rates = try Self.rates(
        "\u{feff}Date, USD, JPY, \(end)27 November 2026, 1.0545, 159.23, \(end)", into: "EUR")
      #expect(rates.days == Self.day(27)...Self.day(27))
      let factor = try #require(rates.factor("USD", over: Self.day(1)..<Self.day(2)))
      #expect(abs(factor - 1 / 1.0545) < 1e-12)
    }
    // Rates for one of another currency have a column for the euro.
    let dollars = try Self.rates("Date,EUR,GBP,USD\n2026-11-27,0.8,0.5,1\n", into: "EUR")
    #expect(dollars.factor("GBP", over: Self.day(27)..<Self.day(28)) == 1.6)
  }

  private static let unusable: [(String, String)] = [
    ("", "has no first line with Date and currencies, such as Date,USD,GBP"),
    ("<html>", "has no first line with Date and currencies, such as Date,USD,GBP"),
    ("Date,USD", "has no day"), ("Date,usd", "has a currency in the first line that is not three capitals such as USD"),
    ("Date,USD,USD", "has USD twice in the first line"),
    ("Date,USD\n2026-02-30,1", "has no day in line 2, such as 2026-11-27 or 27 November 2026"),
    ("Date,USD\n2026-11-27,1\n\n2026-11-27,2", "has 2026-11-27 twice"),
    ("Date,USD\n2026-11-27,1,2", "has 2 rates in line 2, and 1 currencies"),
    ("Date,USD\n1900-01-01,1\n2026-11-27,1", "spans more than a hundred years"),
    ("Date,GBP\n2026-11-27,1", "has no rate of USD"), ("Date,USD\n2026-11-27,N/A", "has no rate of USD"),
    ("Date,USD\n2026-11-27,0", "has no number above zero as the rate of USD in line 2"),
    ("Date,USD\n2026-11-27,-1", "has no number above zero as the rate of USD in line 2"),
    ("Date,USD\n2026-11-27,nan", "has no number above zero as the rate of USD in line 2"),
    ("Date,USD\n2026-11-27,1e300", "has no number above zero as the rate of USD in line 2"),
    ("Date" + String(repeating: ",USD", count: 101), "has more than 100 currencies"),
  ]

  @Test(arguments: unusable)
  func `a text that is no file of rates is refused in a sentence`(text: String, reason: String) {
    #expect(throws: ExchangeRates.Unusable(reason: reason)) { try Self.rates(text) }
  }

  @Test func `no bytes bring it down`() throws {
    var random = SeededRandom(seed: 47)
    let letters = Array("Date,USDEUR2026-1170.N/A\r\n ".utf8) + [0, 0xFF]
    for _ in 0..<2_000 {
      var text = Array(Self.history.utf8)
      for _ in 0..<Int.random(in: 1...6, using: &random) {
        text[Int.random(in: text.indices, using: &random)] = letters.randomElement(using: &random) ?? 0
      }
      let rates = try? ExchangeRates(csv: text, into: "USD")
      if let factor = rates?.factor("EUR", over: Self.day(1)..<Self.day(30)) { #expect(factor > 0 && factor.isFinite) }
    }
    #expect(throws: ExchangeRates.Unusable.self) {
      try ExchangeRates(csv: Array(repeating: 0x41, count: ExchangeRates.sizeLimit + 1), into: "USD")
    }
  }
}
