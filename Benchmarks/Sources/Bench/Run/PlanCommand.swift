import ArgumentParser
import Foundation

/// `bench plan`: what N subscribers need, by a simulation of a year, hour by hour, with what was measured.
///
/// Nothing is measured here: the costs are those of docs/performance.md or said to be estimates, and each can be set. The
/// simulation is for what a mean does not say: the busiest hour, a day of a campaign, what waits after Apple was away.
struct PlanCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "plan", abstract: "Print what a year of N subscribers takes: machines, storage, calls to Apple.")

  @Option(help: "Subscribers at the end of the year; half as many at its beginning.")
  var subscribers = [100_000.0, 1_000_000, 10_000_000, 100_000_000]
  @Option(help: "Days of a subscription's period.") var period = 30.0
  @Option(help: "Share of subscriptions that end in a period.") var churn = 0.08
  @Option(help: "Posts of the app for a subscriber a day: at purchases, and at some starts of the app.")
  var posts = 0.2
  @Option(help: "Share of posts that are a transaction of StoreKit 2, which is verified without a call.")
  var signed = 0.8
  @Option(help: "Reads of a profile, for a subscriber a day.") var reads = 5.0
  @Option(help: "Notifications of Apple's, for a subscription and period.") var notifications = 1.3
  @Option(help: "Share of renewals of which a notification tells in time: the others are asked about.") var told = 0.97
  @Option(help: "Microseconds of CPU of a post, of a notification and of a check.") var postCost = 1_712.0
  @Option(help: "Microseconds of CPU of a read.") var readCost = 290.0
  @Option(help: "Microseconds of PostgreSQL's CPU for a write.") var writeCost = 1_849.0
  @Option(help: "Microseconds of PostgreSQL's CPU for a read: an estimate.") var queryCost = 150.0
  @Option(help: "Bytes of disk of a subscription.") var bytes = 8_289.0
  @Option(help: "Bytes that a renewal adds, or two notifications: an estimate.") var growth = 2_000.0
  @Option(help: "Calls a second that Apple takes for one app.") var limit = 50.0
  @Option(help: "revalidation.rate: calls a second for what is due.") var rate = 10.0
  @Option(help: "Share of a core that is used at most.") var load = 0.6
  @Option(help: "Cores of the database's machine.") var databaseCores = 32.0

  func run() throws {
    print(
      """
      | subscribers | posts a second, mean and busiest hour | calls to Apple a second, busiest hour | \
      longest wait of a check, and after six hours without Apple | writes a second, busiest hour | cores of the service | \
      cores of PostgreSQL | disk after a year | what carries it |
      |---|---|---|---|---|---|---|---|---|
      """)
    for count in subscribers { print(row(of: year(of: count), count)) }
  }

  /// The result of a simulated year.
  struct Year {
    /// Posts, reads and writes a second.
    var meanPosts = 0.0
    var busiest = Hour()
    /// Hours that what was due waited at most, and after the outage.
    var longestWait = 0.0
    var waitAfterOutage = 0.0
    var bytes = 0.0
    /// Whether checks come faster than they may be asked.
    var isBehind = false
  }

  struct Hour {
    var posts = 0.0
    var calls = 0.0
    var writes = 0.0
    var reads = 0.0
  }

  /// Shares of a day's traffic by hour: least at night, most in the evening.
  private static let hours = (0..<24).map { 1 + 0.75 * sin((Double($0) - 14) / 24 * 2 * .pi) }

  func year(of count: Double) -> Year {
    var year = Year()
    var waiting = 0.0
    var all = 0.0
    year.bytes = count / 2 * bytes
    for day in 0..<365 {
      let known = count * (0.5 + 0.5 * Double(day) / 365)
      // Weekends have more; on one day a campaign has three times as much.
      let ofDay = (day % 7 >= 5 ? 1.2 : 0.92) * (day == 200 ? 3 : 1)
      let renewals = known * (1 - churn) / period
      let new = (count * 0.5 / 365 + known * churn / period) * ofDay
      for hour in 0..<24 {
        let share = Self.hours[hour] / 24
        // Apple is away for six hours once.
        let isAway = day == 100 && hour >= 12 && hour < 18
        let posted = (known * posts * ofDay + new) * share
        let asked = posted * (1 - signed)
        // Renewals are spread over the day as the purchases were.
        let due = renewals * (1 - told) * share
        let mostChecks = isAway ? 0 : max(0, min(rate * 3_600, limit * 3_600 - asked))
        let checked = min(waiting + due, mostChecks)
        waiting += due - checked
        let notified = known * notifications / period * share
        var now = Hour()
        now.posts = posted / 3_600
        now.calls = (isAway ? 0 : asked + checked) / 3_600
        now.writes = (posted + checked + notified) / 3_600
        now.reads = known * reads * ofDay * share / 3_600
        year.busiest.posts = max(year.busiest.posts, now.posts)
        year.busiest.calls = max(year.busiest.calls, now.calls)
        year.busiest.writes = max(year.busiest.writes, now.writes)
        year.busiest.reads = max(year.busiest.reads, now.reads)
        all += posted
        let hoursToWait = mostChecks > 0 ? waiting / mostChecks : 0
        if day == 100 || day == 101 {
          year.waitAfterOutage = max(year.waitAfterOutage, hoursToWait)
        } else {
          year.longestWait = max(year.longestWait, hoursToWait)
        }
      }
      year.bytes += new * bytes + (renewals + known * notifications / period) * growth / 2
    }
    year.meanPosts = all / (365 * 86_400)
    year.isBehind = waiting > rate * 86_400 || year.busiest.calls > limit * 0.999
    return year
  }

  private func row(of year: Year, _ count: Double) -> String {
    let busiest = year.busiest
    let service = (busiest.writes * postCost + busiest.reads * readCost) / 1e6 / load
    let database = (busiest.writes * writeCost + busiest.reads * queryCost) / 1e6 / load
    let fit =
      year.isBehind
      ? "Apple's limit is reached"
      : database > databaseCores
        ? "more than one database" : service <= 1 && year.bytes < 100e9 ? "one process with its file" : "replicas"
    func hours(_ value: Double) -> String { year.isBehind ? "no end" : value < 1 ? "below 1 h" : "\(value.text()) h" }
    return "| \(short(count)) | \(year.meanPosts.text(1)), \(busiest.posts.text(1)) | \(busiest.calls.text(1)) | "
      + "\(hours(year.longestWait)), \(hours(year.waitAfterOutage)) | "
      + "\(busiest.writes.text(1)) | \(service.text(1)) | \(database.text(1)) | \(short(year.bytes))B | \(fit) |"
  }

  private func short(_ value: Double) -> String {
    for (unit, name) in [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")] where value >= unit {
      return (value / unit).text(value / unit < 10 && value.truncatingRemainder(dividingBy: unit) != 0 ? 1 : 0) + name
    }
    return value.text()
  }
}
