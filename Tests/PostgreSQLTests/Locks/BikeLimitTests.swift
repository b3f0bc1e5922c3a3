import Testing

/// Free: one bike. Tries to have two.
@Suite struct BikeLimitTests {
  private static let add = "insert into vehicles.user_bike (name) values ('b')"
  private static let addThree = "insert into vehicles.user_bike (name) values ('b1'), ('b2'), ('b3')"
  private static let permissive = """
    create policy "everything for everybody" on vehicles.user_bike using (true) with check (true);
    """
  private static let dropTrigger = "drop trigger zzz_countersign_guard_bike on vehicles.user_bike;"
  private static let dropPolicy = """
    drop policy "countersign: one bike is free" on vehicles.user_bike;
    """

  private func bikes(_ owner: Connection, of user: String = UserIDs.a) async throws -> String? {
    try await owner.value("select count(*) from vehicles.user_bike where user_id = $1", [user])
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `a free user has one bike and everybody else's are counted apart`(grants: TestDatabase.Grants) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    #expect(try await api.attempt(Self.add, as: .a) == .upgradeRequired)
    #expect(try await api.attempt(Self.add, as: .b) == .passed)
    // Without a profile, as with a free one.
    #expect(try await api.attempt(Self.add, as: .c) == .passed)
    #expect(try await api.attempt(Self.add, as: .c) == .upgradeRequired)
    #expect(try await api.attempt(Self.add, as: .anon) == .denied)
    #expect(try await bikes(owner) == "1")
    // The limit is on bikes that are there.
    #expect(try await api.attempt("delete from vehicles.user_bike", as: .a) == .passed)
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    #expect(try await api.attempt("update vehicles.user_bike set name = 'renamed'", as: .a) == .passed)
  }

  @Test(arguments: ["pro", "premium"])
  func `a tier above free may have any number of bikes`(tier: String) async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await api.setTier(tier, of: UserIDs.a)
    #expect(try await api.attempt(Self.addThree, as: .a) == .passed)
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    #expect(try await bikes(owner) == "4")
    // After a downgrade they stay, and no other comes.
    try await api.setTier("free", of: UserIDs.a, status: "expired", expires: "-1 day")
    #expect(try await api.attempt(Self.add, as: .a) == .upgradeRequired)
    #expect(try await bikes(owner) == "4")
  }

  @Test(
    arguments: [
      ("pro", "active", "-8 days", Outcome.upgradeRequired), ("pro", "active", "-6 days", .passed),
      ("pro", "active", nil, .passed), ("pro", "cancelled", "1 day", .passed),
      ("pro", "grace_period", "1 day", .passed), ("pro", "expired", "1 day", .upgradeRequired),
      ("free", "active", "1 day", .upgradeRequired),
      ("premium", "cancelled", "-8 days", .upgradeRequired),
    ] as [(String, String, String?, Outcome)])
  func `a tier counts until a week past its end`(
    tier: String, status: String, expires: String?, second: Outcome
  ) async throws {
    let api = try await TestDatabase(.wide).api()
    try await api.setTier(tier, of: UserIDs.a, status: status, expires: expires)
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    #expect(try await api.attempt(Self.add, as: .a) == second)
  }

  @Test func `a bulk insert of three bikes adds none`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    #expect(try await api.attempt(Self.addThree, as: .a) == .upgradeRequired)
    #expect(try await bikes(owner) == "0")

    // Each lock without the other.
    try await owner.run("begin; \(Self.dropTrigger) commit")
    #expect(try await api.attempt(Self.addThree, as: .a) == .upgradeRequired)
    // Planted: STABLE functions do not see the rows of their own statement.
    try await owner.run(
      """
      alter function countersign.may_add_bike() stable;
      alter function countersign.limit_bikes(uuid, integer) stable;
      """)
    #expect(try await api.attempt(Self.addThree, as: .a) == .passed)
    #expect(try await bikes(owner) == "3")
  }

  @Test func `the trigger holds where a function or a second policy lets bikes pass`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run(
      """
      create function public.add_bikes(how_many integer) returns void language sql security definer as $$
        insert into vehicles.user_bike (user_id, name) select auth.uid(), 'b' from generate_series(1, how_many)
      $$;
      grant execute on function public.add_bikes to authenticated;
      create view public.bikes as select * from vehicles.user_bike;
      \(Self.permissive)
      """)
    #expect(try await api.attempt("select public.add_bikes(2)", as: .a) == .upgradeRequired)
    #expect(try await api.attempt("select public.add_bikes(1)", as: .a) == .passed)
    #expect(try await api.attempt("select public.add_bikes(1)", as: .a) == .upgradeRequired)
    #expect(
      try await api.attempt("insert into public.bikes (user_id, name) values ('\(UserIDs.a)', 'b')", as: .a)
        == .upgradeRequired)
    #expect(try await api.attempt(Self.add, as: .a) == .upgradeRequired)
    // A bike of one's own for somebody else, and somebody else's for oneself.
    #expect(
      try await api.attempt("insert into vehicles.user_bike (user_id, name) values ('\(UserIDs.b)', 'b')", as: .a)
        == .denied)
    #expect(try await api.attempt(Self.add, as: .b) == .passed)
    #expect(
      try await api.attempt("update vehicles.user_bike set user_id = '\(UserIDs.a)'", as: .a) == .upgradeRequired)

    try await owner.run(Self.dropTrigger)
    #expect(try await api.attempt("select public.add_bikes(2)", as: .a) == .passed, "planted: the trigger held it")
    #expect(try await bikes(owner) == "3")
  }

  @Test func `the policy holds against a second, permissive one`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run(Self.dropTrigger + Self.permissive)
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    #expect(try await api.attempt(Self.add, as: .a) == .upgradeRequired)
    // Planted: the same policy, permissive, is one of two that may say yes.
    try await owner.run(
      """
      \(Self.dropPolicy)
      create policy "countersign: one bike is free" on vehicles.user_bike for insert
        with check (countersign.may_add_bike());
      """)
    #expect(try await api.attempt(Self.add, as: .b) == .passed)
    try await owner.run(Self.dropPolicy)
    #expect(try await api.attempt(Self.add, as: .b) == .passed)
  }

  @Test func `an upsert of the one bike is refused, a change is not`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    let id = try #require(try await owner.value("select id from vehicles.user_bike"))
    let upsert = """
      insert into vehicles.user_bike (id, name) values ('\(id)', 'x') on conflict (id) do update set name = excluded.name
      """
    #expect(try await api.attempt(upsert, as: .a) == .upgradeRequired)
    #expect(try await api.attempt("update vehicles.user_bike set name = 'x' where id = '\(id)'", as: .a) == .passed)
  }

  // MARK: - Races

  enum Defence: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case both, policyAlone, triggerAlone

    var testDescription: String { rawValue }
  }

  @Test(arguments: Defence.allCases)
  func `one of two connections at once adds a bike`(defence: Defence) async throws {
    let database = try await TestDatabase(.wide)
    let owner = try await database.owner()
    switch defence {
    case .both: break
    case .policyAlone: try await owner.run(Self.dropTrigger)
    case .triggerAlone: try await owner.run(Self.dropPolicy)
    }
    let race = try await Race.run(Self.add, as: .a, in: database)
    #expect(race == Race(secondWaited: true, second: .upgradeRequired))
    #expect(try await bikes(owner) == "1")
  }

  @Test func `without the advisory lock both connections add a bike`() async throws {
    // Planted.
    let database = try await TestDatabase(.wide)
    let owner = try await database.owner()
    try await owner.run(Race.withoutLock)
    let race = try await Race.run(Self.add, as: .a, in: database)
    #expect(race == Race(secondWaited: false, second: .passed))
    #expect(try await bikes(owner) == "2")
  }

  @Test func `users do not wait for each other`() async throws {
    let database = try await TestDatabase(.wide)
    let race = try await Race.run(Self.add, as: .a, second: .b, in: database)
    #expect(race == Race(secondWaited: false, second: .passed))
  }

  @Test func `a transaction that could not count is refused`() async throws {
    let database = try await TestDatabase(.wide)
    let (owner, api) = (try await database.owner(), try await database.api())
    try await owner.run(
      "alter role authenticator in database \(database.name) set default_transaction_isolation = 'repeatable read'")
    let strict = try await database.api()
    #expect(try await strict.attempt(Self.add, as: .a) == .refused(sqlState: "0A000", hint: nil))
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
  }
}
