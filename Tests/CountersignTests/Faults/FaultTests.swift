import Foundation
import SeededRandom
import Testing

/// The service against the worst day: killed, out of disk, with Apple or the profile store away.
///
/// `make test` plays a short form; `COUNTERSIGN_FAULTS=full` (`make faults`) plays all of it. Each test prints a line
/// with its figures and its seed; `COUNTERSIGN_FAULTS_SEED` plays the same choices again, though not the same instants.
/// Beside each stands a companion with a planted defect that the same check has to notice: a test that cannot fail
/// proves nothing.
@Suite enum FaultTests {
  @Test(.enabled(if: FaultSize.isFull, "the short form plays what it can"))
  static func `the full form has all the tools it needs`() {
    #expect(FaultTool.strace != nil, "strace is not installed")
    #expect(SmallDisk.isPossible, "a tmpfs cannot be mounted: not root?")
    #expect(JumpingClock.compiler != nil, "there is no C compiler")
    #expect(ReceiverProcess.python != nil, "python3 is not installed")
  }
}

extension Trait where Self == ConditionTrait {
  /// Skipped, and said so, where a tool is absent; the full form must not pass by that and fails instead.
  static func played(with tool: String, if isThere: Bool) -> Self {
    .enabled(if: isThere || FaultSize.isFull, "NOT PLAYED: without \(tool)")
  }

  /// Where chance has a part, such as the instant at which a kill comes.
  static var playedInFull: Self { .enabled(if: FaultSize.isFull, "`make faults` plays it") }
  static var playedWithStrace: Self { .played(with: "strace", if: FaultTool.strace != nil) }
  static var playedOnSmallDisk: Self { .played(with: "a tmpfs, for which it takes root", if: SmallDisk.isPossible) }
}

/// How much is played.
enum FaultSize {
  static let isFull = ProcessInfo.processInfo.environment["COUNTERSIGN_FAULTS"] == "full"

  static func choose<Value>(short: Value, full: Value) -> Value { isFull ? full : short }
}

/// Waits for a condition, looking often. On a busy machine it waits longer; it proves nothing by the time it takes.
///
/// - Returns: whether it came true within the patience.
func eventually(
  within patience: Duration, every pause: Duration = .milliseconds(20), _ condition: () async throws -> Bool
) async throws -> Bool {
  let end = ContinuousClock.now.advanced(by: patience)
  while try await !condition() {
    guard ContinuousClock.now < end else { return false }
    try await Task.sleep(for: pause)
  }
  return true
}

/// Random choices that a printed seed brings back.
struct FaultRandom: RandomNumberGenerator {
  let seed: UInt64
  private var random: SeededRandom

  init(seed: UInt64 = Self.givenSeed ?? UInt64.random(in: 1...999_999_999)) {
    self.seed = seed
    random = SeededRandom(seed: seed)
  }

  private static let givenSeed = ProcessInfo.processInfo.environment["COUNTERSIGN_FAULTS_SEED"].flatMap { UInt64($0) }

  mutating func next() -> UInt64 { random.next() }

  /// A generator of its own for a task, drawn from this one.
  mutating func fork() -> FaultRandom { FaultRandom(seed: next()) }
}

/// The lines that a run of the suite leaves behind.
enum FaultReport {
  static func say(_ subject: String, seed: UInt64? = nil, _ figures: String...) {
    print("faults: \(subject): " + (figures + (seed.map { ["seed \($0)"] } ?? [])).joined(separator: ", "))
  }

  /// Prints the outcome of a planted defect.
  static func planted(_ defect: String, _ found: String, isCaught: Bool) {
    print("planted: \(defect): \(found): \(isCaught ? "caught" : "NOT CAUGHT")")
  }
}

extension Duration {
  /// Seconds with two digits.
  var brief: String { String(format: "%.2f s", self / .seconds(1)) }
}

extension Array where Element: Comparable {
  /// The value that this share of all does not exceed.
  func percentile(_ share: Double) -> Element? {
    isEmpty ? nil : sorted()[Swift.min(count - 1, Int(Double(count) * share))]
  }
}
