-- An app's profiles as Supabase's own guide has them, before any subscription.
create table public.profiles (
  id uuid primary key references auth.users on delete cascade,
  display_name text,
  avatar_url text,
  updated_at timestamptz default now()
);
alter table public.profiles enable row level security;
create policy "Users can see their own profile." on public.profiles for select using ((select auth.uid()) = id);
create policy "Users can insert their own profile." on public.profiles for insert with check ((select auth.uid()) = id);
create policy "Users can update own profile." on public.profiles for update using ((select auth.uid()) = id);
create policy "Users can delete own profile." on public.profiles for delete using ((select auth.uid()) = id);

insert into auth.users (id) values
  ('00000000-0000-4000-8000-00000000000a'), ('00000000-0000-4000-8000-00000000000b'),
  ('00000000-0000-4000-8000-00000000000c'), ('00000000-0000-4000-8000-00000000000d');
insert into public.profiles (id, display_name) values
  ('00000000-0000-4000-8000-00000000000a', 'A'), ('00000000-0000-4000-8000-00000000000b', 'B'),
  ('00000000-0000-4000-8000-00000000000d', 'D');
