-- An example of 04_has_tier.sql, which it needs:
--
--   public.children        free: two;  pro and above: 99
--   public.growth_charts   own children's; free: none
--
-- Tables that are there stay as they are. May be run again at any time.

begin;

do $$
begin
  if to_regprocedure('countersign.has_tier(text)') is null then
    raise exception 'run 04_has_tier.sql first' using errcode = 'undefined_function';
  end if;

  if to_regclass('public.children') is null then
    create table public.children (
      id uuid primary key default gen_random_uuid(),
      user_id uuid not null default auth.uid() references auth.users on delete cascade,
      name text not null
    );
    -- The limit counts by it.
    create index on public.children (user_id);
    alter table public.children enable row level security;
    create policy "own children" on public.children to authenticated
      using ((select auth.uid()) = user_id) with check ((select auth.uid()) = user_id);
    revoke all on public.children from public, anon, authenticated;
    grant select, insert, update, delete on public.children to authenticated, service_role;
  end if;

  if to_regclass('public.growth_charts') is null then
    create table public.growth_charts (
      child_id uuid primary key references public.children on delete cascade,
      points jsonb not null default '[]'
    );
    alter table public.growth_charts enable row level security;
    create policy "own children's charts" on public.growth_charts to authenticated
      using (exists (select from public.children where id = child_id and user_id = (select auth.uid())))
      with check (exists (select from public.children where id = child_id and user_id = (select auth.uid())));
    revoke all on public.growth_charts from public, anon, authenticated;
    grant select, insert, update, delete on public.growth_charts to authenticated, service_role;
  end if;
end
$$;

create or replace trigger zzz_countersign_limit
  after insert or update of user_id on public.children
  for each row when (countersign.is_user_request())
  execute function countersign.limit_rows('user_id', '{"free": 2, "pro": 99}');

-- For reading and writing alike. A condition that fails shows no rows on reading, and is an error on writing.
drop policy if exists "countersign: charts are for pro" on public.growth_charts;
create policy "countersign: charts are for pro" on public.growth_charts as restrictive
  using ((select countersign.has_tier('pro'))) with check ((select countersign.has_tier('pro')));

commit;

notify pgrst, 'reload schema';
