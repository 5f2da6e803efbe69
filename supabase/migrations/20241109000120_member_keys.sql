-- Making, using and revoking the keys of members, and what members do to themselves.

create table internal.key_digests (
  key_id uuid primary key references public.member_keys (id) on delete cascade,
  digest text not null unique
);
comment on table internal.key_digests is 'SHA-256 of each key. Apart from the keys, so that no role of the API can read it.';

-- Secrets -----------------------------------------------------------------------------------------------------------------------

create function internal.new_secret() returns text
language sql volatile set search_path = ''
-- 244 random bits in the alphabet of URLs.
as $$ select rtrim(translate(encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'base64'), '+/', '-_'), '=') $$;

create function internal.digest_of(secret text) returns text
language sql immutable set search_path = ''
as $$ select encode(sha256(convert_to(secret, 'utf8')), 'hex') $$;

-- Who may -----------------------------------------------------------------------------------------------------------------------

create function internal.refuse_key(attempt text) returns void
language plpgsql stable set search_path = ''
as $$
begin
  if internal.key_id() is not null then
    perform internal.fail('OM403', 'key', format('%s: a key may not; sign in to the dashboard, or use the secret key', attempt));
  end if;
end
$$;

create function internal.require_member(attempt text) returns void
language plpgsql stable set search_path = ''
as $$
begin
  perform internal.refuse_key(attempt);
  if current_user = 'authenticated' and not internal.is_member() then
    perform internal.fail('OM403', 'member_id', format('%s: only members may; ask an admin for an invitation', attempt));
  end if;
end
$$;

create function internal.require_admin(attempt text) returns void
language plpgsql stable set search_path = ''
as $$
begin
  perform internal.refuse_key(attempt);
  if current_user = 'authenticated' and not internal.is_admin() then
    perform internal.fail('OM403', 'role', format('%s: only admins may', attempt));
  end if;
end
$$;

create function internal.check_expiry(expires_at timestamptz, longest interval) returns void
language plpgsql stable set search_path = ''
as $$
begin
  if expires_at <= now() then
    perform internal.fail('OM400', 'expires_at', 'expires_at: a time in the future is expected');
  elsif expires_at > now() + longest then
    perform internal.fail('OM400', 'expires_at', format('expires_at: at most %s days from now', extract(day from longest)));
  end if;
end
$$;

-- Keys --------------------------------------------------------------------------------------------------------------------------

create function internal.add_key(name text, expires_at timestamptz, role text, of_member_id uuid) returns jsonb
language plpgsql volatile security definer set search_path = ''
as $$
#variable_conflict use_variable
declare
  max_keys constant integer := 100;
  key constant text := 'omrl_' || internal.new_secret();
  held public.members;
  made public.member_keys;
begin
  -- Locked, so that the member stays, and the limit holds.
  select * into held from public.members m where m.user_id = of_member_id for update;
  if not found then
    perform internal.fail('OM404', 'member_id', format('%s is not a member', coalesce(of_member_id::text, 'nobody')));
  elsif role < held.role then
    perform internal.fail('OM403', 'role', format('role: the member is %s, and a key has no more rights than its member', held.role));
  elsif (select count(*) from public.member_keys k where k.member_id = held.user_id and k.revoked_at is null and coalesce(k.expires_at > now(), true)) >= max_keys then
    perform internal.fail('OM409', 'member_id', format('a member may have %s keys; revoke those that are not used', max_keys));
  end if;
  insert into public.member_keys (member_id, name, prefix, role, expires_at)
  -- What an admin does with a trainer or worker takes no more than an editor, unless asked for.
  values (held.user_id, name, left(key, 12), coalesce(role, greatest(held.role, 'editor')), expires_at) returning * into made;
  insert into internal.key_digests (key_id, digest) values (made.id, internal.digest_of(key));
  return to_jsonb(made) || jsonb_build_object('key', key);
end
$$;

create function public.create_key(name text, expires_at timestamptz default null, role text default null, member_id uuid default null) returns jsonb
language plpgsql volatile set search_path = ''
as $$
#variable_conflict use_variable
begin
  perform internal.require_member('make a key');
  if coalesce(length(btrim(name)), 0) not between 1 and 200 then
    perform internal.fail('OM400', 'name', 'name: say what the key is for, in 1 to 200 characters');
  elsif role not in ('viewer', 'editor', 'admin') then
    perform internal.fail('OM400', 'role', format('role is %s: viewer, editor and admin are possible', left(role, 100)));
  elsif current_user = 'authenticated' and member_id is distinct from auth.uid() and member_id is not null then
    perform internal.fail('OM403', 'member_id', 'a key is made by its member, or with the secret key');
  end if;
  perform internal.check_expiry(expires_at, interval '3660 days');
  return internal.add_key(btrim(name), expires_at, role, coalesce(member_id, auth.uid()));
end
$$;
comment on function public.create_key is 'Make a key that acts as a member, the caller unless the secret key names another. Without a role it has the member''s, and no more than editor. Returns the key''s row and, this once, the key itself as `key`.';

create function internal.end_key(of_key_id uuid, caller uuid, everyones boolean) returns jsonb
language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended public.member_keys;
begin
  update public.member_keys k set revoked_at = coalesce(k.revoked_at, now()) where k.id = of_key_id and (everyones or k.member_id = caller) returning * into ended;
  if not found then
    perform internal.fail('OM404', 'key_id', format('key %s: unknown, or not yours', of_key_id));
  end if;
  return to_jsonb(ended);
end
$$;

create function public.revoke_key(key_id uuid) returns jsonb
language plpgsql volatile set search_path = ''
as $$
#variable_conflict use_variable
begin
  -- A key may end itself, and nothing else.
  if internal.key_id() is distinct from key_id then
    perform internal.require_member('revoke a key');
  end if;
  return internal.end_key(key_id, auth.uid(), current_user = 'service_role' or internal.is_admin());
end
$$;
comment on function public.revoke_key is 'Revoke a key, at once and for good: one''s own, or as an admin anybody''s. Repeated, it changes nothing. Returns its row.';

create function internal.use_key(of_digest text) returns jsonb
language plpgsql volatile security definer set search_path = ''
as $$
-- For the gateway: whose key this is, or what is wrong with it; null if it is unknown.
declare
  found_key public.member_keys;
begin
  select k.* into found_key from internal.key_digests d join public.member_keys k on k.id = d.key_id where d.digest = of_digest;
  if found_key.id is null then
    return null;
  elsif found_key.revoked_at is not null then
    return jsonb_build_object('problem', 'revoked', 'name', found_key.name);
  elsif found_key.expires_at <= now() then
    return jsonb_build_object('problem', 'expired', 'name', found_key.name);
  end if;
  -- Not with every request: that would write as often as the trainer does.
  update public.member_keys k set last_used_at = now() where k.id = found_key.id and coalesce(k.last_used_at < now() - interval '5 minutes', true);
  return jsonb_build_object('key_id', found_key.id, 'user_id', found_key.member_id, 'email', (select u.email from auth.users u where u.id = found_key.member_id));
end
$$;

-- Oneself -----------------------------------------------------------------------------------------------------------------------

create function internal.rename_member(of_user_id uuid, new_name text) returns jsonb
language sql volatile security definer set search_path = ''
as $$ update public.members m set display_name = new_name where m.user_id = of_user_id returning to_jsonb(m) $$;

create function public.set_display_name(display_name text) returns jsonb
language plpgsql volatile set search_path = ''
as $$
begin
  perform internal.require_member('change a name');
  if length(btrim(display_name)) > 200 then
    perform internal.fail('OM400', 'display_name', 'display_name: at most 200 characters');
  end if;
  return internal.rename_member(auth.uid(), nullif(btrim(display_name), ''));
end
$$;
comment on function public.set_display_name is 'Change one''s own name, as others see it. Returns the member.';

-- Everybody ---------------------------------------------------------------------------------------------------------------------

create function internal.account_of(of_user_id uuid) returns jsonb
language sql stable security definer set search_path = ''
as $$ select jsonb_build_object('email', u.email, 'last_sign_in_at', u.last_sign_in_at) from auth.users u where u.id = of_user_id $$;

create function public.list_members() returns jsonb
language sql stable set search_path = ''
as $$
  -- Addresses, sign-ins and keys are for admins and for oneself: null for all others.
  select coalesce(jsonb_agg(to_jsonb(m) || jsonb_build_object('email', a.account ->> 'email', 'last_sign_in_at', a.account -> 'last_sign_in_at',
    'keys', case when a.account is not null then (
      select count(*) from public.member_keys k where k.member_id = m.user_id and k.revoked_at is null and coalesce(k.expires_at > now(), true)) end)
    order by m.created_at, m.user_id), '[]')
  from public.members m left join lateral (
    select internal.account_of(m.user_id) as account
    where m.user_id = (select auth.uid()) or (select internal.is_admin()) or current_user = 'service_role') a on true
$$;
comment on function public.list_members is 'The members; admins see also their e-mail addresses, last sign-ins and the number of their active keys, and everybody their own.';

create function internal.email_of_member(of_user_id uuid) returns text
language sql stable security definer set search_path = ''
as $$ select u.email from auth.users u join public.members m on m.user_id = u.id where u.id = of_user_id $$;

create function public.prepare_sign_in_link(member_id uuid) returns text
language plpgsql volatile set search_path = ''
as $$
#variable_conflict use_variable
declare
  email text;
begin
  perform internal.require_admin('make a sign-in link');
  email := internal.email_of_member(member_id);
  if email is null then
    perform internal.fail('OM404', 'member_id', format('%s is not a member', member_id));
  end if;
  perform internal.note('link.created', 'members', member_id, email);
  return email;
end
$$;
comment on function public.prepare_sign_in_link is 'Note that an admin makes a sign-in link for a member. Returns the address that it is for; Auth makes the link.';

revoke execute on function internal.new_secret, internal.digest_of, internal.refuse_key, internal.require_member, internal.require_admin, internal.check_expiry,
  internal.add_key, internal.end_key, internal.use_key, internal.rename_member, internal.account_of, internal.email_of_member from public;
grant execute on function internal.refuse_key, internal.require_member, internal.require_admin, internal.check_expiry, internal.add_key, internal.end_key,
  internal.rename_member, internal.account_of, internal.email_of_member to authenticated, service_role;
grant execute on function internal.use_key to service_role;
revoke execute on function public.create_key, public.revoke_key, public.set_display_name, public.list_members, public.prepare_sign_in_link from public, anon, authenticated, service_role;
grant execute on function public.create_key, public.revoke_key, public.set_display_name, public.list_members, public.prepare_sign_in_link to authenticated, service_role;
