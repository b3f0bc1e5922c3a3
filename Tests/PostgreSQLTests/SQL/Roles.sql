-- The roles of a Supabase project. They belong to the whole cluster.
create role anon nologin noinherit;
create role authenticated nologin noinherit;
create role service_role nologin noinherit bypassrls;
create role authenticator login noinherit;
-- What Supabase calls postgres: owns the tables, and is no superuser.
create role project_owner login nosuperuser bypassrls;
grant anon, authenticated, service_role to authenticator;
-- The server of sign-ups.
create role supabase_auth_admin login noinherit nosuperuser;
