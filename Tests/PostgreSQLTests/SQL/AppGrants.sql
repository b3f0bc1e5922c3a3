-- What an app grants itself where nothing is granted by default.
grant select, insert, update, delete on public.profiles to authenticated;
