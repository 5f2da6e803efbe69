/**
 * Sessions: `/auth/v1/token`, and new passwords and addresses at `/auth/v1/user`.
 *
 * Supabase Lite's tokens lack most of what policies read, its refresh tokens work again after their use, and whoever
 * holds a session may give it a new password.
 */
import bcrypt from "bcryptjs";
import { addressIsTaken, readUser, updateUser } from "./admin_users.ts";
import { answered, AuthError, type Body, invalid, json, type Sql } from "./auth_api.ts";
import { clientAddress } from "./client.ts";
import type { GatewayConnection } from "./database.ts";
import { bearer, type Keys } from "./keys.ts";
import { currentUserId } from "./own_user.ts";
import { siteOf } from "./proxies.ts";
import { signInThrottle } from "./throttle.ts";
import { accessToken, EXPIRES_IN_SECONDS, type UserRow } from "./tokens.ts";

const PATH = /^\/auth\/v1\/(token|user)\/?$/;
/** A token that comes again this soon was sent several times; later, somebody else has it too. */
const REPEAT_SECONDS = 10;
/** How long after signing in by a link its holder may choose a password without knowing the old one. */
const FRESH_LINK_MINUTES = 10;
const TOKEN_BYTES = 32;
/** Compared with where there is no account: the time taken must not tell. */
const NOBODYS_PASSWORD = bcrypt.hashSync(randomToken(), 10);

export type Method = "password" | "otp";

const invalidCredentials = () => new AuthError(400, "invalid_credentials", "Invalid login credentials");

/** Whether a request is for these endpoints; one without a key is refused where all the others are. */
export async function isSessionRequest({ method, headers }: Request, pathname: string, keys: Keys): Promise<boolean> {
  const endpoint = PATH.exec(pathname)?.[1];
  const isOurs = (endpoint === "token" && method === "POST") || (endpoint === "user" && method === "PUT");
  return isOurs && (await keys.kindOf(headers.get("apikey") ?? "")) !== null;
}

export async function sessions(
  request: Request,
  connection: GatewayConnection,
  keys: Keys,
): Promise<Response> {
  return await answered(async () => {
    const { pathname, searchParams, origin } = new URL(request.url);
    const body = await json(request);
    if (PATH.exec(pathname)![1] === "user") {
      return Response.json(await updateSelf(request, body, connection.driver, keys));
    }
    switch (searchParams.get("grant_type")) {
      case "password":
        return Response.json({ ...await signIn(connection, keys, origin, body), weak_password: null });
      case "refresh_token":
        return Response.json(await refresh(connection.driver, keys, origin, body.refresh_token));
      default:
        throw new AuthError(400, "invalid_credentials", "unsupported_grant_type");
    }
  });
}

/** Begin a session of a user who has shown who they are, and return it as clients take it. */
export async function openSession(sql: Sql, keys: Keys, origin: string, userId: string, method: Method): Promise<Body> {
  const session = crypto.randomUUID();
  const refreshToken = randomToken();
  await sql.begin(async (transaction) => {
    await transaction`update auth.users set last_sign_in_at = now() where id = ${userId}`;
    await transaction`insert into auth.sessions (id, user_id, aal) values (${session}, ${userId}, 'aal1')`;
    await transaction`
      insert into auth.mfa_amr_claims (id, session_id, authentication_method)
      values (${crypto.randomUUID()}, ${session}, ${method})`;
    await addToken(transaction as unknown as Sql, refreshToken, userId, session, null);
  });
  return await described(sql, keys, origin, userId, session, refreshToken);
}

async function signIn(connection: GatewayConnection, keys: Keys, origin: string, body: Body): Promise<Body> {
  const { email, password } = body;
  const sql = connection.driver;
  if (typeof email !== "string" || !email) throw invalid("missing email or phone");
  if (typeof password !== "string" || email.includes("\0")) throw invalidCredentials();
  const [user] = await sql<{ id: string; encrypted_password: string | null; confirmed: boolean; banned: boolean }[]>`
    select id, encrypted_password, confirmed_at is not null as confirmed, coalesce(banned_until > now(), false) as banned
    from auth.users where email = ${email.toLowerCase()} and not is_sso_user`;
  const isRight = await checkPassword(email.toLowerCase(), password, user?.encrypted_password ?? null);
  if (!user || !isRight) {
    // Also where there is no such account: the time taken must not tell.
    await noteFailure(connection, email.toLowerCase());
    throw invalidCredentials();
  }
  if (user.banned) throw new AuthError(400, "user_banned", "User is banned");
  if (!user.confirmed) throw new AuthError(400, "email_not_confirmed", "Email not confirmed");
  return await openSession(sql, keys, origin, user.id, "password");
}

/** Leave a trace of a wrong password, where there is a log to leave it in. */
async function noteFailure(connection: GatewayConnection, email: string): Promise<void> {
  try {
    await connection.asCaller(
      { role: "service_role" },
      "auth",
      (sql) => sql`select internal.note_failed_sign_in(${email})`,
    );
  } catch (error) {
    const { code } = error as { code?: string };
    // Without the migrations there is no log.
    if (!["42883", "3F000", "42501"].includes(code ?? "")) throw error;
  }
}

/** Compare a password, no more often than the throttle lets it be tried. */
async function checkPassword(account: string, password: string, digest: string | null): Promise<boolean> {
  return await signInThrottle.attempt(account, siteOf(clientAddress()), async () => {
    const isRight = await bcrypt.compare(password, digest || NOBODYS_PASSWORD);
    return isRight && !!digest;
  });
}

interface Refreshed {
  user_id: string;
  session_id: string;
  token: string;
}

/**
 * Exchange a refresh token for a new one. Whoever did not get the answer may ask again: as with GoTrue, the token before
 * the current one gives the current one. Nobody else's does.
 */
async function refresh(sql: Sql, keys: Keys, origin: string, token: unknown): Promise<Body> {
  if (typeof token !== "string" || !token || token.includes("\0")) throw invalid("Refresh token is not valid");
  const given = await sql.begin((transaction) => exchange(transaction as unknown as Sql, token));
  if (!given) throw await refusal(sql, token);
  return await described(sql, keys, origin, given.user_id, given.session_id, given.token);
}

async function exchange(sql: Sql, token: string): Promise<Refreshed | null> {
  const [used] = await sql<Refreshed[]>`
    update auth.refresh_tokens set revoked = true, updated_at = now()
    where token = ${token} and not revoked and session_id is not null returning user_id, session_id, token`;
  const [known] = used ? [used] : await sql<Refreshed[]>`
    select user_id, session_id, token from auth.refresh_tokens
    where parent = ${token} and not revoked and session_id is not null`;
  if (!known) return null;
  const [{ banned }] = await sql`
    select coalesce(banned_until > now(), false) as banned from auth.users where id = ${known.user_id}`;
  if (banned) throw new AuthError(400, "user_banned", "User is banned");
  if (!used) return known;
  const next = randomToken();
  await addToken(sql, next, used.user_id, used.session_id, token);
  await sql`update auth.sessions set refreshed_at = now(), updated_at = now() where id = ${used.session_id}`;
  return { ...used, token: next };
}

/** Say what is wrong with a refresh token; one that somebody used long ago ends its whole session. */
async function refusal(sql: Sql, token: string): Promise<AuthError> {
  const [used] = await sql<{ session_id: string | null; is_old: boolean }[]>`
    select session_id, updated_at < now() - make_interval(secs => ${REPEAT_SECONDS}) as is_old
    from auth.refresh_tokens where token = ${token}`;
  if (!used) return new AuthError(400, "refresh_token_not_found", "Invalid Refresh Token: Refresh Token Not Found");
  if (used.session_id && used.is_old) await sql`delete from auth.sessions where id = ${used.session_id}`;
  return new AuthError(400, "refresh_token_already_used", "Invalid Refresh Token: Already Used");
}

/** Change a user's own data; a new password or address takes the password, or a session that a link has just begun. */
async function updateSelf(request: Request, body: Body, sql: Sql, keys: Keys): Promise<Body> {
  const { current_password, password, data } = body;
  const email = body.email || undefined;
  const userId = await currentUserId(request, sql, keys);
  const changes: Body = { email, password, user_metadata: data };
  if (email === undefined && password === undefined) return await updateUser(sql, userId, changes);
  const session = await mayChoosePassword(request, sql, keys, current_password);
  if (typeof password === "string" && await bcrypt.compare(password, session.encrypted_password || NOBODYS_PASSWORD)) {
    throw new AuthError(422, "same_password", "New password should be different from the old password.");
  }
  // Whoever else holds a session may be the reason for the new password.
  return await updateUser(sql, userId, changes, session.id).catch(addressIsTaken);
}

async function mayChoosePassword(request: Request, sql: Sql, keys: Keys, currentPassword: unknown) {
  const claims = await keys.verify(bearer(request.headers) ?? "");
  const [session] = await sql<{ id: string; user_id: string; encrypted_password: string | null; is_fresh: boolean }[]>`
    select s.id, s.user_id, u.encrypted_password, exists (
      select from auth.mfa_amr_claims m where m.session_id = s.id and m.authentication_method = 'otp'
        and m.created_at > now() - make_interval(mins => ${FRESH_LINK_MINUTES})) as is_fresh
    from auth.sessions s join auth.users u on u.id = s.user_id
    where s.id::text = ${String(claims?.session_id ?? "")} and s.user_id::text = ${String(claims?.sub ?? "")}`;
  if (!session) throw new AuthError(401, "no_authorization", "This endpoint requires a valid Bearer token");
  if (session.is_fresh) return session;
  if (typeof currentPassword !== "string" || !currentPassword) {
    const message = "This requires the current password (current_password) or a fresh sign-in link";
    throw new AuthError(400, "reauthentication_needed", message);
  }
  if (!await checkPassword(session.user_id, currentPassword, session.encrypted_password)) throw invalidCredentials();
  return session;
}

async function addToken(sql: Sql, token: string, userId: string, session: string, parent: string | null) {
  await sql`
    insert into auth.refresh_tokens (id, token, user_id, session_id, parent)
    values (${crypto.randomUUID()}, ${token}, ${userId}, ${session}, ${parent})`;
}

async function described(sql: Sql, keys: Keys, origin: string, userId: string, session: string, refreshToken: string) {
  const [row] = await sql<UserRow[]>`select * from auth.users where id = ${userId}`;
  const { token, expiresAt } = await accessToken(sql, keys, origin, row, session);
  return {
    access_token: token,
    token_type: "bearer",
    expires_in: EXPIRES_IN_SECONDS,
    expires_at: expiresAt,
    refresh_token: refreshToken,
    user: await readUser(sql, userId),
  };
}

function randomToken(): string {
  return crypto.getRandomValues(new Uint8Array(TOKEN_BYTES)).toBase64({ alphabet: "base64url", omitPadding: true });
}
