-- Tiers and limits for tables of your own. Needs 01_profiles.sql; 05_children.sql is an example of both. May be run
-- again at any time.
--
-- In a policy:
--
--   create policy "charts are for pro" on public.growth_charts as restrictive
--     using ((select countersign.has_tier('pro')));
--
-- "restrictive", as two permissive policies are joined by "or". The inner select has it asked once a statement and not
-- once a row.
--
-- As a limit, on any table with a column for the user's ID and an index on it:
--
--   create trigger zzz_countersign_limit after insert or update of user_id on public.children
--     for each row when (countersign.is_user_request())
--     execute function countersign.limit_rows('user_id', '{"free": 2, "pro": 99}');
--
-- Tiers that are not named have the number of the next one below, or 0. null is any number.

begin;

do $$
declare
  unlisted text;
begin
  if to_regprocedure('countersign.tier_of(uuid)') is null then
    raise exception 'run 01_profiles.sql first' using errcode = 'undefined_function';
  end if;

  -- The words of the service's catalog, ascending. Yours stay when this file is run again; to change them:
  -- create or replace function countersign.tiers() …
  if to_regprocedure('countersign.tiers()') is null then
    create function countersign.tiers() returns text[]
      language sql immutable parallel safe set search_path = ''
      return array['free', 'pro', 'premium'];
  end if;

  if (countersign.tiers())[1] <> countersign.default_tier() then
    raise exception 'countersign.tiers() has to begin with countersign.default_tier(), which is "%"',
      countersign.default_tier() using errcode = 'invalid_parameter_value';
  end if;
  select subscription_tier into unlisted from public.profiles
  where subscription_tier::text <> all (countersign.tiers()) limit 1;
  if unlisted is not null then
    raise exception 'public.profiles has a tier "%", and countersign.tiers() has not', unlisted
      using errcode = 'invalid_parameter_value', hint = 'Name the tiers of your catalog in this file.';
  end if;
end
$$;

-- 1. Tiers ------------------------------------------------------------------------------------------------------------

-- A word that is not in the list is an error and not "no": with a silent "no", a misspelt policy or a tier that was
-- added to the catalog alone would lock out who has paid, and nobody would notice.
create or replace function countersign.rank(tier text) returns integer
  language plpgsql stable set search_path = ''
as $$
declare
  place constant integer := array_position(countersign.tiers(), tier);
begin
  if place is null then
    raise exception 'countersign.tiers() has no tier "%"', tier using errcode = 'invalid_parameter_value';
  end if;
  return place;
end
$$;

-- Whether whoever asks has this tier or one above it, at this moment. Nobody in particular has none.
--
-- With its owner's privileges, as users may read neither everybody's profile nor, in some apps, their own. For the same
-- reason a policy on public.profiles may call it and does not ask itself.
create or replace function countersign.has_tier(tier text) returns boolean
  language plpgsql stable security definer set search_path = ''
as $$
declare
  wanted constant integer := countersign.rank(tier);
begin
  if auth.uid() is null then return false; end if;
  return countersign.rank(countersign.tier_of(auth.uid())) >= wanted;
end
$$;

-- 2. Limits -----------------------------------------------------------------------------------------------------------

-- Refuses a row that its user's tier has no room for. Its arguments: the column with the user's ID, and how many rows
-- each tier may have, as JSON.
--
-- A trigger after each row, and no policy: it also counts where functions and views skip policies, and it sees the rows
-- that the same statement has added before. An upsert of a row that is there adds none, and passes.
--
-- Two inserts at once would each count without the other's row. So each first takes the user's lock, and holds it until
-- its transaction ends: the second waits until the first has committed, and counts then. It is an advisory lock and no
-- lock of the profile's row: the service's write of a new tier does not wait for it, and a user without a row has one
-- too. It is the same for all tables, so that no two transactions of a user wait for each other.
--
-- Rows above the limit stay after a downgrade; only no other comes.
create or replace function countersign.limit_rows() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  limits constant jsonb := tg_argv[1];
  member constant uuid := to_jsonb(new) ->> tg_argv[0];
  tier text;
  most integer;
  existing bigint;
begin
  if not to_jsonb(new) ? tg_argv[0] then
    raise exception '% has no column "%", which its limit names', tg_relid::regclass, tg_argv[0]
      using errcode = 'undefined_column';
  end if;
  -- Nobody's row; or one that was the same user's before.
  if member is null then return null; end if;
  if tg_op = 'UPDATE' then
    if to_jsonb(old) ->> tg_argv[0] = member::text then return null; end if;
  end if;

  perform countersign.wait_for_turn('rows', member);
  -- Of now, after the wait.
  tier := countersign.tier_of(member);
  most := countersign.most_rows(limits, tier);
  if most is null then return null; end if;

  -- No further than it takes to know.
  execute format(
    'select count(*) from (select from %s where %I = $1 limit $2) as theirs', tg_relid::regclass, tg_argv[0])
    into existing using member, most + 1::bigint;
  if existing <= most then return null; end if;

  raise exception 'the tier % has room for % %', tier, most, tg_table_name
    using errcode = 'insufficient_privilege', hint = 'upgrade_required',
      detail = jsonb_build_object('table', tg_table_name, 'tier', tier, 'limit', most, 'upgrade_to', (
        select higher from unnest(countersign.tiers()) with ordinality as t (higher, place)
        where place > countersign.rank(tier) and coalesce(countersign.most_rows(limits, higher) > most, true)
        order by place limit 1));
end
$$;

-- How many rows a tier may have; null: any number.
create or replace function countersign.most_rows(limits jsonb, tier text) returns integer
  language plpgsql stable set search_path = ''
as $$
declare
  named text;
begin
  -- Every word is looked at, so that one that is no tier is found at the first insert.
  select key into named
  from (select key, countersign.rank(key) as place from jsonb_object_keys(limits) as key) as ranked
  where place <= countersign.rank(tier)
  order by place desc limit 1;
  return case when named is null then 0 else (limits ->> named)::integer end;
end
$$;

-- 3. Who may call what ------------------------------------------------------------------------------------------------
-- EXECUTE is everybody's by default. Users need what their policies call.

revoke all on function countersign.tiers(), countersign.rank(text), countersign.has_tier(text),
  countersign.limit_rows(), countersign.most_rows(jsonb, text) from public, anon, authenticated, service_role;
grant execute on function countersign.has_tier(text) to anon, authenticated, service_role;

commit;
