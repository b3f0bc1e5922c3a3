import Testing

/// Basic statistics are everybody's own; advanced ones are paid for.
@Suite struct StatisticsTests {
  private static let fill = """
    insert into recording.trips (id, user_id) values
      ('00000000-0000-4000-8000-0000000000a1', '\(UserIDs.a)'), ('00000000-0000-4000-8000-0000000000b1', '\(UserIDs.b)');
    insert into recording.trip_basic_stats (trip_id, distance_m) select id, 1000 from recording.trips;
    insert into recording.trip_advanced_stats (trip_id, elevation_gain_m) select id, 100 from recording.trips;
    """
  private static let tripOfA = "00000000-0000-4000-8000-0000000000a1"

  private func seen(_ table: String, by caller: Caller, _ api: Connection) async throws -> [String?] {
    try await api.query("select trip_id from \(table) order by 1", as: caller).map { $0[0] }
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `every user sees the basic statistics of their own trips, and payers the advanced ones`(
    grants: TestDatabase.Grants
  ) async throws {
    let (owner, api) = try await TestDatabase(grants).connections()
    try await owner.run(Self.fill)
    let basic = "recording.trip_basic_stats"
    let advanced = "recording.trip_advanced_stats"
    #expect(try await seen(basic, by: .a, api) == [Self.tripOfA])
    #expect(try await seen(advanced, by: .a, api) == [])
    for tier in ["pro", "premium"] {
      try await api.setTier(tier, of: UserIDs.a)
      #expect(try await seen(basic, by: .a, api) == [Self.tripOfA])
      #expect(try await seen(advanced, by: .a, api) == [Self.tripOfA])
    }
    try await api.setTier("pro", of: UserIDs.a, expires: "-8 days")
    #expect(try await seen(advanced, by: .a, api) == [])
    try await api.setTier("free", of: UserIDs.a, status: "expired", expires: "-1 hour")
    #expect(try await seen(advanced, by: .a, api) == [])
    await #expect(throws: PostgreSQLError.self) { _ = try await seen(basic, by: .anon, api) }
    #expect(try await api.attempt("update \(advanced) set elevation_gain_m = 0", as: .a) == .denied)
    #expect(try await seen(advanced, by: .service, api).count == 2)
  }

  @Test func `a second policy and a view of the caller do not open the advanced statistics`() async throws {
    let (owner, api) = try await TestDatabase(.wide).connections()
    try await owner.run(Self.fill)
    try await owner.run(
      """
      create policy "shared with friends" on recording.trip_advanced_stats for select using (true);
      create view public.safe with (security_invoker = true) as select * from recording.trip_advanced_stats;
      create view public.leaking as select * from recording.trip_advanced_stats;
      """)
    #expect(try await seen("recording.trip_advanced_stats", by: .a, api) == [])
    #expect(try await seen("public.safe", by: .a, api) == [])
    // The leak of a view without security_invoker, which 03_check.sql finds.
    #expect(try await seen("public.leaking", by: .a, api).count == 2)
    let findings = try await owner.query(SQLFile.sample("03_check")).compactMap { $0[0] }
    #expect(findings.contains { $0.contains("public.leaking") })
    #expect(!findings.contains { $0.contains("public.safe") })

    // Planted: the same policy, permissive.
    try await owner.run(
      """
      drop policy "countersign: advanced statistics are paid for" on recording.trip_advanced_stats;
      create policy "countersign: advanced statistics are paid for" on recording.trip_advanced_stats for select
        using ((select countersign.has_paid_tier()));
      """)
    #expect(try await seen("recording.trip_advanced_stats", by: .a, api).count == 2)
  }

  @Test(arguments: TestDatabase.Grants.allCases)
  func `only the database calls the functions that take a user's ID`(grants: TestDatabase.Grants) async throws {
    let api = try await TestDatabase(grants).api()
    for call in [
      "select countersign.is_paid('\(UserIDs.b)')", "select countersign.limit_bikes('\(UserIDs.b)', 5)",
      "select countersign.limit_trips('\(UserIDs.b)', 5, 5)", "select * from countersign.trip_uses",
      "delete from countersign.trip_uses",
    ] {
      for caller in [Caller.anon, .a, .service] {
        #expect(try await api.attempt(call, as: caller) == .denied, "\(call)")
      }
    }
  }
}
