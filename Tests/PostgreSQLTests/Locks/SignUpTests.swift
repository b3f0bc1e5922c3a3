import Testing

/// `00_profiles.sql`: the table of an app that has none, and a row for each user.
@Suite struct SignUpTests {
  private static let dropProfiles = "drop table public.profiles"
  private static let signUp = "insert into auth.users (id, email) values ($1, 'new@example.com')"
  private static let newcomer = "00000000-0000-4000-8000-000000000001"

  private func profile(of user: String, _ owner: Connection) async throws -> [[String?]] {
    try await owner.query(
      "select id, subscription_tier, subscription_status from public.profiles where id = $1", [user])
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `an app without profiles gets the table and a row for each user, old and new`(
    grants: TestDatabase.Grants
  ) async throws {
    let database = try await TestDatabase(grants, .app)
    let (owner, project) = (try await database.owner(), try await database.project())
    try await project.run(Self.dropProfiles)
    try await project.run(SQLFile.sample(SQLFile.table))
    for file in try SQLFile.samples { try await project.run(file) }
    #expect(try await owner.value("select count(*) from public.profiles") == "4")

    #expect(try await database.signUps().execute(Self.signUp, [Self.newcomer]) == 1)
    #expect(try await profile(of: Self.newcomer, owner) == [[Self.newcomer, "free", "active"]])
    #expect(try await owner.query(SQLFile.sample(SQLFile.check)).isEmpty)

    // The row goes with the account.
    #expect(
      try await database.signUps().execute("delete from auth.users where id = $1", [Self.newcomer]) == 1)
    #expect(try await profile(of: Self.newcomer, owner).isEmpty)
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `users read their own row, and write what the app grants them`(grants: TestDatabase.Grants) async throws {
    let database = try await TestDatabase(grants, .app)
    let (project, api) = (try await database.project(), try await database.api())
    try await project.run(Self.dropProfiles)
    try await project.run(SQLFile.sample(SQLFile.table))
    // Nothing yet, before the second file as after it.
    for _ in 1...2 {
      #expect(try await api.query("select id from public.profiles", as: .a) == [[UserIDs.a]])
      for write in [
        "update public.profiles set created_at = now()", "delete from public.profiles",
        "insert into public.profiles (id) values ('\(Self.newcomer)')",
      ] {
        for caller in [Caller.anon, .a] { #expect(try await api.attempt(write, as: caller) == .denied) }
      }
      #expect(try await api.attempt("select id from public.profiles", as: .anon) == .denied)
      try await project.run(SQLFile.sample(SQLFile.profiles))
    }
    try await project.run(
      """
      alter table public.profiles add column display_name text;
      grant select (display_name), update (display_name) on public.profiles to authenticated;
      """)
    #expect(try await api.execute("update public.profiles set display_name = 'x'", as: .a) == 1)
    #expect(try await api.attempt("update public.profiles set subscription_tier = 'pro'", as: .a) == .denied)
  }

  @Test func `a sign-up in a user's name makes a free row, and passes the lock of the profiles`() async throws {
    // The lock looks at the token's role, whoever's privileges a function runs with.
    let database = try await TestDatabase(.wide)
    let (owner, project) = (try await database.owner(), try await database.project())
    try await project.run(SQLFile.sample(SQLFile.table))
    try await owner.run("grant insert on auth.users to authenticated")
    let api = try await database.api()
    #expect(try await api.attempt("insert into auth.users (id) values ('\(Self.newcomer)')", as: .a) == .passed)
    #expect(try await profile(of: Self.newcomer, owner) == [[Self.newcomer, "free", "active"]])
  }

  enum Order: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case before, after
    var testDescription: String { "\(rawValue) 01_profiles.sql" }
  }

  @Test(arguments: Order.allCases, TestDatabase.Grants.allCases)
  func `an app with profiles keeps them, and its users without a row get one`(
    order: Order, grants: TestDatabase.Grants
  ) async throws {
    let database = try await TestDatabase(grants, .app)
    let (owner, project) = (try await database.owner(), try await database.project())
    let files = order == .before ? [SQLFile.table, SQLFile.profiles] : [SQLFile.profiles, SQLFile.table]
    for file in files { try await project.run(SQLFile.sample(file)) }
    #expect(
      try await owner.query("select id, display_name, subscription_tier from public.profiles order by id")
        == [[UserIDs.a, "A", "free"], [UserIDs.b, "B", "free"], [UserIDs.c, nil, "free"], [UserIDs.d, "D", "free"]])
    #expect(
      try await owner.value(
        "select count(*) from pg_policies where tablename = 'profiles' and policyname like 'count%'")
        == "0")
    #expect(try await database.signUps().execute(Self.signUp, [Self.newcomer]) == 1)
    #expect(try await profile(of: Self.newcomer, owner) == [[Self.newcomer, "free", "active"]])
    #expect(try await owner.query(SQLFile.sample(SQLFile.check)).isEmpty)
  }

  @Test(arguments: [true, false])
  func `the files may be run again in any order and leave the same database`(hadProfiles: Bool) async throws {
    let database = try await TestDatabase(.wide, .app)
    let (owner, project) = (try await database.owner(), try await database.project())
    if !hadProfiles { try await project.run(Self.dropProfiles) }
    for file in [SQLFile.table, SQLFile.profiles] { try await project.run(SQLFile.sample(file)) }
    let once = try await owner.query(DatabaseSnapshot.everything)
    let rows = try await owner.query("select * from public.profiles order by id")
    for file in [SQLFile.table, SQLFile.profiles, SQLFile.table, SQLFile.table] {
      try await project.run(SQLFile.sample(file))
    }
    #expect(try await owner.query(DatabaseSnapshot.everything) == once)
    #expect(try await owner.query("select * from public.profiles order by id") == rows)
    #expect(once.contains { $0[0]?.contains("zzz_countersign_make_profile") == true })
  }

  @Test func `a sign-up does not fail where a trigger of the app's own makes the row`() async throws {
    let database = try await TestDatabase(.wide)
    let (owner, project) = (try await database.owner(), try await database.project())
    // As Supabase's guide has it.
    try await project.run(
      """
      create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = ''
        as $$ begin
          insert into public.profiles (id, display_name) values (new.id, new.email); return new;
        end $$;
      create trigger on_auth_user_created after insert on auth.users
        for each row execute procedure public.handle_new_user();
      """)
    try await project.run(SQLFile.sample(SQLFile.table))
    #expect(try await database.signUps().execute(Self.signUp, [Self.newcomer]) == 1)
    #expect(
      try await owner.query("select id, display_name from public.profiles where id = '\(Self.newcomer)'")
        == [[Self.newcomer, "new@example.com"]])
  }

  @Test func `a table whose rows need more than the user's ID is told so, and is left alone`() async throws {
    let database = try await TestDatabase(.wide, .app)
    let project = try await database.project()
    try await project.run("alter table public.profiles add column username text not null default ''")
    try await project.run(SQLFile.sample(SQLFile.table))
    try await project.run("alter table public.profiles alter column username drop default")
    #expect(
      try await project.query(SQLFile.sample(SQLFile.check)).compactMap { $0[0] }
        .contains("a sign-up fails, as username of public.profiles has no default and may not be null"))
    try await project.run("drop function countersign.make_profile() cascade")
    let error = await #expect(throws: PostgreSQLError.self) { try await project.run(SQLFile.sample(SQLFile.table)) }
    #expect(error?.message.contains("username would be null") == true)
    try await project.run("rollback")
    #expect(try await database.signUps().execute(Self.signUp, [Self.newcomer]) == 1)
  }

  @Test func `profiles that are numbered otherwise are told so`() async throws {
    let database = try await TestDatabase(.wide, .app)
    let project = try await database.project()
    try await project.run("\(Self.dropProfiles); create table public.profiles (id bigint primary key)")
    let error = await #expect(throws: PostgreSQLError.self) { try await project.run(SQLFile.sample(SQLFile.table)) }
    #expect(error?.message == "public.profiles has no column id of type uuid")
  }

  @Test func `no role calls the trigger's function, and the check names a trigger that is gone`() async throws {
    let database = try await TestDatabase(.wide)
    let (owner, project, api) = (
      try await database.owner(), try await database.project(), try await database.api()
    )
    try await project.run(SQLFile.sample(SQLFile.table))
    for caller in [Caller.anon, .a, .service] {
      #expect(try await api.attempt("select countersign.make_profile()", as: caller) == .denied)
    }
    try await owner.run("alter table auth.users disable trigger zzz_countersign_make_profile")
    #expect(
      try await owner.query(SQLFile.sample(SQLFile.check))
        == [["trigger zzz_countersign_make_profile is disabled on auth.users"]])
    try await owner.run("drop trigger zzz_countersign_make_profile on auth.users")
    #expect(
      try await owner.query(SQLFile.sample(SQLFile.check)).compactMap { $0[0] }.map { $0.hasPrefix("no trigger calls") }
        == [true])
  }
}
