/** `GET /auth/v1/user`: who a token belongs to, and whether it still does. */
import { readUser } from "./admin_users.ts";
import { answered, AuthError, type Sql } from "./auth_api.ts";
import { bearer, type Keys } from "./keys.ts";

const PATH = /^\/auth\/v1\/user\/?$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Whether a request is for this endpoint; one without a key is refused where all the others are. */
export async function asksForOwnUser({ method, headers }: Request, pathname: string, keys: Keys): Promise<boolean> {
  return method === "GET" && PATH.test(pathname) && (await keys.kindOf(headers.get("apikey") ?? "")) !== null;
}

export async function ownUser(request: Request, sql: Sql, keys: Keys): Promise<Response> {
  return await answered(async () => Response.json(await readUser(sql, await currentUserId(request, sql, keys))));
}

/** Whose token it is; one that does not hold any more is refused. */
export async function currentUserId(request: Request, sql: Sql, keys: Keys): Promise<string> {
  const token = bearer(request.headers);
  if (!token) throw new AuthError(401, "no_authorization", "This endpoint requires a valid Bearer token");
  const claims = await keys.verify(token);
  if (!claims) throw badToken("invalid JWT: unable to parse or verify signature");
  const { sub, session_id } = claims as { sub?: string; session_id?: string };
  if (!sub) throw badToken("invalid claim: missing sub claim");
  if (!UUID.test(sub) || (session_id && !UUID.test(session_id))) throw badToken("invalid claim: must be a UUID");
  const [found] = await sql<{ is_banned: boolean; has_session: boolean }[]>`
    select coalesce(banned_until > now(), false) as is_banned,
      exists (select from auth.sessions s where s.user_id = u.id and s.id::text = ${session_id ?? ""}) as has_session
    from auth.users u where id = ${sub}`;
  if (!found) throw new AuthError(403, "user_not_found", "User from sub claim in JWT does not exist");
  if (session_id && !found.has_session) {
    throw new AuthError(403, "session_not_found", "Session from session_id claim in JWT does not exist");
  }
  if (found.is_banned) throw new AuthError(403, "user_banned", "User is banned");
  return sub;
}

const badToken = (message: string) => new AuthError(403, "bad_jwt", message);
