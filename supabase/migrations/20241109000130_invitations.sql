-- Invitations: a link lets a person make an account, and makes it a member.

create table public.invitations (
  id uuid primary key default internal.new_id(),
  email text not null check (email ~ '^[^[:space:][:cntrl:]@]+@[^[:space:][:cntrl:]@]+$' and length(email) <= 254),
  role text not null check (role in ('viewer', 'editor', 'admin')),
  invited_by uuid default auth.uid() references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  accepted_by uuid references auth.users (id) on delete set null,
  revoked_at timestamptz
);
comment on table public.invitations is 'Invitations to the workspace. Of the link only a digest is kept, apart. It works once, until `expires_at`, unless it was revoked or replaced by another.';
create unique index invitations_by_inviter on public.invitations (invited_by, id);
create unique index invitations_by_member on public.invitations (accepted_by, id);
create unique index invitations_of_an_address on public.invitations (email, id);

alter table public.invitations enable row level security;
revoke all on table public.invitations from public, anon, authenticated, service_role;
grant select on table public.invitations to authenticated, service_role;
create policy "admins read invitations" on public.invitations
  for select to authenticated using ((select internal.is_admin()));

create table internal.invitation_digests (
  invitation_id uuid primary key references public.invitations (id) on delete cascade,
  digest text not null unique
);
comment on table internal.invitation_digests is 'SHA-256 of the token of each invitation. Apart from the invitations, so that no role of the API can read it.';

-- Inviting ----------------------------------------------------------------------------------------------------------------------

create function internal.clean_email(email text) returns text
language plpgsql immutable set search_path = ''
as $$
declare
  clean constant text := lower(normalize(btrim(email, E' \t\r\n'), nfc));
begin
  if clean is null or clean !~ '^[^[:space:][:cntrl:]@]+@[^[:space:][:cntrl:]@]+$' or length(clean) > 254 then
    perform internal.fail('OM400', 'email', format('email: %s is not an e-mail address', coalesce(quote_literal(left(email, 100)), 'null')));
  end if;
  return clean;
end
$$;

create function internal.add_invitation(clean_email text, role text, expires_at timestamptz, inviter uuid) returns jsonb
language plpgsql volatile security definer set search_path = ''
as $$
#variable_conflict use_variable
declare
  token constant text := internal.new_secret();
  made public.invitations;
begin
  perform pg_advisory_xact_lock(hashtextextended('openmanus-rl invitation ' || clean_email, 0));
  if exists (select 1 from public.members m join auth.users u on u.id = m.user_id where lower(u.email) = clean_email) then
    perform internal.fail('OM409', 'email', format('%s is a member already', clean_email));
  end if;
  update public.invitations i set revoked_at = now() where i.email = clean_email and i.accepted_at is null and i.revoked_at is null;
  insert into public.invitations (email, role, invited_by, expires_at) values (clean_email, role, inviter, expires_at) returning * into made;
  insert into internal.invitation_digests (invitation_id, digest) values (made.id, internal.digest_of(token));
  perform internal.note('invitation.created', 'invitations', made.id, clean_email, jsonb_build_object('role', role, 'expires_at', expires_at));
  return to_jsonb(made) || jsonb_build_object('token', token);
end
$$;

create function public.invite_member(email text, role text default 'viewer', expires_at timestamptz default null) returns jsonb
language plpgsql volatile set search_path = ''
as $$
#variable_conflict use_variable
begin
  perform internal.require_admin('invite a member');
  if role is null or role not in ('viewer', 'editor', 'admin') then
    perform internal.fail('OM400', 'role', format('role is %s: viewer, editor and admin are possible', coalesce(left(role, 100), 'null')));
  end if;
  perform internal.check_expiry(expires_at, interval '90 days');
  return internal.add_invitation(internal.clean_email(email), role, coalesce(expires_at, now() + interval '7 days'), auth.uid());
end
$$;
comment on function public.invite_member is 'Invite somebody by e-mail address; an open invitation of the address is replaced. It lasts seven days unless told, at most 90. Returns the invitation and, this once, its `token`: the link is /invitation#token=… of the dashboard.';

create function internal.end_invitation(of_invitation_id uuid) returns jsonb
language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended public.invitations;
begin
  select * into ended from public.invitations i where i.id = of_invitation_id for update;
  if not found then
    perform internal.fail('OM404', 'invitation_id', format('invitation %s: unknown id', of_invitation_id));
  elsif ended.accepted_at is not null then
    perform internal.fail('OM409', 'invitation_id', format('%s has accepted the invitation; remove the member instead', ended.email));
  elsif ended.revoked_at is null then
    update public.invitations i set revoked_at = now() where i.id = of_invitation_id returning * into ended;
    perform internal.note('invitation.revoked', 'invitations', ended.id, ended.email);
  end if;
  return to_jsonb(ended);
end
$$;

create function public.revoke_invitation(invitation_id uuid) returns jsonb
language plpgsql volatile set search_path = ''
as $$
begin
  perform internal.require_admin('revoke an invitation');
  return internal.end_invitation(invitation_id);
end
$$;
comment on function public.revoke_invitation is 'Revoke an invitation that was not accepted; its link works no more. Returns its row.';

-- Accepting ---------------------------------------------------------------------------------------------------------------------

create function internal.state_of(invitation public.invitations) returns text
language sql stable set search_path = ''
as $$
  select case when invitation.id is null then 'unknown' when invitation.accepted_at is not null then 'used' when invitation.revoked_at is not null then 'revoked'
    when invitation.expires_at <= now() then 'expired' else 'open' end
$$;

create function internal.invitation_of(token text) returns public.invitations
language sql stable security definer set search_path = ''
as $$
  select i.* from public.invitations i join internal.invitation_digests d on d.invitation_id = i.id where d.digest = internal.digest_of(token)
$$;

create function internal.has_account(of_email text) returns boolean
language sql stable security definer set search_path = ''
as $$ select exists (select 1 from auth.users u where lower(u.email) = of_email) $$;

create function internal.problem_with(state text) returns text
language sql immutable set search_path = ''
as $$
  select case state when 'open' then null when 'used' then 'this invitation was used already; sign in instead'
    when 'revoked' then 'this invitation was revoked or replaced; ask an admin for a new one'
    when 'expired' then 'this invitation has expired; ask an admin for a new one'
    else 'there is no such invitation; the link may be incomplete' end
$$;

create function public.find_invitation(token text) returns jsonb
language plpgsql stable set search_path = ''
as $$
declare
  found_one constant public.invitations := internal.invitation_of(token);
  state constant text := internal.state_of(found_one);
begin
  -- Of one that is not open nothing is told but that: its holder may be anybody.
  if state <> 'open' then
    return jsonb_build_object('state', state, 'problem', internal.problem_with(state), 'email', null, 'role', null, 'expires_at', null, 'has_account', null);
  end if;
  return jsonb_build_object('state', state, 'problem', null, 'email', found_one.email, 'role', found_one.role, 'expires_at', found_one.expires_at,
    'has_account', internal.has_account(found_one.email));
end
$$;
comment on function public.find_invitation is 'What the holder of an invitation''s token is invited to. `state` is open, used, revoked, expired or unknown, and `problem` says so in a sentence; the rest is null unless it is open.';

create function internal.refuse_invitation(state text) returns void
language plpgsql stable set search_path = ''
as $$
begin
  if state <> 'open' then
    perform internal.fail('OM409', 'token', internal.problem_with(state));
  end if;
end
$$;

create function internal.accept(of_invitation_id uuid, of_user_id uuid, new_name text) returns jsonb
language plpgsql volatile security definer set search_path = ''
as $$
declare
  accepted public.invitations;
  member public.members;
begin
  select * into accepted from public.invitations i where i.id = of_invitation_id for update;
  perform internal.refuse_invitation(internal.state_of(accepted));
  if not exists (select 1 from auth.users u where u.id = of_user_id and lower(u.email) = accepted.email) then
    perform internal.fail('OM403', 'user_id', 'the invitation is for another e-mail address');
  elsif exists (select 1 from public.members m where m.user_id = of_user_id) then
    perform internal.fail('OM409', 'user_id', format('%s is a member already', accepted.email));
  end if;
  perform set_config('openmanus_rl.acting', of_user_id::text, true);
  insert into public.members (user_id, role, display_name) values (of_user_id, accepted.role, new_name) returning * into member;
  update public.invitations i set accepted_at = now(), accepted_by = of_user_id where i.id = of_invitation_id;
  perform internal.note('invitation.accepted', 'invitations', accepted.id, accepted.email, jsonb_build_object('role', accepted.role));
  perform set_config('openmanus_rl.acting', '', true);
  return to_jsonb(member);
end
$$;

create function public.redeem_invitation(token text, user_id uuid, display_name text default null) returns jsonb
language plpgsql volatile set search_path = ''
as $$
declare
  found_one constant public.invitations := internal.invitation_of(token);
begin
  perform internal.refuse_invitation(internal.state_of(found_one));
  return internal.accept(found_one.id, user_id, nullif(btrim(left(display_name, 200)), ''));
end
$$;
comment on function public.redeem_invitation is 'Make an account a member by its invitation. For the function accept-invitation, which has checked that the account is its caller''s. Returns the member.';

revoke execute on function internal.clean_email, internal.add_invitation, internal.end_invitation, internal.state_of, internal.invitation_of, internal.has_account,
  internal.problem_with, internal.refuse_invitation, internal.accept from public;
grant execute on function internal.clean_email, internal.add_invitation, internal.end_invitation to authenticated, service_role;
grant execute on function internal.state_of, internal.invitation_of, internal.has_account, internal.problem_with, internal.refuse_invitation to anon, authenticated, service_role;
grant execute on function internal.accept to service_role;
revoke execute on function public.invite_member, public.revoke_invitation, public.find_invitation, public.redeem_invitation
  from public, anon, authenticated, service_role;
grant execute on function public.invite_member, public.revoke_invitation to authenticated, service_role;
grant execute on function public.find_invitation to anon, authenticated, service_role;
grant execute on function public.redeem_invitation to service_role;
