import Entitlements
import Testing

@testable import Countersign
@testable import CountersignServer

@Suite struct ByteBudgetTests {
  /// Why so many bytes more are not lent; `nil` where they are.
  private func shortage(_ loan: ByteBudget.Loan, _ bytes: Int) -> ByteBudget.Shortage? {
    do throws(ByteBudget.Shortage) { try loan.extend(by: bytes) } catch { return error }
    return nil
  }

  @Test func `a loan beyond the budget is refused, and what was lent comes back`() {
    let budget = ByteBudget(limit: 10)
    do {
      let first = budget.loan()
      #expect(shortage(first, 6) == nil)
      let second = budget.loan()
      #expect(shortage(second, 5) == .budget)
      #expect(shortage(second, 4) == nil)
      #expect(budget.inUse == 10)
      withExtendedLifetime((first, second)) {}
    }
    #expect(budget.inUse == 0)
  }

  @Test func `a borrower gets no more than a share, over all loans, and others still get theirs`() {
    let budget = ByteBudget(limit: 10, share: 4)
    let first = budget.loan(to: "a")
    #expect(shortage(first, 3) == nil)
    do {
      let second = budget.loan(to: "a")
      #expect(shortage(second, 2) == .share)
      #expect(shortage(second, 1) == nil)
      #expect(shortage(budget.loan(to: "a"), 1) == .share)
      #expect(shortage(budget.loan(to: "b"), 4) == nil)
      withExtendedLifetime(second) {}
    }
    #expect(budget.inUse == 3)
    #expect(shortage(first, 1) == nil, "what came back can be had again")
    #expect(shortage(budget.loan(), 6) == nil, "who is not known has no share")
    withExtendedLifetime(first) {}
  }

  @Test func `a borrower has at most half of what others leave, and always what most bodies need`() {
    let floor = ByteBudget.floor
    let budget = ByteBudget(limit: 16 * floor, share: 12 * floor, isHalved: true)
    let (first, second, third) = (budget.loan(to: "a"), budget.loan(to: "b"), budget.loan(to: "c"))
    #expect(shortage(first, 8 * floor + 1) == .budget)
    #expect(shortage(first, 8 * floor) == nil)
    #expect(shortage(first, 1) == .budget)
    #expect(shortage(second, 4 * floor) == nil)
    #expect(shortage(second, 1) == .budget)
    #expect(shortage(third, 3 * floor) == .budget)
    #expect(shortage(third, 2 * floor) == nil)
    let fourth = budget.loan(to: "d")
    #expect(shortage(fourth, floor) == nil)
    withExtendedLifetime((first, second, third, fourth)) {}
  }

  @Test func `a loan of a part is one of the whole, and neither lends where the other is short`() {
    let whole = ByteBudget(limit: 10)
    let one = ByteBudget(limit: 8, within: whole)
    let other = ByteBudget(limit: 8, within: whole)
    do {
      let loan = one.loan()
      #expect(shortage(loan, 8) == nil)
      #expect(shortage(loan, 1) == .budget, "two are left for the other alone")
      let second = other.loan(to: "a")
      #expect(shortage(second, 3) == .budget)
      #expect(other.inUse == 0 && whole.inUse == 8)
      #expect(shortage(second, 2) == nil)
      withExtendedLifetime((loan, second)) {}
    }
    #expect(one.inUse == 0 && other.inUse == 0 && whole.inUse == 0)
  }

  @Test func `users never have what servers need, nor one user what another does`() throws {
    let server = try SampleConfiguration().setting("server.max_body", "1MiB")
      .setting("server.max_bytes_in_flight", "16MiB").load().server
    let budgets = BodyBudgets(server)
    let body = 1 << 20
    var loans: [ByteBudget.Loan] = []
    /// Bodies that a caller gets in.
    func bodies(_ caller: Caller, of count: Int) -> Int {
      (0..<count).count { _ in
        let loan = budgets.validation(by: caller, at: nil)
        guard shortage(loan, body) == nil else { return false }
        loans.append(loan)
        return true
      }
    }
    #expect(bodies(.user("mallory"), of: 16) == 2)
    #expect(bodies(.user("anna"), of: 1) == 1)
    for number in 0..<100 { _ = bodies(.user(.init("m\(number)")), of: 2) }
    #expect(loans.count == 12, "three quarters")
    let backend = Caller.server(ServerCaller(name: "backend", roles: [.service]))
    #expect(bodies(backend, of: 16) == 4)
    // Whoever has no secret takes nothing from them.
    let strangers = (1...8).map { budgets.validation(by: nil, at: ClientAddress("203.0.113.\($0 / 3)")) }
    #expect(strangers.map { shortage($0, body) == nil } == [true, true, true, false, false, false, false, false])
    loans = []
    #expect(bodies(backend, of: 16) == 12)
    #expect(bodies(.user("anna"), of: 2) == 2)
    let notification = BodyBudgets.notificationLimit
    let address = ClientAddress("203.0.113.7")
    let held = (0..<10).map { _ in budgets.notification(from: address) }
    #expect(held.count { shortage($0, notification) == nil } == 2)
    #expect(shortage(budgets.notification(from: ClientAddress("203.0.113.8")), notification) == nil)
    withExtendedLifetime((held, strangers)) {}
  }
}
