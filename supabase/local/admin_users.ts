/** `/auth/v1/admin/users`: GoTrue's administration of users, which Supabase Lite lacks. Takes the secret key only. */
import bcrypt from "bcryptjs";
import { findUnstorable } from "../functions/_shared/storable.ts";
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

const DURATION = /^\+?((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+$/;
const UNITS_MS: Record<string, number> = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5 };
/** As long as Go's longest duration. */
const MAX_BAN_MS = 2562047 * 36e5;
const BCRYPT = /^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/;
const OPTIONAL_MOMENTS = [
  "email_confirmed_at",
  "invited_at",
  "phone_confirmed_at",
  "confirmation_sent_at",
  "confirmed_at",
  "recovery_sent_at",
  "email_change_sent_at",
  "last_sign_in_at",
  "banned_until",
  "deleted_at",
];

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
    return await route(request, connection.driver, url, id).catch(addressIsTaken);
  });
}

/** Say so, where an error is that. */
export function addressIsTaken(error: unknown): never {
  if ((error as { code?: string }).code !== "23505") throw error;
  throw new AuthError(422, "email_exists", "A user with this email address has already been registered");
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
  const page = Math.max(1, count(query.get("page")) ?? 1);
  const perPage = Math.min(MAX_PER_PAGE, Math.max(1, count(query.get("per_page")) ?? DEFAULT_PER_PAGE));
  const [{ total }] = await sql`select count(*)::int as total from auth.users`;
  const rows = await sql<UserRow[]>`
    select * from auth.users order by created_at desc, id limit ${perPage} offset ${(page - 1) * perPage}`;
  const users = await withIdentities(sql, rows);
  const headers = { "X-Total-Count": String(total), Link: links(url, page, perPage, total) };
  return Response.json({ users, aud: "authenticated" }, { headers });
}

/** A number of a page, or null where none is given; GoTrue refuses what is no number of the kind. */
function count(text: string | null): number | null {
  if (!text) return null;
  if (!/^\d{1,12}$/.test(text)) throw invalid("Bad Pagination Parameters: not a positive number");
  return Number(text);
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
  if (!body.email) throw invalid("Cannot create a user without either an email or phone");
  const email = checkEmail(body.email);
  const id = checkId(body.id || crypto.randomUUID());
  const password = await passwordDigest(body);
  const isConfirmed = body.email_confirm === true;
  const appMetadata = { provider: "email", providers: ["email"], ...metadata(body.app_metadata, "app_metadata") };
  const userMetadata = {
    ...metadata(body.user_metadata, "user_metadata"),
    ...(isConfirmed ? { email_verified: true } : {}),
  };
  await sql.begin(async (transaction) => {
    await transaction`
      insert into auth.users (id, email, encrypted_password, email_confirmed_at, role, raw_app_meta_data, raw_user_meta_data,
        banned_until)
      values (${id}, ${email}, ${password}, ${isConfirmed ? transaction`now()` : null},
        ${String(body.role || "authenticated")}, ${sql.json(appMetadata as never)}, ${sql.json(userMetadata as never)},
        ${bannedUntil(body.ban_duration) ?? null})`;
    const identity = { sub: id, email, email_verified: false, phone_verified: false };
    await transaction`
      insert into auth.identities (id, provider, provider_id, user_id, identity_data)
      values (${crypto.randomUUID()}, 'email', ${id}, ${id}, ${sql.json(identity)})`;
  });
  return await readUser(sql, id);
}

/** Change what is named of a user: all of it or nothing. A new password ends every session but the one to keep. */
export async function updateUser(sql: Sql, id: string, body: Body, keptSession = ""): Promise<Body> {
  const current = await readUser(sql, id);
  const changes: Body = { updated_at: new Date().toISOString() };
  const email = body.email === undefined ? null : checkEmail(body.email);
  if (body.password !== undefined) changes.encrypted_password = await hash(body.password);
  const isConfirmed = body.email_confirm === true;
  if (isConfirmed) changes.email_confirmed_at = new Date().toISOString();
  if (body.role !== undefined) changes.role = String(body.role);
  if (body.ban_duration) changes.banned_until = bannedUntil(body.ban_duration);
  if (body.app_metadata !== undefined) {
    const changed = merged(current.app_metadata as Body, metadata(body.app_metadata, "app_metadata"));
    changes.raw_app_meta_data = sql.json(changed as never);
  }
  if (body.user_metadata !== undefined || isConfirmed) {
    const confirmed = { ...current.user_metadata as Body, ...(isConfirmed ? { email_verified: true } : {}) };
    changes.raw_user_meta_data = sql.json(merged(confirmed, metadata(body.user_metadata, "user_metadata")) as never);
  }
  await sql.begin(async (transaction) => {
    await transaction`update auth.users set ${sql(changes)} where id = ${id}`;
    // As in GoTrue, a new password ends what was opened with the old one.
    if (changes.encrypted_password !== undefined) {
      await transaction`delete from auth.sessions where user_id = ${id} and id::text <> ${keptSession}`;
    }
    if (email !== null) await writeEmail(transaction as unknown as Sql, id, email, isConfirmed);
  });
  return await readUser(sql, id);
}

/** In both places that hold it; an address that is taken raises 23505. */
async function writeEmail(sql: Sql, id: string, email: string, isVerified: boolean): Promise<void> {
  await sql`update auth.users set email = ${email}, updated_at = now() where id = ${id}`;
  await sql`
    update auth.identities set updated_at = now(),
      identity_data = identity_data || ${sql.json({ email, email_verified: isVerified })}
    where user_id = ${id} and provider = 'email'`;
}

async function deleteUser(sql: Sql, id: string): Promise<Response> {
  const deleted = await sql.begin(async (transaction) => {
    // For the audit log, if the account is a member's.
    await transaction`select set_config('request.jwt.claims', '{"role": "service_role"}', true)`;
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
    ...moments(row, OPTIONAL_MOMENTS),
    new_email: row.email_change || undefined,
    app_metadata: row.raw_app_meta_data ?? {},
    user_metadata: row.raw_user_meta_data ?? {},
    identities: identities.filter((identity) => identity.user_id === row.id).map((identity) => ({
      identity_id: identity.id,
      id: identity.provider_id,
      user_id: identity.user_id,
      identity_data: identity.identity_data,
      provider: identity.provider,
      ...moments({ ...identity, last_sign_in_at: identity.last_sign_in_at ?? identity.created_at }, [
        "last_sign_in_at",
        "created_at",
        "updated_at",
      ]),
      email: identity.email ?? undefined,
    })),
    ...moments(row, ["created_at", "updated_at"]),
    is_anonymous: row.is_anonymous ?? false,
  }));
}

/** Times as Go writes them, with a Z for UTC; those that are not known are left out. */
function moments(row: Body, names: readonly string[]): Body {
  const known = names.filter((name) => row[name] !== null && row[name] !== undefined);
  return Object.fromEntries(known.map((name) => [name, String(row[name]).replace(/\+00:00$/, "Z")]));
}

/** Metadata with changes; a null takes its key away. */
function merged(current: Body, changes: Body): Body {
  return Object.fromEntries(Object.entries({ ...current, ...changes }).filter(([, value]) => value !== null));
}

function checkId(id: unknown): string {
  if (typeof id !== "string" || !UUID.test(id)) throw invalid("ID must conform to the uuid v4 format");
  if (/^[0-]+$/.test(id)) throw invalid("ID cannot be a nil uuid");
  return id;
}

/** Until when a user is banned for a duration as Go writes it, such as `1h30m`; `none` ends a ban. */
function bannedUntil(duration: unknown): string | null | undefined {
  if (duration === undefined || duration === "") return undefined;
  if (duration === "none") return null;
  const text = String(duration);
  if (!DURATION.test(text)) throw invalid(`invalid format for ban duration: time: invalid duration "${text}"`);
  const parts = [...text.matchAll(/(\d+(?:\.\d*)?|\.\d+)([a-zµ]+)/g)];
  const milliseconds = parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS_MS[unit], 0);
  return new Date(Date.now() + Math.min(milliseconds, MAX_BAN_MS)).toISOString();
}

/** What is kept of a new user's password: of the one given, a digest given, or one that nobody knows. */
async function passwordDigest({ password, password_hash }: Body): Promise<string> {
  if (password && password_hash) throw invalid("Only a password or a password hash should be provided");
  if (!password_hash) return await hash(password || crypto.randomUUID() + crypto.randomUUID());
  if (!BCRYPT.test(String(password_hash))) throw invalid("password_hash must be a bcrypt hash");
  return String(password_hash);
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
  const problem = findUnstorable(value);
  if (problem) throw invalid(`${name} ${problem.path}: ${problem.message}`);
  return value as Body;
}
