-- What a paid tier is worth, held by the database:
--
--   vehicles.user_bike              free: one bike;  above: any number
--   recording.trips                 free: one open trip at a time, one completed trip started in 7 days;  above: any
--   recording.trip_basic_stats      everybody's own trips
--   recording.trip_advanced_stats   own trips, and only above free
--
-- Needs 01_profiles.sql. Tables that are not there are made, as small as they can be. Of a table that is there, these
-- columns are used: user_bike (user_id uuid), trips (id, user_id uuid, status text or enum with 'completed'; null is a
-- status like any other), stats (trip_id). May be run again at any time.
--
-- Each limit has two locks. A restrictive policy, which no other policy of the app can loosen; and a trigger, which
-- counts again after the statement, also where functions and views skip policies. Both wait for the same lock of the
-- user, so two connections count one after the other. Both refuse with SQLSTATE 42501; the hint 'upgrade_required'
-- tells the app that this is the limit and not a missing grant.

begin;

do $$
begin
  if to_regprocedure('countersign.tier_of(uuid)') is null then
    raise exception 'run 01_profiles.sql first' using errcode = 'undefined_function';
  end if;
end
$$;

-- 1. Tables -----------------------------------------------------------------------------------------------------------

create schema if not exists vehicles;
create schema if not exists recording;
grant usage on schema vehicles, recording to authenticated, service_role;

do $$
declare
  trip_id text;
begin
  if to_regclass('vehicles.user_bike') is null then
    create table vehicles.user_bike (
      id uuid primary key default gen_random_uuid(),
      user_id uuid not null default auth.uid() references auth.users on delete cascade,
      name text not null
    );
    create index on vehicles.user_bike (user_id);
    revoke all on vehicles.user_bike from public, anon, authenticated;
    grant select, insert, update, delete on vehicles.user_bike to authenticated, service_role;
  end if;

  if to_regclass('recording.trips') is null then
    create table recording.trips (
      id uuid primary key default gen_random_uuid(),
      user_id uuid not null default auth.uid() references auth.users on delete cascade,
      status text not null default 'recording' check (status in ('recording', 'completed', 'cancelled')),
      started_at timestamptz not null default now(),
      title text
    );
    create index on recording.trips (user_id);
    revoke all on recording.trips from public, anon, authenticated;
    grant select, insert, update, delete on recording.trips to authenticated, service_role;
  end if;

  -- Whatever an existing table of trips is numbered with.
  select format_type(atttypid, atttypmod) into trip_id from pg_attribute
  where attrelid = 'recording.trips'::regclass and attname = 'id';

  if to_regclass('recording.trip_basic_stats') is null then
    execute format('
      create table recording.trip_basic_stats (
        trip_id %s primary key references recording.trips on delete cascade,
        distance_m double precision,
        duration_s double precision,
        average_speed_mps double precision,
        max_speed_mps double precision
      )', trip_id);
    revoke all on recording.trip_basic_stats from public, anon, authenticated;
    grant select on recording.trip_basic_stats to authenticated;
    grant select, insert, update, delete on recording.trip_basic_stats to service_role;
  end if;

  if to_regclass('recording.trip_advanced_stats') is null then
    execute format('
      create table recording.trip_advanced_stats (
        trip_id %s primary key references recording.trips on delete cascade,
        elevation_gain_m double precision,
        speed_percentiles jsonb,
        heart_rate_zones jsonb
      )', trip_id);
    revoke all on recording.trip_advanced_stats from public, anon, authenticated;
    grant select on recording.trip_advanced_stats to authenticated;
    grant select, insert, update, delete on recording.trip_advanced_stats to service_role;
  end if;
end
$$;

-- Everybody his own rows, on tables where row level security was off. Where it was on, the app has its policies.
do $$
declare
  target record;
  command text;
  own text;
begin
  for target in
    select * from (values
      ('vehicles.user_bike'::regclass, array['select', 'insert', 'update', 'delete'], '(select auth.uid()) = user_id'),
      ('recording.trips', array['select', 'insert', 'update', 'delete'], '(select auth.uid()) = user_id'),
      ('recording.trip_basic_stats', array['select'], null),
      ('recording.trip_advanced_stats', array['select'], null)
    ) as t (name, commands, own)
  loop
    continue when (select relrowsecurity from pg_class where oid = target.name);
    execute format('alter table %s enable row level security', target.name);
    own := coalesce(target.own, format(
      'exists (select from recording.trips where trips.id = %s.trip_id and trips.user_id = (select auth.uid()))',
      target.name));
    foreach command in array target.commands loop
      continue when exists (
        select from pg_policies
        where format('%I.%I', schemaname, tablename)::regclass = target.name and permissive = 'PERMISSIVE'
          and lower(cmd) in (command, 'all'));
      execute format(
        'create policy %I on %s for %s to authenticated %s', 'countersign: own rows, ' || command, target.name, command,
        case command
          when 'insert' then format('with check (%s)', own)
          when 'update' then format('using (%s) with check (%s)', own, own)
          else format('using (%s)', own)
        end);
    end loop;
  end loop;
end
$$;

-- Every trip of a user by the server's clock. The limit is counted here and not in the trips, whose times, status and
-- very existence are the client's: neither back-dating nor taking back nor deleting a trip gives the week back.
create table if not exists countersign.trip_uses (
  id bigint generated always as identity primary key,
  user_id uuid not null references auth.users on delete cascade,
  -- No foreign key: it outlives the trip.
  trip_id text not null,
  started_at timestamptz not null default now(),
  completed boolean not null
);
create index if not exists trip_uses_by_trip on countersign.trip_uses (trip_id, id);
create index if not exists trip_uses_by_user on countersign.trip_uses (user_id, started_at) where completed;
-- For the deletion of an account.
create index if not exists trip_uses_of_account on countersign.trip_uses (user_id);
alter table countersign.trip_uses enable row level security;
revoke all on countersign.trip_uses from public, anon, authenticated, service_role;

-- 2. Who has paid -----------------------------------------------------------------------------------------------------

-- Any tier above the default: a limit of the free tier is not for "premium" either.
create or replace function countersign.is_paid(member uuid) returns boolean
  language sql stable security definer set search_path = ''
  begin atomic
    select countersign.tier_of(member) <> countersign.default_tier();
  end;

-- The same of whoever asks.
create or replace function countersign.has_paid_tier() returns boolean
  language sql stable security definer set search_path = ''
  begin atomic
    select countersign.is_paid(auth.uid());
  end;

-- 3. The limits -------------------------------------------------------------------------------------------------------
-- All VOLATILE, so that each statement inside sees the rows that its own command has written before; with STABLE, three
-- bikes in one insert would each count none. All in several statements, as one would count what was there before it
-- waited for the lock.

create or replace function countersign.refuse(what text) returns void
  language plpgsql volatile set search_path = ''
as $$
begin
  raise exception 'policy violation: %', what using errcode = 'insufficient_privilege', hint = 'upgrade_required';
end
$$;

-- Refuses if the user has more bikes than this.
create or replace function countersign.limit_bikes(member uuid, most integer) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if countersign.is_paid(member) then return; end if;
  perform countersign.wait_for_turn('bike', member);
  if (select count(*) from vehicles.user_bike where user_id = member) > most then
    perform countersign.refuse('the free tier has one bike');
  end if;
end
$$;

-- Refuses if the user has more open trips, or more trips completed and started in the last seven days, than these.
create or replace function countersign.limit_trips(member uuid, most_open integer, most_completed integer) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if countersign.is_paid(member) then return; end if;
  perform countersign.wait_for_turn('trip', member);
  if (
    select count(*) from countersign.trip_uses
    where user_id = member and completed and started_at > now() - interval '7 days'
  ) > most_completed then
    perform countersign.refuse('the free tier has one completed trip in seven days');
  end if;
  if (
    select count(*) from recording.trips
    where user_id = member and coalesce(status::text, '') not in ('completed', 'cancelled')
  ) > most_open then
    perform countersign.refuse('the free tier has one open trip at a time');
  end if;
end
$$;

-- 4. First lock: policies ---------------------------------------------------------------------------------------------

create or replace function countersign.may_add_bike() returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if auth.uid() is null then return false; end if;
  perform countersign.limit_bikes(auth.uid(), most => 0);
  return true;
end
$$;

create or replace function countersign.may_start_trip() returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if auth.uid() is null then return false; end if;
  perform countersign.limit_trips(auth.uid(), most_open => 0, most_completed => 0);
  return true;
end
$$;

drop policy if exists "countersign: one bike is free" on vehicles.user_bike;
create policy "countersign: one bike is free" on vehicles.user_bike as restrictive for insert
  to public with check ((select auth.uid()) = user_id and countersign.may_add_bike());

drop policy if exists "countersign: one trip a week is free" on recording.trips;
create policy "countersign: one trip a week is free" on recording.trips as restrictive for insert
  to public with check ((select auth.uid()) = user_id and countersign.may_start_trip());

drop policy if exists "countersign: advanced statistics are paid for" on recording.trip_advanced_stats;
create policy "countersign: advanced statistics are paid for" on recording.trip_advanced_stats as restrictive for select
  to public using ((select countersign.has_paid_tier()));

-- 5. Second lock: triggers --------------------------------------------------------------------------------------------

create or replace function countersign.guard_bike() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' and new.user_id is not distinct from old.user_id then return null; end if;
  perform countersign.limit_bikes(new.user_id, most => 1);
  return null;
end
$$;

create or replace trigger zzz_countersign_guard_bike
  after insert or update of user_id on vehicles.user_bike
  for each row when (countersign.is_user_request()) execute function countersign.guard_bike();

-- Keeps the count, of whoever writes a trip.
create or replace function countersign.count_trip() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  is_completed constant boolean := new.status::text is not distinct from 'completed';
begin
  -- Nobody's trip.
  if new.user_id is null then return null; end if;
  if tg_op = 'INSERT' then
    insert into countersign.trip_uses (user_id, trip_id, completed) values (new.user_id, new.id::text, is_completed);
  elsif old.status::text is not distinct from 'cancelled' and new.status::text is distinct from 'cancelled' then
    -- Taken up again: a new start, or cancelled trips would be a store of old ones.
    insert into countersign.trip_uses (user_id, trip_id, completed) values (new.user_id, new.id::text, is_completed);
  elsif is_completed and old.status::text is distinct from 'completed' then
    update countersign.trip_uses set completed = true
    where id = (select max(id) from countersign.trip_uses where trip_id = new.id::text and user_id = new.user_id);
    -- A trip of before this file, or under another ID.
    if not found then
      insert into countersign.trip_uses (user_id, trip_id, completed) values (new.user_id, new.id::text, true);
    end if;
  end if;
  return null;
end
$$;

create or replace trigger zzy_countersign_count_trip
  after insert or update on recording.trips
  for each row execute function countersign.count_trip();

create or replace function countersign.guard_trip() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  most_completed integer := 1;
begin
  if tg_op = 'UPDATE' then
    if new.user_id is distinct from old.user_id then
      raise exception 'policy violation: a trip stays its user''s' using errcode = 'insufficient_privilege';
    end if;
    -- Its use is found by its ID: under that of an earlier trip it would count as long past, or as completed before.
    if new.id is distinct from old.id then
      raise exception 'policy violation: a trip keeps its ID' using errcode = 'insufficient_privilege';
    end if;
    if new.status is not distinct from old.status then return null; end if;
    if old.status::text is not distinct from 'completed' and not countersign.is_paid(new.user_id) then
      perform countersign.refuse('in the free tier, a completed trip stays completed');
    end if;
    if new.status::text is not distinct from 'cancelled' then return null; end if;
    if old.status::text is not distinct from 'cancelled' and new.status::text is distinct from 'completed' then
      most_completed := 0;
    end if;
  end if;
  perform countersign.limit_trips(new.user_id, most_open => 1, most_completed => most_completed);
  return null;
end
$$;

create or replace trigger zzz_countersign_guard_trip
  after insert or update on recording.trips
  for each row when (countersign.is_user_request()) execute function countersign.guard_trip();

-- Trips of before this file count as well.
insert into countersign.trip_uses (user_id, trip_id, started_at, completed)
select user_id, id::text, coalesce((to_jsonb(trips) ->> 'started_at')::timestamptz, '-infinity'), true
from recording.trips
where status::text = 'completed' and user_id is not null
  and not exists (select from countersign.trip_uses where trip_id = trips.id::text);

-- 6. Who may call what ------------------------------------------------------------------------------------------------
-- EXECUTE is everybody's by default. Users need what their policies call; what takes a user's ID stays inside.

revoke all on function countersign.is_paid(uuid), countersign.has_paid_tier(), countersign.refuse(text),
  countersign.limit_bikes(uuid, integer), countersign.limit_trips(uuid, integer, integer), countersign.may_add_bike(),
  countersign.may_start_trip(), countersign.guard_bike(), countersign.count_trip(), countersign.guard_trip()
  from public, anon, authenticated, service_role;
grant execute on function countersign.may_add_bike(), countersign.may_start_trip(), countersign.has_paid_tier()
  to anon, authenticated, service_role;

commit;

notify pgrst, 'reload schema';
