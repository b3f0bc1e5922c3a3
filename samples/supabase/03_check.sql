-- What stands in the way of the locks of the other files. Changes nothing; run it after every migration. No row:
-- nothing was found.

-- Whatever tables have a policy or a limit by 04_has_tier.sql.
with asking (name) as (
  select p.polrelid::regclass from pg_policy p
    join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = p.oid
  where d.refclassid = 'pg_proc'::regclass and d.refobjid = to_regprocedure('countersign.has_tier(text)')
  union
  select tgrelid::regclass from pg_trigger where tgfoid = to_regprocedure('countersign.limit_rows()')
), guarded (name) as (
  select to_regclass(name) from unnest(array[
    'public.profiles', 'vehicles.user_bike', 'recording.trips', 'recording.trip_basic_stats',
    'recording.trip_advanced_stats']) as name
  where to_regclass(name) is not null
  union
  select name from asking
)
-- A view reads its tables with its owner's privileges, past row level security, unless told otherwise.
select distinct format('view %s.%s shows rows of %s past its policies; alter view … set (security_invoker = true)',
  quote_ident(n.nspname), quote_ident(v.relname), guarded.name) as finding
from guarded
  join pg_depend d on d.refobjid = guarded.name and d.classid = 'pg_rewrite'::regclass
  join pg_rewrite r on r.oid = d.objid
  join pg_class v on v.oid = r.ev_class and v.relkind = 'v'
  join pg_namespace n on n.oid = v.relnamespace
where not coalesce('security_invoker=true' = any (v.reloptions) or 'security_invoker=on' = any (v.reloptions), false)

union all
select format('materialized view %s shows rows of %s to everybody who may read it', v.oid::regclass, guarded.name)
from guarded
  join pg_depend d on d.refobjid = guarded.name and d.classid = 'pg_rewrite'::regclass and d.refobjsubid = 1
  join pg_rewrite r on r.oid = d.objid
  join pg_class v on v.oid = r.ev_class and v.relkind = 'm'

union all
select format('row level security is off on %s', name)
from guarded join pg_class on pg_class.oid = name where not relrowsecurity

union all
select format('%s may write %s of public.profiles; revoke insert, update on the table, then grant the other columns',
  role, attname)
from unnest(array['anon', 'authenticated']) as role, pg_attribute
where attrelid = to_regclass('public.profiles')
  and attname in ('subscription_tier', 'subscription_status', 'subscription_expires_at', 'original_transaction_id',
    'subscription_version')
  and (has_column_privilege(role, attrelid, attnum, 'insert') or has_column_privilege(role, attrelid, attnum, 'update'))

union all
select 'subscription_version of public.profiles is of type ' || format_type(atttypid, atttypmod)
  || ', and takes no version; alter table public.profiles alter column subscription_version type bigint'
from pg_attribute
where attrelid = to_regclass('public.profiles') and attname = 'subscription_version' and atttypid <> 'bigint'::regtype

union all
-- "true", "auth.role() = 'authenticated'", "auth.uid() is not null": the same answer for every row. A condition that
-- asks a table or a function of the app's own is left to the app.
select format('policy %L shows everybody''s subscription in public.profiles: its condition looks at no column',
  polname)
from pg_policy
where polrelid = to_regclass('public.profiles') and polcmd in ('r', '*') and polpermissive
  and polroles && array[0::oid, to_regrole('anon')::oid, to_regrole('authenticated')::oid]
  and not exists (
    select from pg_attribute
    where attrelid = polrelid and attnum > 0 and not attisdropped
      -- Beside auth.uid() and the like, whose names may be a column's.
      and regexp_replace(pg_get_expr(polqual, polrelid), 'auth\.\w+\(\)( AS \w+)?', '', 'g')
        ~ ('\m' || regexp_replace(attname, '(\W)', '\\\1', 'g') || '\M'))
  and not exists (
    select from pg_depend
    where classid = 'pg_policy'::regclass and objid = pg_policy.oid
      and (refclassid = 'pg_class'::regclass and refobjid <> polrelid
        or refclassid = 'pg_proc'::regclass
          and (select pronamespace from pg_proc where pg_proc.oid = refobjid) <> 'auth'::regnamespace))

union all
select format('trigger %s is missing or does not always fire on %s', expected.trigger, expected.name)
from (values
    ('public.profiles', 'zzz_countersign_guard_subscription', array['A']),
    ('vehicles.user_bike', 'zzz_countersign_guard_bike', array['O', 'A']),
    ('recording.trips', 'zzy_countersign_count_trip', array['O', 'A']),
    ('recording.trips', 'zzz_countersign_guard_trip', array['O', 'A'])
  ) as expected (name, trigger, enabled)
where to_regclass(expected.name) is not null
  and not exists (
    select from pg_trigger
    where tgrelid = to_regclass(expected.name) and tgname = expected.trigger
      and tgenabled::text = any (expected.enabled))

union all
select format('trigger %s is disabled on %s', tgname, tgrelid::regclass) from pg_trigger
where tgfoid in (to_regprocedure('countersign.limit_rows()'), to_regprocedure('countersign.make_profile()'))
  and tgenabled not in ('O', 'A')

union all
select 'no trigger calls countersign.make_profile(): new users get no profile; run 00_profiles.sql again'
where to_regprocedure('countersign.make_profile()') is not null
  and not exists (select from pg_trigger where tgfoid = to_regprocedure('countersign.make_profile()'))

union all
select format('a sign-up fails, as %s of public.profiles has no default and may not be null', attname)
from pg_attribute
where to_regprocedure('countersign.make_profile()') is not null and attrelid = to_regclass('public.profiles')
  and attnum > 0 and not attisdropped and attname <> 'id' and attnotnull and not atthasdef and attidentity = ''

union all
select format('index on the user''s ID of %s is missing, by which its limit counts', t.tgrelid::regclass)
from pg_trigger t
  join pg_attribute a on a.attrelid = t.tgrelid
    and a.attname = split_part(encode(t.tgargs, 'escape'), '\000', 1) and not a.attisdropped
where t.tgfoid = to_regprocedure('countersign.limit_rows()')
  and not exists (select from pg_index where indrelid = t.tgrelid and indkey[0] = a.attnum)
order by 1;
