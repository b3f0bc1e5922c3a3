import Glibc

/// Random numbers that a seed brings back, on every machine: a failure that names its seed can be played again.
///
/// SplitMix64, https://prng.di.unimi.it/splitmix64.c
public struct SeededRandom: RandomNumberGenerator, Sendable {
  private var state: UInt64

  public init(seed: UInt64) { state = seed }

  public mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }

  /// A number from zero to `limit`, which is not among them.
  public mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }

  /// Whether tests try all of their cases: with `COUNTERSIGN_CASES=full`, as in `make cases`.
  public static let triesAll = getenv("COUNTERSIGN_CASES").map { String(cString: $0) } == "full"

  /// The number of random cases that a test tries: all of them, or a tenth.
  public static func cases(_ full: Int) -> Int { triesAll ? full : max(1, full / 10) }
}
