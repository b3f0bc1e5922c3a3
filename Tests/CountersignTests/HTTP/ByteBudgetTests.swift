import Testing

@testable import Countersign

@Suite struct ByteBudgetTests {
  @Test func `a loan beyond the budget is refused, and what was lent comes back`() {
    let budget = ByteBudget(limit: 10)
    do {
      let first = budget.loan()
      #expect(first.extend(by: 6))
      let second = budget.loan()
      #expect(!second.extend(by: 5))
      #expect(second.extend(by: 4))
      #expect(budget.inUse == 10)
      withExtendedLifetime((first, second)) {}
    }
    #expect(budget.inUse == 0)
  }
}
