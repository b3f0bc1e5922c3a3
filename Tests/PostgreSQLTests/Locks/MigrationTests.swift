import Testing

@Suite struct MigrationTests {
  @Test(arguments: TestDatabase.Grants.allCases)
  func `the migrations may be run three times and leave the same database`(grants: TestDatabase.Grants) async throws {
    let owner = try await TestDatabase(grants).owner()
    let once = try await owner.query(DatabaseSnapshot.everything)
    for file in try SQLFile.samples + SQLFile.samples { try await owner.run(file) }
    #expect(try await owner.query(DatabaseSnapshot.everything) == once)
    #expect(once.count > 60)
  }

  @Test func `columns of an older attempt, with nulls and without defaults, are taken over`() async throws {
    let (owner, api) = try await TestDatabase(.wide, .app).connections()
    try await owner.run(
      """
      alter table public.profiles add column subscription_tier text, add column subscription_status text,
        add column subscription_version bigint;
      """)
    for file in try SQLFile.samples { try await owner.run(file) }
    #expect(
      try await owner.query(
        "select distinct subscription_tier, subscription_status, subscription_version from public.profiles")
        == [["free", "active", "0"]])
    #expect(try await api.attempt("update public.profiles set subscription_tier = 'pro'", as: .a) == .denied)
  }

  @Test func `columns of an older attempt that are enums are taken over`() async throws {
    let (owner, api) = try await TestDatabase(.wide, .app).connections()
    try await owner.run(
      """
      create type public.tier as enum ('free', 'pro', 'premium');
      create type public.status as enum ('active', 'expired', 'cancelled', 'grace_period');
      alter table public.profiles add column subscription_tier public.tier default 'free',
        add column subscription_status public.status default 'active';
      """)
    for file in try SQLFile.samples + SQLFile.samples { try await owner.run(file) }
    #expect(try await api.attempt("insert into public.profiles (id) values ('\(UserIDs.c)')", as: .c) == .passed)
    let asks = "select countersign.has_tier('pro'), countersign.has_paid_tier()"
    #expect(try await api.query(asks, as: .a) == [["f", "f"]])
    try await owner.run("update public.profiles set subscription_tier = 'premium' where id = '\(UserIDs.a)'")
    #expect(try await api.query(asks, as: .a) == [["t", "t"]])
    #expect(try await api.attempt("update public.profiles set subscription_tier = 'pro'", as: .c) == .denied)
  }

  @Test(arguments: ["smallint", "integer"])
  func `a version of an older attempt that is too small for milliseconds becomes a bigint`(type: String) async throws {
    let (owner, api) = try await TestDatabase(.wide, .app).connections()
    try await owner.run("alter table public.profiles add column subscription_version \(type) not null default 7")
    for file in try SQLFile.samples + SQLFile.samples { try await owner.run(file) }
    #expect(try await owner.query("select distinct subscription_version from public.profiles") == [["7"]])
    let write = "update public.profiles set subscription_version = 1796083200123 where id = '\(UserIDs.a)'"
    #expect(try await api.attempt(write, as: .service) == .passed)
    #expect(try await owner.query(SQLFile.sample("03_check")).isEmpty)
  }

  @Test func `a version that is no number stops the migration with a sentence, and the check names it`() async throws {
    let database = try await TestDatabase(.wide, .app)
    let owner = try await database.owner()
    try await owner.run("alter table public.profiles add column subscription_version text")
    let error = await #expect(throws: PostgreSQLError.self) { try await owner.run(SQLFile.sample(SQLFile.profiles)) }
    #expect(error?.message == "public.profiles.subscription_version is of type text, and has to be bigint")
    #expect(error?.hint?.contains("alter column subscription_version type bigint") == true)
    try await owner.run("rollback")
    let findings = try await owner.query(SQLFile.sample("03_check")).compactMap { $0[0] }
    #expect(findings.contains { $0.contains("subscription_version of public.profiles is of type text") })
  }

  @Test func `a database without profiles, or without the first file, is told what to do`() async throws {
    let owner = try await TestDatabase(.wide, .app).owner()
    let second = await #expect(throws: PostgreSQLError.self) { try await owner.run(SQLFile.sample(SQLFile.gates)) }
    #expect(second?.message == "run 01_profiles.sql first")
    try await owner.run("rollback; drop table public.profiles")
    let first = await #expect(throws: PostgreSQLError.self) { try await owner.run(SQLFile.sample(SQLFile.profiles)) }
    #expect(first?.message == "there is no table public.profiles with a column id")
    #expect(first?.hint?.contains("create table public.profiles (id uuid primary key") == true)
  }

  @Test func `a table without row level security gets it, and its users keep their own rows`() async throws {
    let (owner, api) = try await TestDatabase(.wide, .app).connections()
    try await owner.run(
      """
      alter table public.profiles disable row level security;
      drop policy "Users can see their own profile." on public.profiles;
      drop policy "Users can insert their own profile." on public.profiles;
      drop policy "Users can update own profile." on public.profiles;
      """)
    #expect(try await api.attempt("update public.profiles set display_name = 'x'", as: .a) == .passed)
    for file in try SQLFile.samples { try await owner.run(file) }
    #expect(try await api.query("select id from public.profiles", as: .a) == [[UserIDs.a]])
    #expect(try await api.execute("update public.profiles set display_name = 'mine'", as: .a) == 1)
    #expect(try await api.attempt("insert into public.profiles (id) values ('\(UserIDs.c)')", as: .c) == .passed)
    #expect(try await api.attempt("insert into public.profiles (id) values ('\(UserIDs.c)')", as: .b) == .denied)
  }

  @Test func `a table whose policies let users write nothing stays that way`() async throws {
    let (owner, api) = try await TestDatabase(.none, .app).connections()
    try await owner.run(
      """
      drop policy "Users can insert their own profile." on public.profiles;
      drop policy "Users can update own profile." on public.profiles;
      revoke insert, update on public.profiles from authenticated;
      grant update (display_name) on public.profiles to authenticated;
      """)
    for file in try SQLFile.samples { try await owner.run(file) }
    #expect(try await api.attempt("insert into public.profiles (id) values ('\(UserIDs.c)')", as: .c) == .denied)
    #expect(try await api.attempt("update public.profiles set avatar_url = 'x'", as: .a) == .denied)
    // Granted, but no policy lets a row be updated.
    #expect(try await api.execute("update public.profiles set display_name = 'x'", as: .a) == 0)
  }

  @Test func `a column that is added later is written by users once it is granted`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run("alter table public.profiles add column city text")
    #expect(try await api.attempt("update public.profiles set city = 'x'", as: .a) == .denied)
    try await owner.run("grant insert (city), update (city) on public.profiles to authenticated")
    try await owner.run(SQLFile.sample(SQLFile.profiles))
    #expect(try await api.attempt("update public.profiles set city = 'x'", as: .a) == .passed)
  }

  @Test func `tiers of another catalog stay when the file is run again`() async throws {
    let owner = try await TestDatabase(.wide).owner()
    try await owner.run(
      """
      alter table public.profiles drop constraint profiles_subscription_tier_check,
        add constraint profiles_subscription_tier_check check (subscription_tier in ('free', 'silver', 'gold'));
      update public.profiles set subscription_tier = 'gold';
      """)
    try await owner.run(SQLFile.sample(SQLFile.profiles))
    #expect(try await owner.query("select distinct subscription_tier from public.profiles") == [["gold"]])
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `the check finds nothing after the migrations and names each lock that is undone`(
    grants: TestDatabase.Grants
  ) async throws {
    let owner = try await TestDatabase(grants).owner()
    let check = try SQLFile.sample("03_check")
    #expect(try await owner.query(check).isEmpty)
    try await owner.run(
      """
      grant update on public.profiles to authenticated;
      create policy "Public profiles are viewable by everyone." on public.profiles for select using (true);
      create view public.everybody as select * from public.profiles;
      create materialized view public.frozen as select * from recording.trips;
      alter table recording.trips disable row level security;
      alter table vehicles.user_bike disable trigger all;
      """)
    let findings = try await owner.query(check).compactMap { $0[0] }
    #expect(findings.count == 10)
    for part in [
      "everybody", "frozen", "off on recording.trips", "subscription_tier", "Public profiles", "guard_bike is missing",
    ] {
      #expect(findings.contains { $0.contains(part) }, "\(part)")
    }
  }

  @Test(
    arguments: [
      ("for select using (true)", true), ("for select to anon using (true)", true),
      ("using (auth.role() = 'authenticated') with check (auth.uid() = id)", true),
      ("for select to authenticated using ((select auth.role()) = 'authenticated')", true),
      ("for select using (auth.uid() is not null)", true),
      ("for select to service_role using (true)", false), ("for insert with check (auth.uid() is not null)", false),
      ("as restrictive for select using (auth.role() = 'authenticated')", false),
      ("for select using ((select auth.uid()) = id)", false), ("for select using (\"is public\")", false),
      ("for select using (exists (select from public.staff where staff.id = auth.uid()))", false),
      ("for select using (public.is_staff())", false),
    ])
  func `a policy that shows every row to every user is named`(policy: String, isNamed: Bool) async throws {
    let owner = try await TestDatabase(.wide).owner()
    try await owner.run(
      """
      create function auth.role() returns text language sql stable
        as $$ select nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role' $$;
      create table public.staff (id uuid primary key);
      create function public.is_staff() returns boolean language sql stable
        as $$ select exists (select from public.staff where staff.id = auth.uid()) $$;
      alter table public.profiles add column role text, add column "is public" boolean;
      create policy "somebody's own" on public.profiles \(policy);
      """)
    let findings = try await owner.query(SQLFile.sample("03_check")).compactMap { $0[0] }
    #expect(findings.contains { $0.contains("somebody''s own") } == isNamed, "\(findings)")
  }

  @Test(arguments: ["enable replica", "enable", "disable"])
  func `a lock that a session can pass is named`(change: String) async throws {
    let owner = try await TestDatabase(.wide).owner()
    try await owner.run("alter table public.profiles \(change) trigger zzz_countersign_guard_subscription")
    let findings = try await owner.query(SQLFile.sample("03_check")).compactMap { $0[0] }
    #expect(
      findings == ["trigger zzz_countersign_guard_subscription is missing or does not always fire on public.profiles"])
  }
}
