-- What stands in the way of the locks of 01_profiles.sql and 02_feature_gates.sql. Changes nothing; run it after every
-- migration. No row: nothing was found.

with guarded (name) as (
  select to_regclass(name) from unnest(array[
    'public.profiles', 'vehicles.user_bike', 'recording.trips', 'recording.trip_basic_stats',
    'recording.trip_advanced_stats']) as name
  where to_regclass(name) is not null
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
select format('policy %L lets everybody read everybody''s subscription in public.profiles', policyname)
from pg_policies
where schemaname = 'public' and tablename = 'profiles' and cmd in ('SELECT', 'ALL') and permissive = 'PERMISSIVE'
  and qual = 'true'

union all
select format('trigger %s is missing or disabled on %s', expected.trigger, expected.name)
from (values
    ('public.profiles', 'zzz_countersign_guard_subscription'), ('vehicles.user_bike', 'zzz_countersign_guard_bike'),
    ('recording.trips', 'zzy_countersign_count_trip'), ('recording.trips', 'zzz_countersign_guard_trip')
  ) as expected (name, trigger)
where to_regclass(expected.name) is not null
  and not exists (
    select from pg_trigger
    where tgrelid = to_regclass(expected.name) and tgname = expected.trigger and tgenabled <> 'D')
order by 1;
