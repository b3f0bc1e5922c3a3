/// When a pending receipt is tried again: 10 s after the first failure, doubling, at most six hours.
enum RetrySchedule {
  static func delay(after attempts: Int) -> Duration {
    min(.seconds(10) * (1 << max(0, min(attempts, 16))), .seconds(6 * 3600))
  }
}
