import FoundationEssentials
import Testing

@testable import AppStore
@testable import JSON

@Suite struct AppleDateTests {
  @Test(arguments: [
    ("2014-06-28 14:47:53 Etc/GMT", Int64(1_403_966_873_000)), ("1970-01-01 00:00:00 Etc/GMT", 0),
    ("2000-02-29 23:59:59 Etc/GMT", 951_868_799_000), ("2024-07-01 00:00:00 Etc/GMT", 1_719_792_000_000),
    ("2024-12-31 23:59:59 GMT", 1_735_689_599_000), ("9999-12-31 23:59:59 UTC", 253_402_300_799_000),
    ("0001-01-01 00:00:00 Etc/UTC", -62_135_596_800_000), ("1969-12-31 23:59:59 Etc/GMT", -1000),
  ])
  func `the text form is read to the second`(_ text: String, _ milliseconds: Int64) {
    #expect(AppleDate.text(text) == moment(milliseconds))
  }

  @Test(arguments: [
    "", "2014-06-28", "2014-06-28 14:47:53", "2014-06-28 14:47:53 America/Los_Angeles", "2014-6-28 14:47:53 Etc/GMT",
    "2014-02-29 14:47:53 Etc/GMT", "1900-02-29 00:00:00 Etc/GMT", "2014-13-01 00:00:00 Etc/GMT",
    "2014-00-01 00:00:00 Etc/GMT", "2014-06-31 00:00:00 Etc/GMT", "2014-06-00 00:00:00 Etc/GMT",
    "2014-06-28 24:00:00 Etc/GMT", "2014-06-28 00:60:00 Etc/GMT", "2014-06-28 00:00:60 Etc/GMT",
    " 2014-06-28 14:47:53 Etc/GMT", "2014-06-28  14:47:53 Etc/GMT", "2014-06-28 14:47:53 Etc/GMT ",
    "2014-06-28 14:47:-3 Etc/GMT", "+014-06-28 14:47:53 Etc/GMT", "2014-06-28 14:47:53.0 Etc/GMT",
    "٢٠١٤-06-28 14:47:53 Etc/GMT", "0000-01-01 00:00:00 Etc/GMT", "2014/06/28 14:47:53 Etc/GMT", "not a date",
  ])
  func `anything else is not a date`(_ text: String) {
    #expect(AppleDate.text(text) == nil)
  }

  @Test func `the text form agrees with the calendar for every day of four centuries`() {
    let day: Int64 = 86_400_000
    // 1970-01-01 to 2369-12-31: one whole cycle of leap years.
    for number in stride(from: Int64(0), to: 146_097 * day, by: Int(day)) {
      var calendar = Calendar(identifier: .gregorian)
      calendar.timeZone = .gmt
      let parts = calendar.dateComponents([.year, .month, .day], from: moment(number))
      let ours = AppleDate.moment(
        year: parts.year ?? 0, month: parts.month ?? 0, day: parts.day ?? 0, hour: 0, minute: 0, second: 0)
      guard ours == moment(number) else {
        Issue.record("day \(number / day) differs")
        return
      }
    }
  }

  static let forms: [(String, Int64?)] = [
    (#""x_ms":"1719792000123""#, 1_719_792_000_123),
    (#""x_ms":1719792000123"#, 1_719_792_000_123),
    (#""x_ms":1719792000123.75"#, 1_719_792_000_123),
    (#""x_ms":1.719792000123e12"#, 1_719_792_000_123),
    (#""x_ms":"1719792000123.75""#, 1_719_792_000_123),
    (#""x_ms":"1719792000000","x":"2014-06-28 14:47:53 Etc/GMT""#, 1_719_792_000_000),
    (#""x_ms":"","x":"2014-06-28 14:47:53 Etc/GMT""#, 1_403_966_873_000),
    (#""x_ms":null,"x":"2014-06-28 14:47:53 Etc/GMT""#, 1_403_966_873_000),
    (#""x":"2014-06-28 14:47:53 Etc/GMT""#, 1_403_966_873_000),
    (#""x":"1350157508197""#, 1_350_157_508_197),
    (#""x":1350157508197"#, 1_350_157_508_197),
    (#""x":1350157508197.5"#, 1_350_157_508_197),
    (#""x_formatted":"2014-06-28 14:47:53 Etc/GMT""#, 1_403_966_873_000),
    (#""x_ms":"","x":"","x_pst":"""#, nil),
    (#""x_ms":null,"x":null"#, nil),
    (#""y_ms":"x""#, nil),
  ]

  @Test(arguments: forms)
  func `a moment is read from the first form that is there`(_ members: String, _ milliseconds: Int64?) throws {
    let root = try JSONDocument(Array("{\(members)}".utf8)).root
    #expect(try root.date("x") == milliseconds.map(moment))
  }

  @Test(arguments: [
    (#""x_ms":"17197920O0000""#, "x_ms"), (#""x_ms":"soon","x":"2014-06-28 14:47:53 Etc/GMT""#, "x_ms"),
    (#""x_ms":true"#, "x_ms"), (#""x_ms":{}"#, "x_ms"), (#""x_ms":[]"#, "x_ms"), (#""x_ms":1e300"#, "x_ms"),
    (#""x_ms":"9223372036854775807""#, "x_ms"), (#""x_ms":-9223372036854775808"#, "x_ms"),
    (#""x_ms":"1719792000123.""#, "x_ms"), (#""x_ms":".5""#, "x_ms"), (#""x_ms":" ""#, "x_ms"),
    (#""x":"2014-06-31 14:47:53 Etc/GMT""#, "x"), (#""x":"2014-06-28 14:47:53 America/Los_Angeles""#, "x"),
    (#""x":false"#, "x"), (#""x_formatted":"?""#, "x_formatted"),
    (#""x_pst":"2014-06-28 07:47:53 America/Los_Angeles""#, "x_pst"),
    (#""x_ms":"","x":"","x_pst":"2014-06-28 07:47:53 America/Los_Angeles""#, "x_pst"),
    (#""x_formatted_pst":"2014-06-28 07:47:53 America/Los_Angeles""#, "x_formatted_pst"),
  ])
  func `a moment that is there and cannot be read fails`(_ members: String, _ path: String) throws {
    let root = try JSONDocument(Array("{\(members)}".utf8)).root
    #expect(throws: JSONError.unreadable(path: path)) { try root.date("x") }
  }

  @Test(arguments: [
    ("Fri, 05 Oct 2018 11:24:18 GMT", Int64(1_538_738_658_000)), ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_000),
  ])
  func `the date of an HTTP header is read`(_ text: String, _ milliseconds: Int64) {
    #expect(HTTPDate.parse(text) == moment(milliseconds))
  }

  @Test(arguments: [
    "", "now", "Fri, 05 Oct 2018 11:24:18", "Fri, 05 Oct 2018 11:24:18 PST", "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994", "Fri, 5 Oct 2018 11:24:18 GMT", "Fri, 31 Feb 2018 11:24:18 GMT",
    "Fri, 05 Okt 2018 11:24:18 GMT", "Fri, 05 Oct 2018 25:24:18 GMT",
    "Fri, 0x Oct 2018 11:24:18 GMT", "Fri, 05 Oct 2018 11:24:18 GMT ", "Fri; 05 Oct 2018 11:24:18 GMT",
  ])
  func `other dates of an HTTP header count as absent`(_ text: String) {
    #expect(HTTPDate.parse(text) == nil)
  }
}
