/** `/auth/v1/admin/users`: GoTrue's administration of users, which Supabase Lite lacks. Takes the secret key only. */
import bcrypt from "bcryptjs";
import { answered, AuthError, type Body, checkEmail, invalid, json, requireSecretKey, type Sql } from "./auth_api.ts";
import type { GatewayConnection } from "./database.ts";
import type { Keys } from "./keys.ts";

const PATH = /^\/auth\/v1\/admin\/users(?:\/([^/]+))?\/?$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const MIN_PASSWORD_LENGTH = 6;
/** bcrypt looks at no more bytes than this. */
const MAX_PASSWORD_BYTES = 72;
const DEFAULT_PER_PAGE = 50;
const MAX_PER_PAGE = 1000;

const userNotFound = () => new AuthError(404, "user_not_found", "User not found");

interface UserRow {
  id: string;
  email: string | null;
  [column: string]: unknown;
}

/** Whether a request is for these endpoints. */
export function isAdminUsersPath(pathname: string): boolean {
  return PATH.test(pathname);
}

export async function adminUsers(request: Request, connection: GatewayConnection, keys: Keys): Promise<Response> {
  return await answered(async () => {
    await requireSecretKey(request, keys);
    const url = new URL(request.url);
    const id = PATH.exec(url.pathname)![1];
    if (id !== undefined && !UUID.test(id)) throw new AuthError(404, "validation_failed", "user_id must be an UUID");
    try {
      return await route(request, connection.driver, url, id);
    } catch (error) {
      if ((error as { code?: string }).code !== "23505") throw error;
      throw new AuthError(422, "email_exists", "A user with this email address has already been registered");
    }
  });
}

async function route(request: Request, sql: Sql, url: URL, id: string | undefined): Promise<Response> {
  if (id === undefined) {
    if (request.method === "GET") return await listUsers(sql, url);
    if (request.method === "POST") return Response.json(await createUser(sql, await json(request)));
  } else {
    if (request.method === "GET") return Response.json(await readUser(sql, id));
    if (request.method === "PUT") return Response.json(await updateUser(sql, id, await json(request)));
    if (request.method === "DELETE") return await deleteUser(sql, id);
  }
  throw new AuthError(405, "method_not_allowed", `${request.method} is not supported here`);
}

async function listUsers(sql: Sql, url: URL): Promise<Response> {
  const query = url.searchParams;
  const page = Math.max(1, Number(query.get("page")) || 1);
  const perPage = Math.min(MAX_PER_PAGE, Math.max(1, Number(query.get("per_page")) || DEFAULT_PER_PAGE));
  const [{ total }] = await sql`select count(*)::int as total from auth.users`;
  const rows = await sql<UserRow[]>`
    select * from auth.users order by created_at desc, id limit ${perPage} offset ${(page - 1) * perPage}`;
  const users = await withIdentities(sql, rows);
  const headers = { "X-Total-Count": String(total), Link: links(url, page, perPage, total) };
  return Response.json({ users, aud: "authenticated" }, { headers });
}

/** Where the next and the last page are, as GoTrue writes it: clients read the page numbers out of it. */
function links(url: URL, page: number, perPage: number, total: number): string {
  const last = Math.max(1, Math.ceil(total / perPage));
  const link = (to: number, rel: string) => `<${url.pathname}?page=${to}&per_page=${perPage}>; rel="${rel}"`;
  return [...(page < last ? [link(page + 1, "next")] : []), link(last, "last")].join(", ");
}

export async function readUser(sql: Sql, id: string): Promise<Body> {
  const rows = await sql<UserRow[]>`select * from auth.users where id = ${id}`;
  if (rows.length === 0) throw userNotFound();
  return (await withIdentities(sql, rows))[0];
}

export async function createUser(sql: Sql, body: Body): Promise<Body> {
  const id = typeof body.id === "string" && UUID.test(body.id) ? body.id : crypto.randomUUID();
  const email = checkEmail(body.email);
  const password = await hash(body.password ?? crypto.randomUUID() + crypto.randomUUID());
  const confirmed = body.email_confirm === true ? new Date().toISOString() : null;
  const appMetadata = { provider: "email", providers: ["email"], ...metadata(body.app_metadata, "app_metadata") };
  const userMetadata = { ...metadata(body.user_metadata, "user_metadata"), email_verified: true };
  await sql.begin(async (transaction) => {
    await transaction`
      insert into auth.users (id, email, encrypted_password, email_confirmed_at, role, raw_app_meta_data, raw_user_meta_data)
      values (${id}, ${email}, ${password}, ${confirmed}, ${String(body.role ?? "authenticated")},
        ${sql.json(appMetadata as never)}, ${sql.json(userMetadata as never)})`;
    const identity = { sub: id, email, email_verified: false, phone_verified: false };
    await transaction`
      insert into auth.identities (id, provider, provider_id, user_id, identity_data)
      values (${crypto.randomUUID()}, 'email', ${id}, ${id}, ${sql.json(identity)})`;
  });
  return await readUser(sql, id);
}

async function updateUser(sql: Sql, id: string, body: Body): Promise<Body> {
  const current = await readUser(sql, id);
  const changes: Body = { updated_at: new Date().toISOString() };
  if (body.email !== undefined) changes.email = checkEmail(body.email);
  if (body.password !== undefined) changes.encrypted_password = await hash(body.password);
  if (body.email_confirm === true) changes.email_confirmed_at = new Date().toISOString();
  if (body.role !== undefined) changes.role = String(body.role);
  for (const [given, column] of [["app_metadata", "raw_app_meta_data"], ["user_metadata", "raw_user_meta_data"]]) {
    if (body[given] === undefined) continue;
    changes[column] = sql.json({ ...(current[given] as Body), ...metadata(body[given], given) } as never);
  }
  await sql.begin(async (transaction) => {
    await transaction`update auth.users set ${sql(changes)} where id = ${id}`;
    // As in GoTrue, a new password ends what was opened with the old one.
    if (changes.encrypted_password !== undefined) await transaction`delete from auth.sessions where user_id = ${id}`;
    if (changes.email !== undefined) {
      await transaction`
        update auth.identities set identity_data = identity_data || ${sql.json({ email: String(changes.email) })}
        where user_id = ${id} and provider = 'email'`;
    }
  });
  return await readUser(sql, id);
}

async function deleteUser(sql: Sql, id: string): Promise<Response> {
  const deleted = await sql.begin(async (transaction) => {
    await transaction`delete from auth.refresh_tokens where user_id = ${id}`;
    return await transaction`delete from auth.users where id = ${id}`;
  });
  if (deleted.count === 0) throw userNotFound();
  return Response.json({});
}

async function withIdentities(sql: Sql, rows: readonly UserRow[]): Promise<Body[]> {
  const ids = rows.map((row) => row.id);
  const identities = await sql`select * from auth.identities where user_id = any(${ids}::uuid[]) order by created_at`;
  return rows.map((row) => ({
    id: row.id,
    aud: row.aud ?? "authenticated",
    role: row.role ?? "authenticated",
    email: row.email ?? "",
    phone: row.phone ?? "",
    email_confirmed_at: row.email_confirmed_at ?? undefined,
    confirmed_at: row.confirmed_at ?? undefined,
    last_sign_in_at: row.last_sign_in_at ?? undefined,
    banned_until: row.banned_until ?? undefined,
    app_metadata: row.raw_app_meta_data ?? {},
    user_metadata: row.raw_user_meta_data ?? {},
    identities: identities.filter((identity) => identity.user_id === row.id).map((identity) => ({
      identity_id: identity.id,
      id: identity.provider_id,
      user_id: identity.user_id,
      identity_data: identity.identity_data,
      provider: identity.provider,
      last_sign_in_at: identity.last_sign_in_at ?? identity.created_at,
      created_at: identity.created_at,
      updated_at: identity.updated_at,
      email: identity.email,
    })),
    created_at: row.created_at,
    updated_at: row.updated_at,
    is_anonymous: row.is_anonymous ?? false,
  }));
}

async function hash(password: unknown): Promise<string> {
  if (typeof password !== "string" || password.length < MIN_PASSWORD_LENGTH) {
    const message = `Password should be at least ${MIN_PASSWORD_LENGTH} characters.`;
    throw new AuthError(422, "weak_password", message, { weak_password: { reasons: ["length"] } });
  }
  if (new TextEncoder().encode(password).length > MAX_PASSWORD_BYTES) {
    throw invalid(`Password cannot be longer than ${MAX_PASSWORD_BYTES} characters`);
  }
  return await bcrypt.hash(password, 10);
}

function metadata(value: unknown, name: string): Body {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) throw invalid(`${name} must be an object`);
  return value as Body;
}
