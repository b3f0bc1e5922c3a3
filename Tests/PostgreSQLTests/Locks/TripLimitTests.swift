import Testing

/// Free: one open trip at a time, and one completed trip started in seven days. Tries to record more.
@Suite struct TripLimitTests {
  private static let start = "insert into recording.trips (title) values ('t')"
  private static let startCompleted = "insert into recording.trips (status) values ('completed')"
  private static let complete = "update recording.trips set status = 'completed' where status = 'recording'"
  private static let dropTrigger = "drop trigger zzz_countersign_guard_trip on recording.trips;"
  private static let dropPolicy = """
    drop policy "countersign: one trip a week is free" on recording.trips;
    """

  private func completed(_ owner: Connection) async throws -> String? {
    try await owner.value("select count(*) from recording.trips where status = 'completed'")
  }

  /// Lets time pass by moving what was recorded into the past.
  private func pass(_ interval: String, _ owner: Connection) async throws {
    try await owner.query("update countersign.trip_uses set started_at = started_at - $1::interval", [interval])
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `a free user completes one trip in seven days`(grants: TestDatabase.Grants) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    #expect(try await api.attempt(Self.start, as: .a) == .passed)
    #expect(try await api.attempt("update recording.trips set title = 'along the river'", as: .a) == .passed)
    #expect(try await api.attempt(Self.complete, as: .a) == .passed)
    #expect(try await api.attempt("update recording.trips set title = 'home'", as: .a) == .passed)
    #expect(try await api.attempt(Self.start, as: .a) == .upgradeRequired)
    #expect(try await api.attempt(Self.startCompleted, as: .a) == .upgradeRequired)
    #expect(try await api.attempt(Self.start, as: .b) == .passed)
    #expect(try await api.attempt(Self.start, as: .anon) == .denied)

    try await pass("6 days 23 hours", owner)
    #expect(try await api.attempt(Self.start, as: .a) == .upgradeRequired)
    try await pass("1 hour 1 second", owner)
    #expect(try await api.attempt(Self.start, as: .a) == .passed)
    #expect(try await api.attempt(Self.complete, as: .a) == .passed)
    #expect(try await api.attempt(Self.start, as: .a) == .upgradeRequired)
    #expect(try await completed(owner) == "2")
  }

  @Test func `a second open trip is refused, and one that was cancelled counts for nothing`() async throws {
    let api = try await TestDatabase(.wide).api()
    #expect(try await api.attempt(Self.start, as: .a) == .passed)
    #expect(try await api.attempt(Self.start, as: .a) == .upgradeRequired)
    #expect(try await api.attempt("update recording.trips set status = 'cancelled'", as: .a) == .passed)
    #expect(try await api.attempt(Self.start, as: .a) == .passed)
    #expect(try await api.attempt(Self.complete, as: .a) == .passed)
  }

  @Test(
    arguments: [
      "update recording.trips set started_at = now() - interval '30 days'",
      "update recording.trips set status = 'recording'",
      "update recording.trips set status = 'cancelled'",
      "update recording.trips set id = gen_random_uuid()",
      "delete from recording.trips",
    ])
  func `the week does not come back by changing the trip`(change: String) async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    #expect(try await api.attempt(Self.startCompleted, as: .a) == .passed)
    let expected: Outcome =
      change.contains("set status") ? .upgradeRequired : change.contains("set id") ? .denied : .passed
    #expect(try await api.attempt(change, as: .a) == expected)
    for attempt in [
      Self.start, Self.startCompleted,
      "insert into recording.trips (status, started_at) values ('completed', now() - interval '30 days')",
    ] {
      #expect(try await api.attempt(attempt, as: .a) == .upgradeRequired)
    }
    #expect(try await owner.value("select count(*) from countersign.trip_uses where completed") == "1")
  }

  @Test func `the same trip again after deleting it is a new one`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    let same = """
      insert into recording.trips (id, status) values ('00000000-0000-4000-8000-0000000000f1', 'completed')
      """
    #expect(try await api.attempt(same, as: .a) == .passed)
    try await pass("8 days", owner)
    #expect(try await api.attempt("delete from recording.trips", as: .a) == .passed)
    #expect(try await api.attempt(same, as: .a) == .passed)
    #expect(try await api.attempt("delete from recording.trips", as: .a) == .passed)
    #expect(try await api.attempt(same, as: .a) == .upgradeRequired)
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `a trip does not take the ID under which another was completed`(grants: TestDatabase.Grants) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    func start() async throws -> String {
      try #require(try await api.query("\(Self.start) returning id", as: .a).first?[0])
    }
    func set(_ changes: String, of id: String) async throws -> Outcome {
      try await api.attempt("update recording.trips set \(changes) where id = '\(id)'", as: .a)
    }
    let first = try await start()
    #expect(try await set("status = 'cancelled'", of: first) == .passed)
    let second = try await start()
    #expect(try await set("status = 'completed'", of: first) == .passed)
    #expect(try await set("status = 'completed'", of: second) == .upgradeRequired)
    #expect(try await set("id = gen_random_uuid()", of: first) == .denied)
    #expect(try await completed(owner) == "1")
    #expect(try await api.attempt("delete from recording.trips where id = '\(first)'", as: .a) == .passed)
    #expect(try await set("id = '\(first)', status = 'completed'", of: second) == .denied)
    #expect(try await completed(owner) == "0")
    // Nor does a paid one, or it would be a store of IDs for later. An upsert writes the ID that it found.
    try await api.setTier("pro", of: UserIDs.a)
    #expect(try await set("id = gen_random_uuid()", of: second) == .denied)
    let upsert = """
      insert into recording.trips (id, title) values ('\(second)', 'x')
      on conflict (id) do update set id = excluded.id, title = excluded.title
      """
    #expect(try await api.attempt(upsert, as: .a) == .passed)
  }

  @Test func `trips that were begun and deleted are no store of old starts`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    var ids: [String] = []
    for _ in 1...4 {
      ids.append(try #require(try await api.query("\(Self.start) returning id", as: .a).first?[0]))
      #expect(try await api.attempt("delete from recording.trips", as: .a) == .passed)
    }
    try await pass("8 days", owner)
    for id in ids {
      #expect(try await api.attempt(Self.start, as: .a) == .passed)
      #expect(
        try await api.attempt("update recording.trips set id = '\(id)', status = 'completed'", as: .a) == .denied)
      #expect(try await api.attempt("update recording.trips set id = '\(id)'", as: .a) == .denied)
      #expect(try await api.attempt("delete from recording.trips", as: .a) == .passed)
    }
    // Under the old ID from the start, it is a trip of today.
    let again = "insert into recording.trips (id, status) values ('\(ids[0])', 'completed')"
    #expect(try await api.attempt(again, as: .a) == .passed)
    #expect(try await api.attempt(Self.start, as: .a) == .upgradeRequired)
    #expect(try await completed(owner) == "1")
  }

  @Test func `cancelled trips are no store of old starts`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    for _ in 1...3 {
      #expect(try await api.attempt(Self.start, as: .a) == .passed)
      #expect(
        try await api.attempt(
          "update recording.trips set status = 'cancelled' where status = 'recording'", as: .a) == .passed)
    }
    try await pass("8 days", owner)
    let ids = try await owner.query("select id from recording.trips").compactMap { $0[0] }
    var outcomes: [Outcome] = []
    for id in ids {
      let complete = "update recording.trips set status = 'completed' where id = '\(id)'"
      outcomes.append(try await api.attempt(complete, as: .a))
    }
    #expect(outcomes == [.passed, .upgradeRequired, .upgradeRequired])
    #expect(
      try await api.attempt("update recording.trips set status = 'recording' where status = 'cancelled'", as: .a)
        == .upgradeRequired)
  }

  @Test func `a bulk insert of completed trips adds none`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    for three in [
      "insert into recording.trips (status) values ('completed'), ('completed'), ('completed')",
      "insert into recording.trips (title) values ('1'), ('2'), ('3')",
    ] {
      #expect(try await api.attempt(three, as: .a) == .upgradeRequired)
      try await owner.run("begin; \(Self.dropPolicy)")
      try await owner.run("commit")
      #expect(try await api.attempt(three, as: .a) == .upgradeRequired, "the trigger alone")
      try await owner.run(SQLFile.sample(SQLFile.gates))
    }
    #expect(try await completed(owner) == "0")
    // Planted: neither of the two.
    try await owner.run(Self.dropPolicy + Self.dropTrigger)
    #expect(try await api.attempt("insert into recording.trips (title) values ('1'), ('2')", as: .a) == .passed)
    #expect(try await api.attempt(Self.complete, as: .a) == .passed)
    #expect(try await completed(owner) == "2")
  }

  @Test func `many trips that were begun while paid are completed one a week after`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await api.setTier("pro", of: UserIDs.a)
    let startThree = "insert into recording.trips (title) values ('1'), ('2'), ('3')"
    #expect(try await api.attempt(startThree, as: .a) == .passed)
    try await api.setTier("free", of: UserIDs.a, status: "expired", expires: "-1 day")
    // All at once, or one while more than one other is open.
    #expect(try await api.attempt(Self.complete, as: .a) == .upgradeRequired)
    let completeOne = "update recording.trips set status = 'completed' where title = '1'"
    #expect(try await api.attempt(completeOne, as: .a) == .upgradeRequired)
    let cancelAnother = "update recording.trips set status = 'cancelled' where title = '3'"
    #expect(try await api.attempt(cancelAnother, as: .a) == .passed)
    #expect(try await api.attempt(completeOne, as: .a) == .passed)
    #expect(try await api.attempt(Self.complete, as: .a) == .upgradeRequired)
    #expect(try await completed(owner) == "1")
    // Paid again in between.
    try await api.setTier("premium", of: UserIDs.a)
    #expect(try await api.attempt(Self.complete, as: .a) == .passed)
    #expect(try await api.attempt(Self.start, as: .a) == .passed)
  }

  @Test func `trips completed while paid count after the downgrade`() async throws {
    let api = try await TestDatabase(.wide).api()
    try await api.setTier("pro", of: UserIDs.a)
    for _ in 1...3 { #expect(try await api.attempt(Self.startCompleted, as: .a) == .passed) }
    try await api.setTier("pro", of: UserIDs.a, expires: "-8 days")
    #expect(try await api.attempt(Self.start, as: .a) == .upgradeRequired)
  }

  @Test func `a function with its owner's privileges records no second trip`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run(
      """
      create function public.save_trip() returns void language sql security definer as $$
        insert into recording.trips (user_id, status) values (auth.uid(), 'completed')
      $$;
      grant execute on function public.save_trip to authenticated;
      """)
    #expect(try await api.attempt("select public.save_trip()", as: .a) == .passed)
    #expect(try await api.attempt("select public.save_trip()", as: .a) == .upgradeRequired)
    try await owner.run(Self.dropTrigger)
    #expect(try await api.attempt("select public.save_trip()", as: .a) == .passed, "planted: the trigger held it")
  }

  @Test func `a trip does not change hands`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run("create policy everything on recording.trips using (true) with check (true)")
    #expect(try await api.attempt(Self.start, as: .a) == .passed)
    #expect(try await api.attempt("update recording.trips set user_id = '\(UserIDs.b)'", as: .a) == .denied)
    #expect(try await api.attempt("update recording.trips set user_id = '\(UserIDs.b)'", as: .b) == .denied)
  }

  @Test(arguments: [start, startCompleted])
  func `one of two connections at once has a trip`(sql: String) async throws {
    let database = try await TestDatabase(.wide)
    let owner = try await database.owner()
    #expect(try await Race.run(sql, as: .a, in: database) == Race(secondWaited: true, second: .upgradeRequired))
    #expect(try await owner.value("select count(*) from recording.trips") == "1")

    // Planted: without the lock.
    try await owner.run("delete from recording.trips; delete from countersign.trip_uses;" + Race.withoutLock)
    #expect(try await Race.run(sql, as: .a, in: database) == Race(secondWaited: false, second: .passed))
    #expect(try await owner.value("select count(*) from recording.trips") == "2")
  }

  /// The table of an app whose status may be null.
  private func databaseWithNullableStatus() async throws -> TestDatabase {
    let database = try await TestDatabase(.wide, .app)
    let owner = try await database.owner()
    try await owner.run(
      """
      create schema recording;
      create table recording.trips (
        id bigint generated always as identity primary key, user_id uuid default auth.uid(),
        status text default 'in_progress', title text);
      grant usage on schema recording to authenticated;
      grant select, insert, update on recording.trips to authenticated;
      insert into recording.trips (user_id, status) values (null, 'completed'), ('\(UserIDs.d)', null);
      """)
    for file in try SQLFile.samples { try await owner.run(file) }
    return database
  }

  @Test func `a status that is null is an open trip's`() async throws {
    let database = try await databaseWithNullableStatus()
    let (owner, api) = (try await database.owner(), try await database.api())
    let forget = "update recording.trips set status = null where status is distinct from 'completed'"
    let complete = "update recording.trips set status = 'completed'"

    #expect(try await api.attempt(Self.start, as: .a) == .passed)
    #expect(try await api.attempt(forget, as: .a) == .passed)
    #expect(try await api.attempt(Self.start, as: .a) == .upgradeRequired)
    #expect(try await api.attempt("insert into recording.trips (status) values (null)", as: .a) == .upgradeRequired)
    #expect(try await api.attempt(complete, as: .a) == .passed)
    #expect(try await api.attempt(Self.start, as: .a) == .upgradeRequired)
    #expect(try await api.attempt("update recording.trips set status = null", as: .a) == .upgradeRequired)
    #expect(
      try await owner.query("select completed from countersign.trip_uses where user_id = '\(UserIDs.a)'") == [["t"]])

    #expect(try await api.attempt("insert into recording.trips (status) values (null)", as: .b) == .passed)
    #expect(try await api.attempt(Self.start, as: .b) == .upgradeRequired)
    #expect(try await api.attempt(complete, as: .b) == .passed)
    #expect(try await api.attempt(Self.start, as: .b) == .upgradeRequired)
    #expect(try await completed(owner) == "3")
    // One of before the migration is open too.
    #expect(try await api.attempt(Self.start, as: .user(UserIDs.d)) == .upgradeRequired)
  }

  @Test func `a cancelled trip that loses its status is begun anew`() async throws {
    let database = try await databaseWithNullableStatus()
    let (owner, api) = (try await database.owner(), try await database.api())
    #expect(try await api.attempt(Self.start, as: .a) == .passed)
    #expect(try await api.attempt("update recording.trips set status = 'cancelled'", as: .a) == .passed)
    try await pass("8 days", owner)
    #expect(try await api.attempt("update recording.trips set status = null", as: .a) == .passed)
    #expect(try await api.attempt("update recording.trips set status = 'completed'", as: .a) == .passed)
    #expect(try await api.attempt(Self.start, as: .a) == .upgradeRequired)
    // Nobody's trips count for nobody, and are written by whoever may.
    try await owner.run("insert into recording.trips (user_id, status) values (null, null), (null, 'completed')")
    try await owner.run("update recording.trips set status = 'completed' where user_id is null")
  }

  @Test func `an account is deleted by an index on the uses of its trips`() async throws {
    let owner = try await TestDatabase(.wide).owner()
    try await owner.run("set enable_seqscan = off")
    // The statement that the foreign key runs.
    let plan = try await owner.query(
      "explain delete from only countersign.trip_uses where '\(UserIDs.a)'::uuid operator(pg_catalog.=) user_id"
    ).compactMap(\.first).compactMap(\.self).joined(separator: "\n")
    #expect(plan.contains("trip_uses_of_account"))
  }

  @Test func `trips of before the migration count by their start`() async throws {
    let (owner, api) = try await TestDatabase(.wide, .app).connections()
    try await owner.run(
      """
      create schema recording;
      create type recording.trip_status as enum ('in_progress', 'completed', 'cancelled');
      create table recording.trips (
        id bigint generated always as identity primary key, user_id uuid not null default auth.uid(),
        status recording.trip_status not null default 'in_progress', started_at timestamptz not null);
      grant usage on schema recording to authenticated;
      grant select, insert, update on recording.trips to authenticated;
      insert into recording.trips (user_id, status, started_at) values
        ('\(UserIDs.a)', 'completed', now() - interval '2 days'),
        ('\(UserIDs.b)', 'completed', now() - interval '9 days');
      """)
    for file in try SQLFile.samples { try await owner.run(file) }
    let start = "insert into recording.trips (started_at) values (now())"
    #expect(try await api.attempt(start, as: .a) == .upgradeRequired)
    #expect(try await api.attempt(start, as: .b) == .passed)
    #expect(try await api.attempt("update recording.trips set status = 'completed'", as: .b) == .passed)
    #expect(try await api.attempt(start, as: .b) == .upgradeRequired)
  }
}
