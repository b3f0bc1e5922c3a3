import Entitlements
import Foundation
import Testing

@testable import Access

@Suite struct LocalDaysTests {
  @Test(arguments: [
    // The clocks go forward by an hour.
    ("Europe/Berlin", "2026-03-29", 23.0), ("America/New_York", "2026-03-08", 23),
    ("Australia/Lord_Howe", "2026-10-04", 23.5),
    // They go back.
    ("Europe/Berlin", "2026-10-25", 25), ("America/New_York", "2026-11-01", 25),
    ("Australia/Lord_Howe", "2026-04-05", 24.5),
    // Forward at midnight: the day begins at one.
    ("America/Santiago", "2026-09-06", 23), ("Africa/Cairo", "2026-04-24", 23), ("America/Havana", "2026-03-08", 23),
    // Back at midnight: the evening before is shown twice; or midnight itself is.
    ("America/Santiago", "2026-04-04", 25), ("America/Havana", "2026-11-01", 25),
    // Over midnight, at one minute past.
    ("America/St_Johns", "2010-11-06", 24), ("America/St_Johns", "2010-11-07", 25),
    ("UTC", "2028-02-29", 24), ("Asia/Kathmandu", "2026-06-01", 24), ("Pacific/Kiritimati", "2026-06-01", 24),
    ("Etc/GMT+12", "2026-06-01", 24), ("America/Nuuk", "2024-03-30", 23), ("Africa/Casablanca", "2026-03-22", 23),
  ])
  func `a day is as long as it is on the clocks`(name: String, date: String, hours: Double) throws {
    let zone = try #require(Zone(named: name))
    let days = LocalDays(zone: zone)
    let noon = try moment("\(date) 12:00", in: name)
    let day = days.day(of: noon)
    let range = days.moments(of: day..<day + 1)
    #expect(range.upperBound.timeIntervalSince(range.lowerBound) == hours * 3600, "\(range)")
    #expect(range.contains(noon))
    // Also while the clocks, set back over midnight, show the evening before once more.
    for minute in stride(from: 0, to: hours * 60, by: 10) {
      #expect(days.day(of: range.lowerBound.addingTimeInterval(minute * 60)) == day)
    }
    #expect(days.day(of: range.upperBound) == day + 1)
    #expect(days.day(of: range.upperBound.advanced(by: .milliseconds(-1))) == day)
    #expect(days.day(of: range.lowerBound.advanced(by: .milliseconds(-1))) == day - 1)
  }

  @Test func `a day that a zone left out is empty`() throws {
    // Samoa went from 29 to 31 December 2011, over the date line.
    let days = LocalDays(zone: try #require(Zone(named: "Pacific/Apia")))
    let day = days.day(of: try moment("2011-12-29 12:00", in: "Pacific/Apia"))
    #expect(days.start(of: day + 1) == days.start(of: day + 2))
    #expect(days.day(of: days.start(of: day + 1)) == day + 2)
  }

  @Test func `every day of every zone is Foundation's, and so is its week and its month`() throws {
    // A year with its leap day, and the months around it.
    let first = try moment("2027-11-15")
    for name in UsagePropertyTests.zones {
      let zone = try #require(Zone(named: name))
      var calendar = Calendar(identifier: .iso8601)
      calendar.timeZone = try #require(TimeZone(identifier: name))
      let days = LocalDays(zone: zone)
      for count in 0..<480 {
        let moment = first.addingTimeInterval(Double(count) * 86_400 + Double(count % 24) * 3600)
        let day = days.day(of: moment)
        for (component, range) in [
          (.day, day..<day + 1), (.weekOfYear, days.week(of: day)), (.month, days.month(of: day)),
        ] as [(Calendar.Component, Range<Int>)] {
          let interval = try #require(calendar.dateInterval(of: component, for: moment))
          let moments = days.moments(of: range)
          try #require(
            moments == interval.start..<interval.end, "\(name) \(moment) \(component): \(moments), \(interval)")
        }
      }
    }
  }
}
