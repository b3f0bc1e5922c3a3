import Testing

/// `countersign.limit_rows` by its example: two children are free, 99 are pro.
@Suite struct RowLimitTests {
  private static let add = "insert into public.children (name) values ('c')"
  private static let addTwo = "insert into public.children (name) values ('c'), ('d')"
  private static func add(_ count: Int) -> String {
    "insert into public.children (name) select 'c' from generate_series(1, \(count))"
  }

  private func children(_ owner: Connection, of user: String = UserIDs.a) async throws -> String? {
    try await owner.value("select count(*) from public.children where user_id = $1", [user])
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `a free user has two, and everybody else's are counted apart`(grants: TestDatabase.Grants) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    #expect(try await api.attempt(Self.add, as: .a) == .upgradeRequired)
    // Without a profile, as with a free one.
    for caller in [Caller.b, .c] {
      #expect(try await api.attempt(Self.addTwo, as: caller) == .passed)
      #expect(try await api.attempt(Self.add, as: caller) == .upgradeRequired)
    }
    #expect(try await api.attempt(Self.add, as: .anon) == .denied)
    #expect(try await children(owner) == "2")
    // Changes are free, and what is deleted makes room.
    #expect(try await api.execute("update public.children set name = 'x'", as: .a) == 2)
    #expect(
      try await api.execute(
        "delete from public.children where id = (select id from public.children limit 1)", as: .a) == 1)
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    #expect(try await api.attempt(Self.add, as: .a) == .upgradeRequired)
  }

  @Test(arguments: ["pro", "premium"])
  func `above free it is 99, and what is there stays after a downgrade`(tier: String) async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await api.setTier(tier, of: UserIDs.a)
    #expect(try await api.attempt(Self.add(100), as: .a) == .upgradeRequired)
    #expect(try await api.attempt(Self.add(98), as: .a) == .passed)
    #expect(try await api.attempt(Self.addTwo, as: .a) == .upgradeRequired)
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    #expect(try await api.attempt(Self.add, as: .a) == .upgradeRequired)
    try await api.setTier("free", of: UserIDs.a, status: "expired", expires: "-1 day")
    #expect(try await api.attempt(Self.add, as: .a) == .upgradeRequired)
    #expect(try await children(owner) == "99")
  }

  @Test func `a refusal tells the app which limit it was and what to offer`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    let free = await #expect(throws: PostgreSQLError.self) { try await api.as(.a) { try $0.query(Self.add(3)) } }
    #expect(free?.sqlState == "42501")
    #expect(free?.message == "the tier free has room for 2 children")
    #expect(free?.hint == "upgrade_required")
    #expect(
      try await owner.query(
        "select $1::jsonb @> $2::jsonb and $2::jsonb @> $1::jsonb",
        [
          free?.detail, #"{"table": "children", "tier": "free", "limit": 2, "upgrade_to": "pro"}"#,
        ]) == [["t"]])
    // Premium has no more than pro: there is nothing to offer.
    try await api.setTier("pro", of: UserIDs.a)
    let pro = await #expect(throws: PostgreSQLError.self) { try await api.as(.a) { try $0.query(Self.add(100)) } }
    #expect(try await owner.value("select $1::jsonb -> 'upgrade_to'", [pro?.detail]) == "null")
  }

  @Test func `an upsert of a row that is there is no other row`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    #expect(try await api.attempt(Self.addTwo, as: .a) == .passed)
    let id = try #require(try await owner.value("select id from public.children limit 1"))
    let upsert = """
      insert into public.children (id, name) values ('\(id)', 'x') on conflict (id) do update set name = excluded.name
      """
    #expect(try await api.attempt(upsert, as: .a) == .passed)
    #expect(try await children(owner) == "2")
  }

  @Test func `no policy, view or function of the app's own makes room`() async throws {
    let database = try await TestDatabase(.wide)
    let (owner, project, api) = (
      try await database.owner(), try await database.project(), try await database.api()
    )
    try await project.run(
      """
      create policy "everything for everybody" on public.children using (true) with check (true);
      create view public.all_children as select * from public.children;
      grant select, insert, update on public.all_children to authenticated;
      create function public.add_child(owner uuid) returns void language sql security definer set search_path = ''
        as $$ insert into public.children (user_id, name) values (owner, 'c') $$;
      """)
    #expect(try await api.attempt(Self.addTwo, as: .a) == .passed)
    for sql in [
      Self.add, "insert into public.all_children (user_id, name) values ('\(UserIDs.a)', 'c')",
      "select public.add_child('\(UserIDs.a)')",
      "with added as (insert into public.children (name) values ('c') returning 1) select * from added",
    ] {
      #expect(try await api.attempt(sql, as: .a) == .upgradeRequired, "\(sql)")
    }
    // One's own given to another user, who has two, and taken from another.
    #expect(try await api.attempt(Self.addTwo, as: .b) == .passed)
    #expect(
      try await api.attempt(
        "update public.children set user_id = '\(UserIDs.b)' where user_id = '\(UserIDs.a)'", as: .a)
        == .upgradeRequired)
    #expect(
      try await api.attempt(
        "update public.children set user_id = '\(UserIDs.a)' where user_id = '\(UserIDs.b)'", as: .a)
        == .upgradeRequired)
    #expect(try await children(owner) == "2")
    let findings = try await owner.query(SQLFile.sample(SQLFile.check)).compactMap { $0[0] }
    #expect(findings.contains { $0.contains("view public.all_children shows rows of children") })
  }

  @Test func `the app's server and its migrations are not limited`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    let three = """
      insert into public.children (user_id, name) select '\(UserIDs.a)', 'c' from generate_series(1, 3)
      """
    #expect(try await api.attempt(three, as: .service) == .passed)
    try await owner.query(three)
    #expect(try await children(owner) == "6")
  }

  // MARK: - Other limits

  /// A table of the app's own with a limit of its own.
  private func limit(_ limits: String, column: String = "owner", _ project: Connection) async throws {
    try await project.run(
      """
      create table public."Shared lists" (id bigint generated always as identity, owner uuid);
      create index on public."Shared lists" (owner);
      alter table public."Shared lists" enable row level security;
      create policy own on public."Shared lists" using (owner = auth.uid() or owner is null) with check (true);
      grant select, insert on public."Shared lists" to authenticated;
      create trigger zzz_countersign_limit after insert on public."Shared lists"
        for each row when (countersign.is_user_request())
        execute function countersign.limit_rows('\(column)', '\(limits)');
      """)
  }

  private func addLists(_ count: Int) -> String {
    """
    insert into public."Shared lists" (owner) select auth.uid() from generate_series(1, \(count))
    """
  }

  @Test(
    arguments: [
      (#"{"free": 1, "premium": null}"#, "free", 1), (#"{"free": 1, "premium": null}"#, "pro", 1),
      (#"{"free": 1, "premium": null}"#, "premium", nil), (#"{"pro": 3}"#, "free", 0), ("{}", "premium", 0),
      (#"{"free": 0, "pro": 2147483647}"#, "pro", nil),
    ] as [(String, String, Int?)])
  func `a tier that is not named has the number of the next one below, and null is any`(
    limits: String, tier: String, most: Int?
  ) async throws {
    let database = try await TestDatabase(.none)
    let (project, api) = (try await database.project(), try await database.api())
    try await limit(limits, project)
    try await api.setTier(tier, of: UserIDs.a)
    if let most {
      #expect(try await api.attempt(addLists(most + 1), as: .a) == .upgradeRequired)
      if most > 0 { #expect(try await api.attempt(addLists(most), as: .a) == .passed) }
    } else {
      #expect(try await api.attempt(addLists(200), as: .a) == .passed)
    }
    // Nobody's row has no limit.
    #expect(try await api.attempt("insert into public.\"Shared lists\" (owner) values (null)", as: .a) == .passed)
    #expect(try await database.owner().query(SQLFile.sample(SQLFile.check)).isEmpty)
  }

  @Test(
    arguments: [
      (#"{"free": 1, "por": 9}"#, "owner", "22023"), (#"{"free": "many"}"#, "owner", "22P02"),
      ("two", "owner", "22P02"), (#"{"free": 1}"#, "ower", "42703"),
    ])
  func `a limit that is misspelt refuses every row`(limits: String, column: String, state: String) async throws {
    let database = try await TestDatabase(.wide)
    let (project, api) = (try await database.project(), try await database.api())
    try await limit(limits, column: column, project)
    #expect(try await api.attempt(addLists(1), as: .a) == .refused(sqlState: state, hint: nil))
  }

  @Test func `the check names a limit that is off, one without an index and rows without policies`() async throws {
    let database = try await TestDatabase(.wide)
    let owner = try await database.owner()
    try await owner.run(
      """
      alter table public.children disable trigger zzz_countersign_limit, disable row level security;
      drop index public.children_user_id_idx;
      alter table public.growth_charts disable row level security;
      """)
    #expect(
      try await owner.query(SQLFile.sample(SQLFile.check)) == [
        ["index on the user's ID of children is missing, by which its limit counts"],
        ["row level security is off on children"], ["row level security is off on growth_charts"],
        ["trigger zzz_countersign_limit is disabled on children"],
      ])
  }

  // MARK: - Races

  @Test func `one of two connections at once adds the second child`() async throws {
    let database = try await TestDatabase(.wide)
    let (owner, api) = (try await database.owner(), try await database.api())
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    let race = try await Race.run(Self.add, as: .a, in: database)
    #expect(race == Race(secondWaited: true, second: .upgradeRequired))
    #expect(try await children(owner) == "2")
  }

  @Test func `where there is room for both, the second waits and passes`() async throws {
    let database = try await TestDatabase(.wide)
    let race = try await Race.run(Self.add, as: .a, in: database)
    #expect(race == Race(secondWaited: true, second: .passed))
    #expect(try await children(database.owner()) == "2")
  }

  @Test func `without the lock both connections add the second child`() async throws {
    // Planted.
    let database = try await TestDatabase(.wide)
    let (owner, api) = (try await database.owner(), try await database.api())
    #expect(try await api.attempt(Self.add, as: .a) == .passed)
    try await owner.run(Race.withoutLock)
    let race = try await Race.run(Self.add, as: .a, in: database)
    #expect(race == Race(secondWaited: false, second: .passed))
    #expect(try await children(owner) == "3")
  }

  @Test func `users do not wait for each other, nor does the service's write for a user`() async throws {
    let database = try await TestDatabase(.wide)
    #expect(
      try await Race.run(Self.add, as: .a, second: .b, in: database) == Race(secondWaited: false, second: .passed))
    let first = try await database.api()
    try await first.begin(.a)
    try await first.query(Self.add)
    // A lock of the profile's row would let this wait.
    let service = try await database.api()
    try await service.query("set lock_timeout = '5s'")
    try await service.setTier("pro", of: UserIDs.a)
    try await first.commit()
  }

  @Test func `a transaction that could not count is refused`() async throws {
    let database = try await TestDatabase(.wide)
    try await database.owner().run(
      "alter role authenticator in database \(database.name) set default_transaction_isolation = 'repeatable read'")
    #expect(try await database.api().attempt(Self.add, as: .a) == .refused(sqlState: "0A000", hint: nil))
  }
}
