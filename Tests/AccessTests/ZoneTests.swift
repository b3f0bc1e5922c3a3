import Foundation
import Testing

@testable import Access

@Suite struct ZoneTests {
  @Test(arguments: ["UTC", "Etc/UTC", "Europe/Berlin", "Asia/Calcutta", "America/Argentina/Ushuaia", "Etc/GMT+5"])
  func `a zone is known by its IANA name`(name: String) { #expect(Zone(named: name)?.name == name) }

  @Test(arguments: [
    "", "/", "EST", "GMT+5", "GMT+0530", "gmt", "EST5EDT", "Japan", "europe/berlin", "Europe/Berlni", "Mars/Phobos",
    "Europe/Berlin ",
    "Europe\0/Berlin", "Europe/" + String(repeating: "x", count: 100), String(repeating: "Europe/", count: 20),
    // Paths that are none of a zone: a folder, tables of the database, its copies, and all that is elsewhere.
    "America/Argentina", "America/Argentina/", "Europe//Berlin", "/Europe/Berlin", "/etc/passwd", "../etc/passwd",
    "Europe/../../../../etc/passwd", "Europe/./Berlin", "./UTC", "posix/Europe/Berlin", "right/Europe/Berlin",
    "localtime", "zone.tab", "tzdata.zi",
  ])
  func `anything else is no zone`(name: String) { #expect(Zone(named: name) == nil) }

  @Test func `GMT is Foundation's name of UTC`() {
    #expect(Zone(named: TimeZone.gmt.identifier) == .utc && Zone(named: "GMT") == .utc)
  }

  @Test func `zones are equal by their names`() throws {
    let berlin = try #require(Zone(named: "Europe/Berlin"))
    #expect(try berlin == #require(Zone(named: "Europe/Berlin")) && berlin != .utc)
    #expect(Set([berlin, berlin, .utc]).count == 2)
  }

  @Test func `suggestions are zones`() {
    let names = Zone.suggestions
    #expect(names.count > 300 && names.contains("Europe/Berlin"))
    #expect(names.allSatisfy { Zone(named: $0)?.name == $0 })
  }

  // MARK: Foundation's offsets

  /// Foundation has a copy of the database of its own, and either may be newer. What was before 2025 no release changes but to
  /// correct it, which is rare from 1970 on; what comes is compared where no law has changed for long.
  @Test func `the clocks of every zone are Foundation's`() throws {
    var different: [String] = []
    let names = TimeZone.knownTimeZoneIdentifiers.filter { $0.contains("/") }
    #expect(names.count > 400)
    for name in names {
      let (zone, theirs) = (try #require(Zone(named: name), "\(name)"), try #require(TimeZone(identifier: name)))
      // Each fourth day and some hours, which comes to every hour of the day.
      let times = stride(from: Int64(0), to: Self.year2025, by: 4 * 86_400 + 5 * 3600)
      if !times.allSatisfy({ zone.offset(at: $0 * 1000) == Self.offset(of: theirs, at: $0 * 1000) }) {
        different.append(name)
      }
    }
    #expect(different.isEmpty, "\(different)")
  }

  static let year2025: Int64 = 1_735_689_600
  /// 1 January 2100.
  static let year2100: Int64 = 4_102_444_800

  @Test(arguments: [
    "Europe/Berlin", "America/New_York", "America/Los_Angeles", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tokyo",
    "Australia/Lord_Howe", "Australia/Sydney", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Kiritimati",
    "Europe/London", "Europe/Dublin", "America/Havana", "America/St_Johns", "America/Argentina/Ushuaia",
    "Atlantic/Azores", "Africa/Johannesburg", "Etc/GMT+12",
  ])
  func `the clocks of a zone change when Foundation's do, until 2100`(name: String) throws {
    let (zone, theirs) = (try #require(Zone(named: name)), try #require(TimeZone(identifier: name)))
    try compare(zone, theirs, from: 0, to: Self.year2100)
  }

  /// Zones that left out a day, or whose governments decide late: what is past is as stable as elsewhere.
  @Test(arguments: [
    "Pacific/Apia", "Africa/Casablanca", "America/Sao_Paulo", "Africa/Cairo", "Africa/Monrovia", "Asia/Pyongyang",
    "Europe/Moscow", "Europe/Istanbul", "America/Caracas", "Asia/Gaza", "America/Nuuk", "Antarctica/Troll",
  ])
  func `the clocks of a zone with another history changed when Foundation's did`(name: String) throws {
    let (zone, theirs) = (try #require(Zone(named: name)), try #require(TimeZone(identifier: name)))
    try compare(zone, theirs, from: 0, to: Self.year2025)
  }

  /// Compares the milliseconds around each of Foundation's changes, and days between them.
  private func compare(_ zone: Zone, _ theirs: TimeZone, from start: Int64, to end: Int64) throws {
    var times = Array(stride(from: start * 1000, to: end * 1000, by: 11 * 86_400_000 + 3_600_000))
    var moment = Date(timeIntervalSince1970: Double(start))
    while let next = theirs.nextDaylightSavingTimeTransition(after: moment), next > moment,
      next.timeIntervalSince1970 < Double(end)
    {
      let change = Int64((next.timeIntervalSince1970 * 1000).rounded())
      times += [change - 1, change, change + 1]
      moment = next
    }
    for time in times {
      let (ours, expected) = (zone.offset(at: time), Self.offset(of: theirs, at: time))
      try #require(ours == expected, "\(zone.name) at \(time): \(ours), not \(expected)")
    }
  }

  private static func offset(of zone: TimeZone, at time: Int64) -> Int64 {
    Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(time) / 1000))) * 1000
  }
}
