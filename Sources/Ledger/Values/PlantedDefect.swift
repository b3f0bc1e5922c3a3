#if PLANTED_DEFECTS
  import Glibc

  /// Mistakes that the fault suite plants, to prove that it would notice them.
  ///
  /// Compiled into debug builds only; one is active when the environment names it.
  package enum PlantedDefect: String, Sendable {
    /// Callers are told before the commit.
    case acknowledgeBeforeCommit = "acknowledge_before_commit"
    /// A failing disk is taken for trouble that passes.
    case carryOnAfterDiskFailure = "carry_on_after_disk_failure"
    /// An update of a profile that the store did not take counts as taken.
    case forgetFailedUpdate = "forget_failed_update"
    /// Apple's trouble is taken for Apple's word that there is no subscription.
    case troubleEndsAccess = "trouble_ends_access"
    /// Apple's word that a receipt is not authentic is taken for trouble of Apple's.
    case refusalIsTrouble = "refusal_is_trouble"
    /// Apple is called however often it fails.
    case noBreaker = "no_breaker"
    /// The machine's clock is followed wherever it jumps.
    case judgeByWallClock = "judge_by_wall_clock"

    private static let active = getenv("COUNTERSIGN_PLANTED_DEFECT").flatMap {
      PlantedDefect(rawValue: String(cString: $0))
    }

    package var isActive: Bool { Self.active == self }
  }
#endif
