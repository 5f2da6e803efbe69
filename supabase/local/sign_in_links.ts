/**
 * Signing in with a link: `/auth/v1/admin/generate_link` and `/auth/v1/verify`, in GoTrue's shapes.
 *
 * Supabase Lite keeps one token a user, in clear, and lets six digits stand for it. Here any number of links are valid at
 * once, each for one use, and nothing shorter than a link signs in.
 */
import { createUser, readUser } from "./admin_users.ts";
import { answered, AuthError, type Body, checkEmail, invalid, json, requireSecretKey, type Sql } from "./auth_api.ts";
import type { GatewayConnection } from "./database.ts";
import { isLoopback } from "./hosts.ts";
import type { Keys } from "./keys.ts";
import { openSession } from "./sessions.ts";

const PATH = /^\/auth\/v1\/(admin\/generate_link|verify|otp|magiclink|recover|resend)\/?$/;
const TOKEN_BYTES = 32;
const VALID_HOURS = 24;
/** The links that are made, and what a client may call each when it redeems it. */
const REDEEMED_AS: Record<string, string[]> = {
  magiclink: ["magiclink", "recovery", "email", "signup"],
  recovery: ["recovery", "magiclink", "email"],
  invite: ["invite", "signup", "email"],
};

type OpenSession = (userId: string) => Promise<Body>;

/** Whether a request is for these endpoints. */
export function isSignInLinkPath(pathname: string): boolean {
  return PATH.test(pathname);
}

export async function signInLinks(
  request: Request,
  connection: GatewayConnection,
  keys: Keys,
): Promise<Response> {
  return await answered(async () => {
    const endpoint = PATH.exec(new URL(request.url).pathname)![1];
    if (endpoint === "admin/generate_link") {
      requireMethod(request, "POST");
      await requireSecretKey(request, keys);
      return await generateLink(request, connection.driver);
    }
    if (endpoint === "verify") {
      // As on hosted projects no key is asked for: the link itself is the proof.
      const { origin } = new URL(request.url);
      const open: OpenSession = (userId) => openSession(connection.driver, keys, origin, userId, "otp");
      if (request.method === "GET") return await followLink(request, connection.driver, open);
      requireMethod(request, "POST");
      const { type, token_hash, token } = await json(request);
      // A code of six digits: none is ever made, so none is right.
      if (token && !token_hash) throw new AuthError(403, "otp_expired", "Token has expired or is invalid");
      return Response.json(await signIn(connection.driver, open, type, token_hash));
    }
    const message = "No e-mail is sent from here; `openmanus-rl dashboard` prints a sign-in link";
    throw new AuthError(422, "email_provider_disabled", message);
  });
}

async function generateLink(request: Request, sql: Sql): Promise<Response> {
  const url = new URL(request.url);
  const body = await json(request);
  const kind = String(body.type);
  if (!Object.hasOwn(REDEEMED_AS, kind)) {
    throw invalid(`Only links of the types ${Object.keys(REDEEMED_AS).join(", ")} are made here`);
  }
  const user = await userOfLink(sql, kind, checkEmail(body.email), body.data);
  const token = randomToken();
  await sql`delete from auth.sign_in_links where expires_at < now()`;
  await sql`
    insert into auth.sign_in_links (token_digest, user_id, kind, expires_at)
    values (${await digest(token)}, ${String(user.id)}, ${kind}, now() + make_interval(hours => ${VALID_HOURS}))`;
  const redirectTo = String(body.redirect_to ?? url.searchParams.get("redirect_to") ?? `${url.origin}/`);
  const query = new URLSearchParams({ token, type: kind, redirect_to: redirectTo });
  return Response.json({
    ...user,
    action_link: `${url.origin}/auth/v1/verify?${query}`,
    email_otp: "",
    hashed_token: token,
    redirect_to: redirectTo,
    verification_type: kind,
  });
}

/** As GoTrue does, make an account for an address that has none: only the secret key gets here. */
async function userOfLink(sql: Sql, kind: string, email: string, data: unknown): Promise<Body> {
  const find = () =>
    sql<{ id: string; confirmed: boolean }[]>`
      select id, email_confirmed_at is not null as confirmed from auth.users where email = ${email} and not is_sso_user`;
  let [found] = await find();
  if (kind === "recovery" && !found) throw new AuthError(404, "user_not_found", "User with this email not found");
  if (kind === "invite" && found?.confirmed) {
    throw new AuthError(422, "email_exists", "A user with this email address has already been registered");
  }
  if (!found) {
    try {
      return await createUser(sql, { email, email_confirm: kind !== "invite", user_metadata: data });
    } catch (error) {
      if ((error as { code?: string }).code !== "23505") throw error;
      [found] = await find(); // another request made it in the meantime
    }
  }
  return await readUser(sql, found.id);
}

/** Give a session for a link, once. */
async function signIn(sql: Sql, open: OpenSession, type: unknown, token: unknown): Promise<Body> {
  if (typeof type !== "string" || !type) throw invalid("Verify requires a verification type");
  if (typeof token !== "string" || !token) throw invalid("Verify requires a token hash");
  const userId = await redeem(sql, type, token);
  // One answer for every kind of wrong link: it tells nothing about who has an account.
  if (!userId) throw new AuthError(403, "otp_expired", "Email link is invalid or has expired");
  return await open(userId);
}

/** Use a link up and return whom it signs in, or null. */
async function redeem(sql: Sql, type: string, token: string): Promise<string | null> {
  const kinds = Object.keys(REDEEMED_AS).filter((kind) => REDEEMED_AS[kind].includes(type));
  const tokenDigest = await digest(token);
  return await sql.begin(async (transaction) => {
    const [link] = await transaction<{ user_id: string }[]>`
      delete from auth.sign_in_links
      where token_digest = ${tokenDigest} and expires_at > now() and kind = any(${kinds}) returning user_id`;
    if (!link) return null;
    const [user] = await transaction<{ id: string }[]>`
      update auth.users set email_confirmed_at = coalesce(email_confirmed_at, now())
      where id = ${link.user_id} and coalesce(banned_until <= now(), true) returning id`;
    return user?.id ?? null;
  });
}

/** Follow an action link in a browser: to the page that it names, with the session in the fragment. */
async function followLink(request: Request, sql: Sql, open: OpenSession): Promise<Response> {
  const { origin, searchParams } = new URL(request.url);
  const target = new URL(searchParams.get("redirect_to") || "/", origin);
  if (target.origin !== origin && !isLoopback(target.hostname)) {
    throw invalid("redirect_to must be a page of this server, or of one's own machine");
  }
  const session = await signIn(sql, open, searchParams.get("type"), searchParams.get("token"));
  const names = ["access_token", "refresh_token", "expires_in", "expires_at", "token_type"];
  target.hash = new URLSearchParams([...names.map((name) => [name, String(session[name])]), [
    "type",
    String(searchParams.get("type")),
  ]])
    .toString();
  return new Response(null, { status: 303, headers: { Location: target.href, "Cache-Control": "no-store" } });
}

function requireMethod(request: Request, method: string): void {
  if (request.method !== method) {
    throw new AuthError(405, "method_not_allowed", `${request.method} is not supported here`);
  }
}

function randomToken(): string {
  return crypto.getRandomValues(new Uint8Array(TOKEN_BYTES)).toBase64({ alphabet: "base64url", omitPadding: true });
}

async function digest(token: string): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token));
  return new Uint8Array(bytes).toHex();
}
