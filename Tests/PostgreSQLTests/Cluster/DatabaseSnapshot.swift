/// The state that a migration leaves behind.
enum DatabaseSnapshot {
  /// Columns, constraints, indexes, privileges, policies, functions and triggers, one a row.
  static let everything = """
    select what from (
      select format('column %s %s %s %s %s %s', attrelid::regclass, attname, atttypid::regtype, attnotnull, attacl,
        (select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = attrelid and adnum = attnum)) as what
      from pg_attribute join pg_class on pg_class.oid = attrelid
      where attnum > 0 and relkind in ('r', 'i')
        and relnamespace::regnamespace::text in ('public', 'vehicles', 'recording', 'countersign')
      union all select format('table %s %s %s', oid::regclass, relrowsecurity, relacl) from pg_class
      where relnamespace::regnamespace::text in ('public', 'vehicles', 'recording', 'countersign')
      union all select format('constraint %s', pg_get_constraintdef(oid)) from pg_constraint
      where connamespace::regnamespace::text in ('public', 'vehicles', 'recording', 'countersign')
      union all select format('function %s %s %s', oid::regprocedure, proacl, prosrc) from pg_proc
      where pronamespace::regnamespace::text in ('public', 'countersign')
      union all select format('policy %s', p.*) from pg_policies p
      union all select format('trigger %s %s', pg_get_triggerdef(oid), tgenabled) from pg_trigger where not tgisinternal
    ) as all_of_it order by what
    """
}
