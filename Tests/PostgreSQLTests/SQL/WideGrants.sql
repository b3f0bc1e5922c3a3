-- Projects made before 2026-05-30: whatever is made in public is everybody's.
alter default privileges for role postgres, project_owner in schema public grant all on tables to anon, authenticated, service_role;
alter default privileges for role postgres, project_owner in schema public grant all on sequences to anon, authenticated, service_role;
alter default privileges for role postgres, project_owner in schema public grant all on functions to anon, authenticated, service_role;
