-- For an app that has no profiles yet: the table, and a row for each user.
--
-- An app whose public.profiles is there keeps it as it is, and gets a row for each user who has none; the file may be
-- run before 01_profiles.sql or after it. An app that makes its rows itself does not need it. May be run again at any
-- time.

begin;

-- 1. The table --------------------------------------------------------------------------------------------------------
-- Users read their own row. What they may write is for the app to add:
--
--   alter table public.profiles add column display_name text;
--   grant select (display_name), update (display_name) on public.profiles to authenticated;

do $$
declare
  required text;
begin
  if to_regclass('public.profiles') is null then
    create table public.profiles (
      id uuid primary key references auth.users on delete cascade,
      created_at timestamptz not null default now()
    );
    alter table public.profiles enable row level security;
    create policy "countersign: own row, select" on public.profiles for select to authenticated
      using ((select auth.uid()) = id);
    create policy "countersign: own row, update" on public.profiles for update to authenticated
      using ((select auth.uid()) = id) with check ((select auth.uid()) = id);
    -- Older projects grant everything on a new table to everybody.
    revoke all on public.profiles from public, anon, authenticated;
    grant select (id, created_at) on public.profiles to authenticated;
  end if;

  -- A sign-up fails when its row cannot be made. Better now than then.
  if not exists (
    select from pg_attribute
    where attrelid = 'public.profiles'::regclass and attname = 'id' and atttypid = 'uuid'::regtype and not attisdropped
  ) then
    raise exception 'public.profiles has no column id of type uuid' using errcode = 'undefined_column',
      hint = 'It holds the user''s ID, as in auth.users.';
  end if;
  select string_agg(quote_ident(attname), ', ' order by attnum) into required from pg_attribute
  where attrelid = 'public.profiles'::regclass and attnum > 0 and not attisdropped and attname <> 'id'
    and attnotnull and not atthasdef and attidentity = '';
  if required is not null then
    raise exception 'a row of public.profiles cannot be made from the user''s ID alone: % would be null', required
      using errcode = 'not_null_violation',
        hint = 'Give each a default, or leave out this file and make the rows by a trigger of your own.';
  end if;
end
$$;

-- 2. A row for each new user ------------------------------------------------------------------------------------------

-- As in 01_profiles.sql: never among the schemas that the API exposes.
create schema if not exists countersign;
grant usage on schema countersign to public;

-- With its owner's privileges, as the auth server has none on the app's tables.
create or replace function countersign.make_profile() returns trigger
  language plpgsql security definer set search_path = ''
as $$
begin
  -- A row that is there already, by a trigger of the app's own or by a client that was faster, is no reason to refuse
  -- somebody an account.
  insert into public.profiles (id) values (new.id) on conflict do nothing;
  return null;
end
$$;

-- The one who makes the trigger has to be able to call it; whoever signs up has not.
revoke all on function countersign.make_profile() from public, anon, authenticated, service_role;

-- Triggers run in the order of their names, so one of the app's own fills the row first.
create or replace trigger zzz_countersign_make_profile
  after insert on auth.users
  for each row execute function countersign.make_profile();

commit;

-- 3. A row for everybody who signed up before -------------------------------------------------------------------------
-- After the commit: sign-ups do not wait for it, and whoever signs up meanwhile has the trigger.

insert into public.profiles (id)
select id from auth.users where not exists (select from public.profiles where profiles.id = users.id)
on conflict do nothing;

notify pgrst, 'reload schema';
