import AppStore
package import Entitlements
package import FoundationEssentials
package import Ledger
import Synchronization

/// The progress of the questions to Apple's history of notifications, by app and store. It survives a restart.
package final class NotificationHistory: Sendable {
  package struct Source: Hashable, Sendable {
    package var bundleID: BundleID
    package var environment: StoreEnvironment

    fileprivate var memo: String { "notification_history \(environment.rawValue) \(bundleID.rawValue)" }
  }

  struct Window: Codable, Hashable, Sendable {
    var from: Date
    var to: Date
    var onlyFailures: Bool
    /// Apple's name of the next page.
    var token: String?
  }

  /// A stretch of time of which Apple keeps nothing any more.
  package struct Gap: Codable, Hashable, Sendable {
    package var from: Date
    package var to: Date
    package var foundAt: Date
  }

  package struct Progress: Codable, Hashable, Sendable {
    /// Everything until then was asked; `nil` before the first time.
    package var through: Date?
    /// When it was first to be asked.
    var begunAt: Date?
    /// To be asked, in this order.
    var windows: [Window] = []
    package var gap: Gap?
    /// Notifications in the answers since the windows were planned, and those of them that were new.
    package var seen = 0
    package var taken = 0
    /// The UUIDs of those that cannot be recorded, the newest at the end.
    package var passedOver: [String] = []

    package var isAsking: Bool { !windows.isEmpty }
    /// The moment that its age counts from.
    package var reach: Date? { through ?? begunAt }
  }

  package struct Status: Sendable {
    package var source: Source
    package var progress: Progress
    /// Why Apple could not be asked the last time.
    package var problem: String?
  }

  /// The whole in a word, for health and metrics.
  package enum State: String, Sendable {
    /// Apple is not asked: there is no key.
    case none
    case ok
    /// Production's history could not be asked for too long.
    case behind
    /// Apple does not keep what was missed.
    case gap
  }

  /// How often it is asked, and how far it overlaps.
  static let interval: Duration = .seconds(86_400)
  static let overlap: Duration = .seconds(3_600)
  /// Two times in vain.
  static let patience: Duration = interval * 2
  /// How long a gap is told.
  static let gapAge: Duration = .seconds(30 * 86_400)
  /// A long stretch is asked about in parts, the oldest first, as Apple promises no order within an answer.
  static let parts = 30
  /// The most notifications that are listed as passed over.
  static let mostPassedOver = 20

  package let sources: [Source]
  private let ledger: Ledger
  private let known: Mutex<[Source: (progress: Progress, problem: String?)]> = Mutex([:])

  /// - Parameter sources: none, where Apple cannot be asked.
  package init(sources: [Source], ledger: Ledger) {
    self.sources = sources
    self.ledger = ledger
  }

  package var statuses: [Status] {
    known.withLock { known in
      sources.map { Status(source: $0, progress: known[$0]?.progress ?? Progress(), problem: known[$0]?.problem) }
    }
  }

  package func state(at now: Date) -> State {
    guard !sources.isEmpty else { return .none }
    let statuses = statuses
    if statuses.contains(where: { gap(of: $0, at: now) != nil }) { return .gap }
    return statuses.contains { one in
      one.source.environment == .production
        && one.progress.reach.map { $0.advanced(by: Self.patience) < now } ?? false
    } ? .behind : .ok
  }

  /// - Returns: `nil` where there is none, or it has been told for long enough.
  package func gap(of status: Status, at now: Date) -> Gap? {
    status.progress.gap.flatMap { $0.foundAt.advanced(by: Self.gapAge) > now ? $0 : nil }
  }

  func load(_ source: Source) async throws(LedgerError) -> Progress {
    let text = try await ledger.memo(source.memo)
    let progress = text.flatMap { try? JSONDecoder().decode(Progress.self, from: Data($0.utf8)) } ?? Progress()
    known.withLock { $0[source, default: (progress, nil)].progress = progress }
    return progress
  }

  /// - Parameter change: may be called more than once.
  @discardableResult
  func update(
    _ source: Source, _ change: @escaping @Sendable (inout Progress) -> Void
  ) async throws(LedgerError) -> Progress {
    try await ledger.changeMemo(source.memo) { text in
      var progress = text.flatMap { try? JSONDecoder().decode(Progress.self, from: Data($0.utf8)) } ?? Progress()
      change(&progress)
      return (try? JSONEncoder().encode(progress)).map { String(decoding: $0, as: UTF8.self) } ?? text
    }
    return try await load(source)
  }

  func note(_ problem: String?, of source: Source) {
    known.withLock { $0[source, default: (Progress(), nil)].problem = problem }
  }

  /// Asks for everything since a moment, delivered or not, of each app and store.
  package func ask(since moment: Date, at now: Date) async throws(LedgerError) {
    for source in sources {
      try await update(source) { $0.plan(from: moment, to: now, in: source.environment, onlyFailures: false) }
    }
  }
}

extension NotificationHistory.Progress {
  /// Plans what is to be asked by itself: what failed since the last time and, at a start, everything since the newest one
  /// that came: a restored ledger has lost what Apple knows to be delivered.
  ///
  /// - Parameter newest: when the newest notification came; `nil` while the service runs.
  mutating func planDue(after newest: Date?, at now: Date, in environment: StoreEnvironment) {
    if isAhead(of: now) {
      // Windows that a person asked for stay, up to now.
      windows = windows.filter { !$0.onlyFailures && $0.from < now }
        .map { NotificationHistory.Window(from: $0.from, to: min($0.to, now), onlyFailures: false) }
      (through, begunAt) = (nil, nil)
    }
    begunAt = begunAt ?? now
    let asked = windows.map(\.to).max() ?? through
    let base = asked?.advanced(by: .zero - NotificationHistory.overlap)
    if let base {
      let oldest = Self.oldest(at: now, in: environment)
      if base < oldest { lose(from: base, to: oldest, at: now) }
    }
    let seam = newest?.advanced(by: .zero - NotificationHistory.overlap)
    if let seam, seam < now {
      if base.map({ $0 < seam }) ?? true {
        plan(from: base ?? .distantPast, to: seam, in: environment, onlyFailures: true)
      }
      plan(from: seam, to: now, in: environment, onlyFailures: false)
    } else {
      plan(from: base ?? .distantPast, to: now, in: environment, onlyFailures: true)
    }
  }

  /// Whether a wrong clock has planned it: how far it was asked is not known then.
  func isAhead(of now: Date) -> Bool {
    (windows.map(\.to) + [through].compactMap(\.self)).contains { $0 > now.addingTimeInterval(ServiceClock.tolerance) }
  }

  /// Windows that lie within the new ones are dropped: a start after a start would ask for the same again and again.
  ///
  /// - Parameter from: `.distantPast` for as far back as Apple goes.
  mutating func plan(from: Date, to now: Date, in environment: StoreEnvironment, onlyFailures: Bool) {
    if windows.isEmpty { (seen, taken) = (0, 0) }
    var start = max(from, Self.oldest(at: now, in: environment))
    let whole = now.timeIntervalSince(start)
    guard whole > 0 else { return }
    windows.removeAll { start <= $0.from && $0.to <= now && (!onlyFailures || $0.onlyFailures) }
    let isFirst = from == .distantPast
    let part = isFirst ? whole : max(86_400, whole / Double(NotificationHistory.parts))
    while start < now {
      let end = min(now, start.addingTimeInterval(part))
      windows.append(.init(from: start, to: end, onlyFailures: onlyFailures))
      start = end
    }
  }

  /// The oldest moment to ask about. Apple counts the days by its own clock, and a little later.
  private static func oldest(at now: Date, in environment: StoreEnvironment) -> Date {
    now.advanced(by: .seconds(3_600) - (NotificationQuery.kept[environment] ?? .zero))
  }

  /// Notes what Apple does not keep any more, beside what was noted before. There is nothing to ask about it.
  private mutating func lose(from: Date, to: Date, at now: Date) {
    gap = .init(from: min(from, gap?.from ?? from), to: max(to, gap?.to ?? to), foundAt: now)
    through = max(through ?? to, to)
  }

  /// Gives up as much of the first window as Apple does not keep.
  mutating func loseWindow(at now: Date, in environment: StoreEnvironment) {
    guard let window = windows.first else { return }
    windows.removeFirst()
    let end = min(window.to, Self.oldest(at: now, in: environment))
    // By our own reckoning Apple should have it: the whole is given up, as the same question has the same answer.
    guard window.from < end else { return lose(from: window.from, to: window.to, at: now) }
    lose(from: window.from, to: end, at: now)
    if end < window.to {
      windows.insert(.init(from: end, to: window.to, onlyFailures: window.onlyFailures), at: 0)
    }
  }

  mutating func advance(
    _ window: NotificationHistory.Window, next token: String?, seen: Int, taken: Int, passedOver: [String] = []
  ) {
    self.seen += seen
    self.taken += taken
    let former = self.passedOver.filter { !passedOver.contains($0) }
    self.passedOver = (former + passedOver).suffix(NotificationHistory.mostPassedOver)
    // Somebody may have planned anew in the meantime.
    guard windows.first == window else { return }
    guard token == nil else { return windows[0].token = token }
    windows.removeFirst()
    // A window with no seam before it moves the end of the asked span.
    if through.map({ window.from <= $0 }) ?? true { through = max(through ?? .distantPast, window.to) }
  }
}
