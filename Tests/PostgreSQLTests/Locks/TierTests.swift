import Testing

/// `countersign.has_tier`: whether whoever asks has a tier, or one above it.
@Suite struct TierTests {
  static let tiers = ["free", "pro", "premium"]

  /// Which of the tiers the caller has, by the function.
  private func held(by caller: Caller, _ api: Connection) async throws -> [String] {
    let columns = Self.tiers.map { "countersign.has_tier('\($0)')" }.joined(separator: ", ")
    let row = try #require(try await api.query("select \(columns)", as: caller).first)
    return zip(Self.tiers, row).filter { $0.1 == "t" }.map { $0.0 }
  }

  /// A row, and what counts of it.
  struct Row: Sendable, CustomTestStringConvertible {
    var tier: String
    var status: String
    /// From now; nil is for life.
    var expires: String?
    var held: [String]

    var testDescription: String { "\(tier) \(status) \(expires ?? "for life") is \(held.last ?? "nothing")" }
  }

  static let rows =
    ["active", "cancelled", "grace_period"].flatMap { status in
      [
        Row(tier: "free", status: status, expires: "1 day", held: ["free"]),
        Row(tier: "pro", status: status, expires: "1 day", held: ["free", "pro"]),
        Row(tier: "premium", status: status, expires: "1 day", held: ["free", "pro", "premium"]),
        Row(tier: "pro", status: status, expires: nil, held: ["free", "pro"]),
        // Past its end, while nobody could be asked.
        Row(tier: "pro", status: status, expires: "-7 days 1 minute", held: ["free", "pro"]),
        Row(tier: "pro", status: status, expires: "-7 days -1 minute", held: ["free"]),
      ]
    } + [
      Row(tier: "pro", status: "expired", expires: "1 day", held: ["free"]),
      Row(tier: "premium", status: "expired", expires: nil, held: ["free"]),
    ]

  @Test(arguments: TestDatabase.Grants.allCases)
  func `a tier is had by its status and its end, with every tier below it`(grants: TestDatabase.Grants) async throws {
    let api = try await TestDatabase(grants).api()
    for row in Self.rows {
      try await api.setTier(row.tier, of: UserIDs.a, status: row.status, expires: row.expires)
      #expect(try await held(by: .a, api) == row.held, "\(row.testDescription)")
      #expect(try await held(by: .b, api) == ["free"])
    }
  }

  @Test func `a user without a profile has the default tier, and nobody in particular has none`() async throws {
    let api = try await TestDatabase(.wide).api()
    #expect(try await held(by: .c, api) == ["free"])
    #expect(try await held(by: .anon, api) == [])
    #expect(try await held(by: .service, api) == [])
  }

  @Test func `a word that is no tier is an error, in a policy and in a profile`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    let unknown = Outcome.refused(sqlState: "22023", hint: nil)
    for word in ["'por'", "''", "null", "'Pro'"] {
      for caller in [Caller.anon, .a] {
        #expect(try await api.attempt("select countersign.has_tier(\(word))", as: caller) == unknown, "\(word)")
      }
    }
    // Added to the catalog and the check, and not to the list.
    try await owner.run(
      """
      alter table public.profiles drop constraint profiles_subscription_tier_check;
      update public.profiles set subscription_tier = 'family' where id = '\(UserIDs.a)';
      """)
    #expect(try await api.attempt("select countersign.has_tier('pro')", as: .a) == unknown)
    #expect(try await held(by: .b, api) == ["free"])
    // The file, run again, says it first.
    let error = await #expect(throws: PostgreSQLError.self) { try await owner.run(SQLFile.sample(SQLFile.tiers)) }
    #expect(error?.message == "public.profiles has a tier \"family\", and countersign.tiers() has not")
  }

  @Test func `tiers of another catalog stay when the file is run again`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run(
      """
      alter table public.profiles drop constraint profiles_subscription_tier_check;
      create or replace function countersign.tiers() returns text[] language sql immutable
        return array['free', 'plus', 'pro', 'premium'];
      """)
    try await owner.run(SQLFile.sample(SQLFile.tiers))
    try await api.setTier("plus", of: UserIDs.a)
    #expect(try await api.query("select countersign.has_tier('plus')", as: .a) == [["t"]])
    #expect(try await held(by: .a, api) == ["free"])
    try await api.setTier("pro", of: UserIDs.a)
    #expect(try await held(by: .a, api) == ["free", "pro"])

    try await owner.run(
      """
      create or replace function countersign.tiers() returns text[] language sql immutable
        return array['plus', 'pro'];
      """)
    let error = await #expect(throws: PostgreSQLError.self) { try await owner.run(SQLFile.sample(SQLFile.tiers)) }
    #expect(error?.message == "countersign.tiers() has to begin with countersign.default_tier(), which is \"free\"")
  }

  @Test func `without the first files each file says which to run`() async throws {
    let owner = try await TestDatabase(.wide, .app).owner()
    for (file, sentence) in [
      (SQLFile.tiers, "run 01_profiles.sql first"), (SQLFile.children, "run 04_has_tier.sql first"),
    ] {
      let error = await #expect(throws: PostgreSQLError.self) { try await owner.run(SQLFile.sample(file)) }
      #expect(error?.message == sentence)
      try await owner.run("rollback")
    }
  }

  @Test func `the second file, run after the others, leaves users what their policies call`() async throws {
    let database = try await TestDatabase(.none)
    let (project, api) = (try await database.project(), try await database.api())
    for file in [SQLFile.profiles, SQLFile.gates] { try await project.run(SQLFile.sample(file)) }
    #expect(try await held(by: .a, api) == ["free"])
  }

  // MARK: - In policies

  private static let chart = "insert into public.growth_charts (child_id) select id from public.children"

  @Test(arguments: TestDatabase.Grants.allCases)
  func `charts are read and written by who has pro, and nobody's but their own`(
    grants: TestDatabase.Grants
  ) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    try await owner.run(
      """
      create policy "everything for everybody" on public.growth_charts using (true) with check (true);
      insert into public.children (user_id, name) values ('\(UserIDs.a)', 'a'), ('\(UserIDs.b)', 'b');
      """)
    #expect(try await api.attempt(Self.chart, as: .a) == .denied)
    for (tier, seen) in [("pro", "1"), ("premium", "1"), ("free", "0")] {
      try await api.setTier(tier, of: UserIDs.a)
      if tier == "pro" {
        #expect(try await api.attempt(Self.chart, as: .a) == .passed)
        #expect(try await api.attempt(Self.chart, as: .anon) == .denied)
      }
      #expect(try await api.query("select count(*) from public.growth_charts", as: .a) == [[seen]])
      #expect(try await api.execute("update public.growth_charts set points = '[1]'", as: .a) == Int(seen))
    }
    #expect(try await api.query("select count(*) from public.growth_charts", as: .service) == [["1"]])
  }

  @Test func `a policy on the profiles themselves may ask for a tier`() async throws {
    // A policy that reads its own table asks itself for ever (42P17).
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run(
      """
      create policy "pro sees everybody" on public.profiles for select using ((select countersign.has_tier('pro')));
      """)
    #expect(try await api.query("select count(*) from public.profiles", as: .a) == [["1"]])
    try await api.setTier("pro", of: UserIDs.a)
    #expect(try await api.query("select count(*) from public.profiles", as: .a) == [["3"]])
  }

  @Test func `users who raise their own tier are refused, and get nothing`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run("insert into public.children (user_id, name) values ('\(UserIDs.a)', 'a')")
    #expect(
      try await api.attempt(
        "update public.profiles set subscription_tier = 'pro' where id = '\(UserIDs.a)'", as: .a) == .denied)
    // Nor by functions and tables of the user's own in the place of those that are asked.
    for sql in [
      "create or replace function countersign.tiers() returns text[] language sql return array['pro']",
      "create function countersign.tier_of(text) returns text language sql return 'pro'",
    ] {
      #expect(try await api.attempt(sql, as: .a) == .denied, "\(sql)")
    }
    let table = "create temporary table profiles as select '\(UserIDs.a)'::uuid as id, 'pro' as subscription_tier"
    #expect(try await api.attempt(table, as: .a) == .passed)
    #expect(try await held(by: .a, api) == ["free"])
    #expect(try await api.attempt(Self.chart, as: .a) == .denied)
  }

  @Test func `a user calls only what speaks of the caller`() async throws {
    let api = try await TestDatabase(.wide).api()
    for call in [
      "tier_of('\(UserIDs.b)')", "most_rows('{}', 'free')", "rank('free')", "tiers()", "outage_hold()",
      "wait_for_turn('rows', '\(UserIDs.b)')", "limit_rows()",
    ] {
      for caller in [Caller.anon, .a] {
        #expect(try await api.attempt("select countersign.\(call)", as: caller) == .denied, "\(call)")
      }
    }
  }
}
