import Testing

/// Tries every way that a user has to a tier that was not paid for.
@Suite struct ProfileLockTests {
  /// A statement of user A, and the profile that may not have come of it.
  struct Attack: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let sql: String

    init(_ description: String, _ sql: String) {
      testDescription = description
      self.sql = sql
    }
  }

  static let writes =
    [
      ("subscription_tier", "'pro'"), ("subscription_status", "'grace_period'"),
      ("subscription_expires_at", "now() + interval '1 year'"), ("original_transaction_id", "'1000000000000001'"),
      ("subscription_version", "9000000000000000000"),
    ].map { column, value in
      Attack("update of \(column)", "update public.profiles set \(column) = \(value) where id = '\(UserIDs.a)'")
    } + [
      Attack(
        "update among allowed columns",
        "update public.profiles set display_name = 'x', subscription_tier = 'pro' where id = '\(UserIDs.a)'"),
      Attack(
        "upsert",
        """
        insert into public.profiles (id, display_name) values ('\(UserIDs.a)', 'x')
        on conflict (id) do update set subscription_tier = 'pro'
        """),
      Attack(
        "upsert of the whole row",
        """
        insert into public.profiles (id, subscription_tier) values ('\(UserIDs.a)', 'pro')
        on conflict (id) do update set subscription_tier = excluded.subscription_tier
        """),
      Attack(
        "merge",
        """
        merge into public.profiles p using (select '\(UserIDs.a)'::uuid as id) s on p.id = s.id
        when matched then update set subscription_tier = 'pro'
        """),
    ]

  static let inserts =
    [
      ("subscription_tier", "'pro'"), ("subscription_status", "'cancelled'"),
      ("subscription_expires_at", "now() + interval '1 year'"), ("original_transaction_id", "'1000000000000001'"),
      ("subscription_version", "1"),
    ].map { column, value in
      Attack("insert with \(column)", "insert into public.profiles (id, \(column)) values ('\(UserIDs.c)', \(value))")
    }

  private static let subscriptions = """
    select id, subscription_tier, subscription_status, subscription_expires_at, original_transaction_id,
      subscription_version from public.profiles order by id
    """

  private func expect(_ outcome: Outcome, of attacks: [Attack], by callers: [Caller], _ api: Connection) async throws {
    for attack in attacks {
      for caller in callers {
        #expect(try await api.attempt(attack.sql, as: caller) == outcome, "\(attack.testDescription) \(caller)")
      }
    }
  }

  // MARK: - The first lock

  @Test(arguments: TestDatabase.Grants.allCases)
  func `no user writes a subscription column of an existing row`(grants: TestDatabase.Grants) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    let before = try await owner.query(Self.subscriptions)
    try await expect(.denied, of: Self.writes, by: [.anon, .a, .b], api)
    #expect(try await owner.query(Self.subscriptions) == before)
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `no user makes a row that is paid from the start`(grants: TestDatabase.Grants) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    try await expect(.denied, of: Self.inserts, by: [.anon, .b, .c], api)
    #expect(try await owner.query("select from public.profiles where id = '\(UserIDs.c)'").isEmpty)
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `no user deletes or empties the profiles to begin again`(grants: TestDatabase.Grants) async throws {
    let api = try await TestDatabase(grants).api()
    for caller in [Caller.anon, .a, .b] {
      #expect(try await api.attempt("delete from public.profiles where id = '\(UserIDs.a)'", as: caller) == .denied)
      #expect(try await api.attempt("truncate public.profiles", as: caller) == .denied)
    }
  }

  @Test func `where the table is granted and there is no trigger the user is pro`() async throws {
    // Planted: what the two locks are for. The attacks above do work.
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run(
      """
      drop trigger zzz_countersign_guard_subscription on public.profiles;
      grant all on public.profiles to anon, authenticated;
      """)
    try await expect(.passed, of: Self.writes, by: [.a], api)
    for attack in Self.inserts {
      #expect(try await api.attempt(attack.sql, as: .c) == .passed, "\(attack.testDescription)")
      try await owner.query("delete from public.profiles where id = '\(UserIDs.c)'")
    }
    #expect(
      try await owner.value("select subscription_tier from public.profiles where id = '\(UserIDs.a)'") == "pro")
  }

  @Test func `the first lock holds without the second`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run("drop trigger zzz_countersign_guard_subscription on public.profiles")
    try await expect(.denied, of: Self.writes, by: [.a], api)
    try await expect(.denied, of: Self.inserts, by: [.c], api)
  }

  // MARK: - The second lock

  @Test func `the trigger holds after a later grant of everything`() async throws {
    let (owner, api) = try await TestDatabase(.none).connections()
    let before = try await owner.query(Self.subscriptions)
    try await owner.run(
      """
      grant all on public.profiles to anon, authenticated;
      create policy "everything for everybody" on public.profiles using (true) with check (true);
      """)
    try await expect(.readOnly, of: Self.writes, by: [.anon, .a, .b], api)
    try await expect(.readOnly, of: Self.inserts, by: [.anon, .b, .c], api)
    // A paid row cannot be made one's own either.
    try await api.setTier("pro", of: UserIDs.b)
    try await owner.run("delete from public.profiles where id = '\(UserIDs.a)'")
    #expect(
      try await api.attempt(
        "update public.profiles set id = '\(UserIDs.a)' where id = '\(UserIDs.b)'", as: .a) == .readOnly)
    try await owner.run("insert into public.profiles (id, display_name) values ('\(UserIDs.a)', 'A')")
    try await api.setTier("free", of: UserIDs.b, expires: nil)
    #expect(try await owner.query(Self.subscriptions) == before)
  }

  @Test func `deleting and inserting again does not make a row paid`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run("grant all on public.profiles to authenticated")
    #expect(try await api.attempt("delete from public.profiles where id = '\(UserIDs.a)'", as: .a) == .passed)
    #expect(
      try await api.attempt(
        "insert into public.profiles (id, subscription_tier) values ('\(UserIDs.a)', 'pro')", as: .a) == .readOnly)
    #expect(try await api.attempt("insert into public.profiles (id) values ('\(UserIDs.a)')", as: .a) == .passed)
  }

  @Test func `a function with its owner's privileges does not write for a user`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run(
      """
      create function public.save_profile(changes jsonb) returns void language sql security definer as $$
        update public.profiles p set subscription_tier = r.subscription_tier, display_name = r.display_name
        from jsonb_populate_record(null::public.profiles, changes) r where p.id = auth.uid()
      $$;
      grant execute on function public.save_profile to anon, authenticated, service_role;
      """)
    let attack = #"select public.save_profile('{"subscription_tier":"pro"}')"#
    #expect(try await api.attempt(attack, as: .a) == .readOnly)
    let harmless = #"select public.save_profile('{"subscription_tier":"free","display_name":"new"}')"#
    #expect(try await api.attempt(harmless, as: .a) == .passed)

    try await owner.run("drop trigger zzz_countersign_guard_subscription on public.profiles")
    #expect(try await api.attempt(attack, as: .a) == .passed, "planted: the trigger is what holds it")
  }

  @Test func `a view with its owner's privileges does not write for a user`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run("create view public.my_profile as select * from public.profiles")
    let attack = "update public.my_profile set subscription_tier = 'pro' where id = '\(UserIDs.a)'"
    #expect(try await api.attempt(attack, as: .a) == .readOnly)
    #expect(try await api.attempt(attack, as: .anon) == .readOnly)

    try await owner.run("drop trigger zzz_countersign_guard_subscription on public.profiles")
    #expect(try await api.attempt(attack, as: .anon) == .passed, "planted: the trigger is what holds it")
  }

  @Test func `a claim that the user made up does not help`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run(
      """
      grant all on public.profiles to authenticated;
      create policy "everything for everybody" on public.profiles using (true) with check (true);
      """)
    for claims in [#"{"role":"service_role"}"#, "{}", ""] {
      try await api.begin(.a)
      try await api.query("select set_config('request.jwt.claims', $1, true)", [claims])
      let error = await #expect(throws: PostgreSQLError.self) {
        try await api.query("update public.profiles set subscription_tier = 'pro'")
      }
      #expect(error?.hint == "subscription_is_read_only")
      try await api.query("rollback")
    }
  }

  // MARK: - What stays allowed

  @Test(arguments: TestDatabase.Grants.allCases)
  func `users keep the rest of their row`(grants: TestDatabase.Grants) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    let mine = "where id = '\(UserIDs.a)'"
    #expect(try await api.attempt("update public.profiles set display_name = 'new' \(mine)", as: .a) == .passed)
    #expect(
      try await api.attempt(
        """
        insert into public.profiles (id, display_name) values ('\(UserIDs.a)', 'newer')
        on conflict (id) do update set display_name = excluded.display_name
        """, as: .a) == .passed)
    #expect(
      try await api.attempt("insert into public.profiles (id, avatar_url) values ('\(UserIDs.c)', 'u')", as: .c)
        == .passed)
    #expect(try await owner.value("select display_name from public.profiles \(mine)") == "newer")
    #expect(
      try await api.query("select subscription_tier, subscription_status from public.profiles", as: .a)
        == [["free", "active"]])
    // Others' rows as before: not there.
    #expect(
      try await api.execute("update public.profiles set display_name = 'x' where id = '\(UserIDs.b)'", as: .a) == 0)
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `the service writes the five columns and cannot write a tier or status that is none`(
    grants: TestDatabase.Grants
  ) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    #expect(
      try await api.query(
        """
        update public.profiles set subscription_tier = 'premium', subscription_status = 'cancelled',
          subscription_expires_at = '2027-01-01T00:00:00Z', original_transaction_id = '1', subscription_version = 7
        where id = '\(UserIDs.a)' and subscription_version < 7 returning id, subscription_tier, subscription_version
        """, as: .service) == [[UserIDs.a, "premium", "7"]])
    for wrong in ["subscription_tier = 'gold'", "subscription_status = 'paused'", "subscription_version = null"] {
      let outcome = try await api.attempt("update public.profiles set \(wrong)", as: .service)
      #expect([.refused(sqlState: "23514", hint: nil), .refused(sqlState: "23502", hint: nil)].contains(outcome))
    }
    // The same transaction ID in two rows, as a transfer leaves them until the loser's row is written.
    #expect(
      try await api.attempt(
        "update public.profiles set original_transaction_id = '1' where id = '\(UserIDs.b)'", as: .service) == .passed)
    // A function of the app that the service calls, and the dashboard.
    try await owner.run(
      """
      create function public.grant_month(who uuid) returns void language sql security definer as $$
        update public.profiles set subscription_tier = 'pro' where id = who
      $$;
      grant execute on function public.grant_month to service_role;
      """)
    #expect(try await api.attempt("select public.grant_month('\(UserIDs.b)')", as: .service) == .passed)
    #expect(try await owner.execute("update public.profiles set subscription_tier = 'free'") == 3)
  }

  @Test func `the service reads expiring rows by the index`() async throws {
    let owner = try await TestDatabase(.wide).owner()
    try await owner.run("set enable_seqscan = off")
    let plan = try await owner.query(
      """
      explain select id from public.profiles where subscription_tier = 'pro' and subscription_expires_at < now()
      order by subscription_expires_at, id limit 200
      """
    ).compactMap(\.first).compactMap(\.self).joined(separator: "\n")
    #expect(plan.contains("profiles_subscription_expiring"))
    #expect(!plan.contains("Sort"))
  }

  @Test func `a row that the auth server makes gets the default tier`() async throws {
    let database = try await TestDatabase(.wide)
    let owner = try await database.owner()
    try await owner.run(
      """
      create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = ''
        as $$ begin insert into public.profiles (id) values (new.id); return new; end $$;
      create trigger on_auth_user_created after insert on auth.users
        for each row execute function public.handle_new_user();
      insert into auth.users (id) values ('00000000-0000-4000-8000-0000000000e0');
      """)
    #expect(
      try await owner.query(
        "select subscription_tier, subscription_status from public.profiles where id::text like '%e0'")
        == [["free", "active"]])
  }
}
