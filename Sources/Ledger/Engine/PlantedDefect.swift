#if PLANTED_DEFECTS
  import Glibc

  /// Defects that the fault suite plants, to prove that it would detect them.
  ///
  /// Compiled into debug builds only; an environment variable activates one.
  package enum PlantedDefect: String, Sendable {
    /// Callers resume before the commit.
    case acknowledgeBeforeCommit = "acknowledge_before_commit"
    /// The disk takes each commit, says that it has it, and keeps none of it.
    case swallowCommits = "swallow_commits"
    /// A failing disk is treated as a temporary problem.
    case carryOnAfterDiskFailure = "carry_on_after_disk_failure"
    /// A profile update that the store refused counts as written.
    case forgetFailedUpdate = "forget_failed_update"
    /// A failure at Apple is treated as an answer without a subscription.
    case troubleEndsAccess = "trouble_ends_access"
    /// Apple's answer that a receipt is not authentic is treated as a failure at Apple.
    case refusalIsTrouble = "refusal_is_trouble"
    /// Apple is called regardless of its failures.
    case noBreaker = "no_breaker"
    /// The machine's clock is followed through any jump.
    case judgeByWallClock = "judge_by_wall_clock"

    private static let active = getenv("COUNTERSIGN_PLANTED_DEFECT").flatMap {
      PlantedDefect(rawValue: String(cString: $0))
    }

    package var isActive: Bool { Self.active == self }
  }
#endif
