import Access
import Entitlements
import Testing

/// The counts of users: conversion, the funnel, and limits.
@Suite struct UserProgressTests {
  @Test(
    arguments: [
      (UserProgress(seen: 5), [.users: 5]),
      (UserProgress(seen: 5, paid: 5), [.users: 5, .conversions: 5]),
      (UserProgress(seen: 5, paid: 90), [.users: 5, .conversions: 5]),
      (UserProgress(seen: 5, paid: 4), [:]),
      (UserProgress(seen: 5, viewed: 7), [.users: 5, .viewers: 7]),
      (UserProgress(seen: 5, viewed: 7, paid: 7), [.users: 5, .conversions: 5, .viewers: 7, .purchasers: 7]),
      (UserProgress(seen: 5, viewed: 7, paid: 6), [.users: 5, .conversions: 5]),
      (UserProgress(seen: 5, viewed: 3, paid: 4), [.viewers: 3, .purchasers: 3]),
    ] as [(UserProgress, [UserProgress.Step: Int])])
  func `a user who had paid before counts in no step`(progress: UserProgress, steps: [UserProgress.Step: Int]) {
    #expect(progress.steps == steps)
  }

  @Test func `the earlier days of two reports about a user count`() {
    let one = UserProgress(seen: 5, viewed: 9)
    #expect(one.merged(with: UserProgress(seen: 4, paid: 8)) == UserProgress(seen: 4, viewed: 9, paid: 8))
    #expect(one.merged(with: UserProgress(seen: 6, viewed: 7)) == UserProgress(seen: 5, viewed: 7))
  }

  @Test(arguments: [
    (2, 0, false), (2, 1, true), (2, 5, true), (10, 7, false), (10, 8, true), (9, 7, false), (9, 8, true),
    (1, 0, false), (1, 1, true), (0, 3, false), (nil, 99, false),
  ])
  func `near a limit is all but one of a small one, all but two of a larger`(limit: Int?, count: Int, isNear: Bool) {
    let feature = Feature(name: "children", kind: .limit, values: ["free": .limit(limit)], tiers: ["free"])
    #expect(feature.isNear(count, limitOf: "free") == isNear)
  }

  @Test func `only a limit has users near it`() {
    let meter = Feature(name: "m", kind: .meter, values: ["free": .meter([])], tiers: ["free"])
    let flag = Feature(name: "f", kind: .flag, values: ["free": .flag(true)], tiers: ["free"])
    #expect(!meter.isNear(5, limitOf: "free") && !flag.isNear(5, limitOf: "free"))
  }
}
