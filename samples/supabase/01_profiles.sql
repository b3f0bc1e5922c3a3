-- The subscription columns of public.profiles, two locks so that only the service role writes them, and what policies
-- ask of them.
--
-- Needs: public.profiles with a column id that holds the user's ID (auth.uid()); for an app that has none,
-- 00_profiles.sql makes it. Everything else of the table stays.
-- May be run again at any time. See README.md beside this file for what each lock does and what the app has to change.

begin;

do $$
begin
  if not exists (
    select from pg_attribute where attrelid = to_regclass('public.profiles') and attname = 'id' and not attisdropped
  ) then
    raise exception 'there is no table public.profiles with a column id'
      using errcode = 'undefined_table',
        hint = 'Run 00_profiles.sql first. Or make your own: '
          'create table public.profiles (id uuid primary key references auth.users on delete cascade);';
  end if;
end
$$;

-- 1. Columns ----------------------------------------------------------------------------------------------------------
-- The tiers are the words of the service's catalog. The first, the default tier, is also in countersign.default_tier()
-- below; the list is in profiles_subscription_tier_check. To change either, see README.md.

alter table public.profiles
  add column if not exists subscription_tier text not null default 'free',
  add column if not exists subscription_status text not null default 'active',
  add column if not exists subscription_expires_at timestamptz,
  -- Not unique: see README.md.
  add column if not exists original_transaction_id text,
  -- Milliseconds of the store's own evidence. The service writes a row only when its version is higher, and NULL is
  -- never lower.
  add column if not exists subscription_version bigint not null default 0;

-- For columns that somebody made before. Milliseconds since 1970 do not fit into an integer.
do $$
declare
  found constant text := (
    select format_type(atttypid, atttypmod) from pg_attribute
    where attrelid = 'public.profiles'::regclass and attname = 'subscription_version');
begin
  if found in ('smallint', 'integer') then
    alter table public.profiles alter column subscription_version type bigint;
  elsif found <> 'bigint' then
    raise exception 'public.profiles.subscription_version is of type %, and has to be bigint', found
      using errcode = 'datatype_mismatch',
        hint = 'alter table public.profiles alter column subscription_version type bigint using …;';
  end if;
end
$$;
update public.profiles set subscription_tier = 'free' where subscription_tier is null;
update public.profiles set subscription_status = 'active' where subscription_status is null;
update public.profiles set subscription_version = 0 where subscription_version is null;
alter table public.profiles
  alter column subscription_tier set default 'free',
  alter column subscription_tier set not null,
  alter column subscription_status set default 'active',
  alter column subscription_status set not null,
  alter column subscription_version set default 0,
  alter column subscription_version set not null;

do $$
begin
  if not exists (
    select from pg_constraint
    where conrelid = 'public.profiles'::regclass and conname = 'profiles_subscription_tier_check'
  ) then
    alter table public.profiles add constraint profiles_subscription_tier_check
      check (subscription_tier in ('free', 'pro', 'premium'));
  end if;
  if not exists (
    select from pg_constraint
    where conrelid = 'public.profiles'::regclass and conname = 'profiles_subscription_status_check'
  ) then
    alter table public.profiles add constraint profiles_subscription_status_check
      check (subscription_status in ('active', 'expired', 'cancelled', 'grace_period'));
  end if;
end
$$;

-- Rows that expire soon, in the order in which they do.
create index if not exists profiles_subscription_expiring
  on public.profiles (subscription_expires_at, id) where subscription_tier <> 'free';

-- Whose purchase is this? For support.
create index if not exists profiles_original_transaction_id
  on public.profiles (original_transaction_id) where original_transaction_id is not null;

-- 2. Rows: everybody his own ------------------------------------------------------------------------------------------
-- Where row level security was off, every row was everybody's, so own-row policies only take away. Where it was on, the
-- app has decided who sees and writes what; only reading one's own tier is added, and only if nobody may read anything.

do $$
declare
  was_on constant boolean := (select relrowsecurity from pg_class where oid = 'public.profiles'::regclass);
  missing text;
begin
  alter table public.profiles enable row level security;
  for missing in
    select command from unnest(array['select', 'insert', 'update']) as command
    where (not was_on or command = 'select')
      and not exists (
        select from pg_policies
        where schemaname = 'public' and tablename = 'profiles' and permissive = 'PERMISSIVE'
          and lower(cmd) in (command, 'all'))
  loop
    execute format(
      'create policy %I on public.profiles for %s to authenticated %s',
      'countersign: own row, ' || missing, missing,
      case missing
        when 'select' then 'using ((select auth.uid()) = id)'
        when 'insert' then 'with check ((select auth.uid()) = id)'
        else 'using ((select auth.uid()) = id) with check ((select auth.uid()) = id)'
      end);
  end loop;
end
$$;

-- 3. First lock: privileges -------------------------------------------------------------------------------------------
-- "revoke update (subscription_tier)" does nothing while the table as a whole is granted. So the table is taken back,
-- and every other column that authenticated could write before is granted again, by name. A column that is added later
-- is not among them until it is granted.

do $$
declare
  subscription constant name[] := array[
    'subscription_tier', 'subscription_status', 'subscription_expires_at', 'original_transaction_id',
    'subscription_version'];
  insertable text;
  updatable text;
begin
  -- As it is now: through the table, the column or PUBLIC.
  select
    string_agg(quote_ident(attname), ', ' order by attnum) filter (
      where has_column_privilege('authenticated', attrelid, attnum, 'insert')),
    string_agg(quote_ident(attname), ', ' order by attnum) filter (
      where has_column_privilege('authenticated', attrelid, attnum, 'update'))
  into insertable, updatable
  from pg_attribute
  where attrelid = 'public.profiles'::regclass and attnum > 0 and not attisdropped and attname <> all (subscription);

  -- This takes the columns' own grants along.
  revoke insert, update, delete, truncate, references, trigger on public.profiles from public, anon, authenticated;

  if insertable is not null then
    execute format('grant insert (%s) on public.profiles to authenticated', insertable);
  end if;
  if updatable is not null then
    execute format('grant update (%s) on public.profiles to authenticated', updatable);
  end if;
end
$$;

-- The app reads what the user has.
grant select (id, subscription_tier, subscription_status, subscription_expires_at) on public.profiles to authenticated;

-- Bypassing row level security is no grant: what the service reads and writes, by name.
grant usage on schema public to service_role;
grant
  select (id, subscription_tier, subscription_status, subscription_expires_at, original_transaction_id,
    subscription_version),
  update (subscription_tier, subscription_status, subscription_expires_at, original_transaction_id,
    subscription_version)
  on public.profiles to service_role;

-- 4. Second lock: a trigger -------------------------------------------------------------------------------------------
-- It holds when somebody grants everything again, when a profile is inserted that is "pro" from the start, and inside
-- functions and views that run with their owner's privileges.

-- Not among the schemas that the API exposes, and never to be: nobody can call what is in it, except by a trigger, a
-- policy or a function of the app's own.
create schema if not exists countersign;
grant usage on schema countersign to public;

create or replace function countersign.default_tier() returns text
  language sql immutable parallel safe set search_path = ''
  return 'free';

-- Whether this statement comes from a user of the app, whoever's privileges it runs with.
create or replace function countersign.is_user_request() returns boolean
  language plpgsql stable set search_path = ''
as $$
declare
  token_role constant text :=
    coalesce(nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role', '');
begin
  if current_user in ('anon', 'authenticated') or session_user in ('anon', 'authenticated') then return true; end if;
  if token_role <> '' then return token_role <> 'service_role'; end if;
  -- No token: a migration, the dashboard, a trigger of the auth server. Not the API's own login.
  return session_user = 'authenticator' and current_user <> 'service_role';
end
$$;

create or replace function countersign.guard_subscription() returns trigger
  language plpgsql set search_path = ''
as $$
begin
  if not countersign.is_user_request() then return new; end if;
  if tg_op = 'INSERT' then
    if new.subscription_tier::text = countersign.default_tier() and new.subscription_status = 'active'
      and new.subscription_expires_at is null and new.original_transaction_id is null
      and new.subscription_version = 0
    then
      return new;
    end if;
  elsif new.id is not distinct from old.id
    and new.subscription_tier is not distinct from old.subscription_tier
    and new.subscription_status is not distinct from old.subscription_status
    and new.subscription_expires_at is not distinct from old.subscription_expires_at
    and new.original_transaction_id is not distinct from old.original_transaction_id
    and new.subscription_version is not distinct from old.subscription_version
  then
    return new;
  end if;
  raise exception 'only the service role writes the subscription of a profile'
    using errcode = 'insufficient_privilege', hint = 'subscription_is_read_only';
end
$$;

-- The trigger runs as whoever writes, so everybody who may write a profile has to be able to call these two.
grant execute on function countersign.default_tier(), countersign.is_user_request() to public;
revoke all on function countersign.guard_subscription() from public, anon, authenticated, service_role;

-- Triggers run in the order of their names; this one has to see what the others made of the row.
create or replace trigger zzz_countersign_guard_subscription
  before insert or update on public.profiles
  for each row execute function countersign.guard_subscription();
-- Also where a session says that it is a replica.
alter table public.profiles enable always trigger zzz_countersign_guard_subscription;

-- 5. What policies and limits ask -------------------------------------------------------------------------------------
-- For functions that run with their owner's privileges: they name a user, so no user may call them.

-- How long a tier stands past its end, should nobody have written since: policy.outage_hold of the service. While the
-- App Store cannot be asked nobody is downgraded; and if the service is gone for good, access ends all the same.
create or replace function countersign.outage_hold() returns interval
  language sql immutable parallel safe set search_path = ''
  return interval '7 days';

-- The tier that counts at this moment. Whoever has no row has the default tier.
create or replace function countersign.tier_of(member uuid) returns text
  language sql stable set search_path = ''
  begin atomic
    select coalesce(
      -- As text, where an app had made an enum of it.
      (select subscription_tier::text from public.profiles
        where id = member
          and subscription_status::text in ('active', 'cancelled', 'grace_period')
          -- Null: for life.
          and (subscription_expires_at is null or subscription_expires_at > now() - countersign.outage_hold())),
      countersign.default_tier());
  end;

-- Holds the user's lock of this name until the transaction ends. Whatever is counted after it, in a statement of its
-- own, includes what another connection committed while this one waited.
create or replace function countersign.wait_for_turn(what text, member uuid) returns void
  language plpgsql volatile set search_path = ''
as $$
begin
  -- In the stricter levels the count sees what was there at the transaction's begin, whatever it waited for.
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'limits can be counted in transactions of level "read committed" only'
      using errcode = 'feature_not_supported';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(what || ' ' || member, 0));
end
$$;

revoke all on function countersign.outage_hold(), countersign.tier_of(uuid), countersign.wait_for_turn(text, uuid)
  from public, anon, authenticated, service_role;

commit;

-- PostgREST answers PGRST204 for the new columns until it has read the tables again.
notify pgrst, 'reload schema';
