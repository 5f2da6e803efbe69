/** The Data API: `/rest/v1/<relation>` and `/rest/v1/rpc/<function>`, as PostgREST answers them. */
import type { Claims, GatewayConnection, Setting } from "../database.ts";
import { type DatabaseError, isUnavailable } from "../errors.ts";
import type { Keys } from "../keys.ts";
import { paced } from "../pace.ts";
import { allowed, noTable } from "./allowed.ts";
import { givenArguments, postedArguments } from "./arguments.ts";
import { readRows } from "./body.ts";
import { callSql, isScalar } from "./call.ts";
import { callerOf } from "./caller.ts";
import { describe } from "./described.ts";
import { ApiError, fromDatabase, schemaIsForbidden } from "./errors.ts";
import { type Media, negotiate, negotiateDocument, ownMedia, ROWS } from "./media.ts";
import { openApi } from "./openapi.ts";
import { Planner } from "./plan.ts";
import { type Preferences, readPreferences } from "./prefer.ts";
import { canonical, type Range, rangeError, readQuery } from "./query_string.ts";
import { callResponse, readResponse, unsaid, writeResponse } from "./respond.ts";
import { EXPOSED_SCHEMA, type Relation, type Routine, type Schema } from "./schema.ts";
import { execute, plannedRows, statementOf } from "./statement.ts";
import { countSql, readSql } from "./read.ts";
import { identifier, raw, sql } from "./sql.ts";
import { neededColumns, writeSql } from "./write.ts";
import type postgres from "postgres";

/** One request on its way to an answer. */
interface Call {
  request: Request;
  url: URL;
  method: string;
  caller: Claims;
  schema: Schema;
  preferences: Preferences;
}

const PATH = /^\/rest\/v1\/(rpc\/)?([^/]+)\/?$/;
const ROOT = /^\/rest\/v1\/?$/;
const SEARCH_PATH = `"${EXPOSED_SCHEMA}", "extensions"`;
const SOURCE = identifier("pgrst_source");

/** Carries a response out of a transaction that must not be kept. */
class RolledBack extends Error {
  constructor(readonly response: Response) {
    super("rolled back as the client prefers");
  }
}

export class DataApi {
  constructor(
    readonly connection: GatewayConnection,
    readonly keys: Keys,
    readonly maxRows: number,
    readonly version: string,
  ) {}

  async fetch(request: Request): Promise<Response> {
    let role = "anon";
    try {
      const caller = await callerOf(request, this.keys);
      if (caller instanceof Response) return caller;
      role = caller.role;
      return await this.#answer(request, caller);
    } catch (error) {
      return (await this.#refusal(error, role)).response();
    }
  }

  /** An error as an answer; one that is nobody's mistake but ours goes on. */
  async #refusal(error: unknown, role: string): Promise<ApiError> {
    if (error instanceof ApiError) return error;
    const { code } = (error ?? {}) as DatabaseError;
    if (isUnavailable(error) || typeof code !== "string" || !/^[0-9A-Z]{5}$/.test(code)) throw error;
    const answer = fromDatabase(error as DatabaseError & { code: string }, role === "anon");
    // A token may name any role. Whether the code means that cannot be told by the code alone: functions raise it too.
    if (code === "22023" && !(await this.connection.hasRole(role))) return answer.withStatus(401);
    if (answer.status >= 500) console.error("data api:", answer.code, answer.message);
    return answer;
  }

  async #answer(request: Request, caller: Claims): Promise<Response> {
    const url = new URL(request.url);
    if (ROOT.test(url.pathname)) return await this.#describe(request, url, caller);
    const [, rpc, encoded] = PATH.exec(url.pathname) ?? [];
    if (encoded === undefined) throw new ApiError(404, "PGRST125", "Invalid path specified in request URL");
    const name = decodeName(encoded);
    const { method, headers } = request;
    checkProfile(headers.get(/^(GET|HEAD)$/.test(method) ? "accept-profile" : "content-profile"));
    const schema = await this.connection.schema();
    const call: Call = {
      request,
      url,
      method,
      caller,
      schema,
      preferences: readPreferences(headers),
    };
    if (method === "OPTIONS") return new Response(null, { headers: { Allow: allowed(call.schema, !!rpc, name) } });
    if (rpc) return await this.#call(call, name);
    const relation = call.schema.relations.get(name);
    if (!relation) throw noTable(name, call.schema);
    if (method === "GET" || method === "HEAD") return await this.#read(call, relation);
    if (/^(POST|PATCH|PUT|DELETE)$/.test(method)) return await this.#write(call, relation);
    throw new ApiError(405, "PGRST117", `Unsupported HTTP method: ${method}`);
  }

  /** The document of the API, for the secret key alone, as on hosted projects. */
  async #describe(request: Request, url: URL, caller: Claims): Promise<Response> {
    const { method } = request;
    if (method === "OPTIONS") return new Response(null, { headers: { Allow: "OPTIONS,GET,HEAD" } });
    if (method !== "GET" && method !== "HEAD") {
      throw new ApiError(405, "PGRST117", `Unsupported HTTP method: ${method}`);
    }
    if (caller.role !== "service_role") return schemaIsForbidden();
    const contentType = negotiateDocument(request.headers.get("accept"));
    const description = await this.connection.asCaller(caller, "", describe, [["transaction_read_only", "on"]]);
    const document = openApi(description, await this.connection.schema(), url, this.version);
    return new Response(method === "HEAD" ? unsaid() : JSON.stringify(document), {
      headers: { "Content-Type": contentType },
    });
  }

  async #read(call: Call, relation: Relation): Promise<Response> {
    const { preferences, method, url, request } = call;
    const media = negotiate(request.headers.get("accept"));
    const query = readQuery(url);
    const range = headerRange(request);
    const root = new Planner(call.schema, this.maxRows).plan(relation.name, relation, query, { range });
    const count = countSql(root);
    // Beyond a page the estimate takes over, so that counting stops there.
    const upTo = preferences.count === "estimated" ? raw(` limit ${this.maxRows + 1}`) : raw("");
    const isCounted = preferences.count === "exact" || preferences.count === "estimated";
    const statement = statementOf({
      rows: readSql(root),
      total: isCounted ? sql`${count}${upTo}` : null,
      media: method === "HEAD" ? null : media,
      shape: ROWS,
    });
    const kind = preferences.count === "planned" || preferences.count === "estimated" ? "reads" : "read";
    const parameters = canonical(url.searchParams);
    const location = `/${encodeURIComponent(relation.name)}${parameters && `?${parameters}`}`;
    return await this.#run(call, kind, async (transaction) => {
      const found = await execute(transaction, statement, call.schema.version);
      if (preferences.count === "planned" || found.total !== null && preferences.count === "estimated") {
        const isWhole = preferences.count === "estimated" && found.total! <= this.maxRows;
        if (!isWhole) found.total = Math.max(await plannedRows(transaction, count), found.total ?? 0);
      }
      checkSingular(media, found.page);
      return readResponse(found, root.range, { preferences, media, method, location });
    });
  }

  async #write(call: Call, relation: Relation): Promise<Response> {
    const { method, preferences, url, request } = call;
    const media = negotiate(request.headers.get("accept"));
    const query = readQuery(url);
    const isPut = method === "PUT";
    if (isPut && query.limits.some(({ path }) => path.length === 0)) {
      throw new ApiError(400, "PGRST114", "limit/offset querystring parameters are not allowed for PUT");
    }
    const root = new Planner(call.schema, null).plan(relation.name, relation, query, { isWrite: true });
    const body = method === "DELETE" ? null : await readRows(request, isPut ? null : query.columns);
    const returns = preferences.return ?? "minimal";
    const returning = returns === "representation"
      ? neededColumns(root, relation)
      : returns === "headers-only"
      ? relation.primaryKey
      : [];
    const statement = statementOf({
      source: writeSql({ method, relation, query, preferences, body, returning }),
      rows: returns === "representation" ? readSql(root, SOURCE) : sql`select * from ${SOURCE}`,
      total: null,
      media: returns === "representation" ? media : null,
      shape: ROWS,
      hasLocation: returns === "headers-only" && returning.length > 0,
    });
    return await this.#run(call, "write", async (transaction) => {
      const found = await execute(transaction, statement, call.schema.version);
      if (isPut && found.page !== 1) {
        throw new ApiError(400, "PGRST115", "Payload values do not match URL in primary key column(s)");
      }
      if (!isPut) checkSingular(media, found.page);
      if (method !== "POST" && !isPut) checkAffected(preferences, found.page);
      return writeResponse(found, { method, relation, query, preferences, media });
    });
  }

  async #call(call: Call, name: string): Promise<Response> {
    const { method, preferences, url, request } = call;
    if (!/^(GET|HEAD|POST)$/.test(method)) {
      throw new ApiError(405, "PGRST101", `Cannot use the ${method} method on RPC`);
    }
    const isPost = method === "POST";
    const query = readQuery(url, !isPost);
    const { routine, args } = isPost
      ? await postedArguments(call.schema, name, query, request)
      : givenArguments(call.schema, name, query.args);
    const media = negotiate(request.headers.get("accept"), ownMedia(routine));
    checkMaxAffected(preferences, routine);
    const relation = call.schema.relations.get(routine.relation ?? "") ?? null;
    const range = headerRange(request);
    const root = new Planner(call.schema, this.maxRows).plan(relation?.name ?? name, relation, query, { range });
    const isSilent = routine.returnsVoid || method === "HEAD";
    const statement = statementOf({
      source: callSql(routine, args, relation ? neededColumns(root, relation) : ["*"]),
      rows: readSql(root, SOURCE),
      total: preferences.count ? countSql(root, SOURCE) : null,
      media: isSilent ? null : media,
      shape: { isSingle: !routine.returnsSet, isScalar: isScalar(routine) },
    });
    const isReadOnly = !isPost || routine.volatility !== "volatile";
    const run = () =>
      this.#run(call, isReadOnly ? "read" : "write", async (transaction) => {
        const found = await execute(transaction, statement, call.schema.version);
        checkSingular(media, found.page);
        checkAffected(preferences, found.page);
        return callResponse(found, root.range, { preferences, media, method, isVoid: routine.returnsVoid });
      });
    return await paced(url.pathname, run);
  }

  /**
   * Run a request's statements in one transaction as its caller; the one place where that happens. The response is made
   * before the transaction ends, so that nothing is kept of a request that is answered with an error.
   */
  async #run(
    call: Call,
    kind: "read" | "reads" | "write",
    run: (sql: Connection) => Promise<Response>,
  ): Promise<Response> {
    const settings = requestSettings(call, kind !== "write");
    // One statement that changes nothing needs no other end than the one it is sent with.
    if (kind === "read") return await this.connection.readAsCaller(call.caller, run, settings);
    try {
      return await this.connection.asCaller(call.caller, "", async (transaction) => {
        const response = await run(transaction);
        if (call.preferences.tx !== "rollback") return response;
        // What would only have failed at the end fails now.
        await transaction`set constraints all immediate`;
        throw new RolledBack(response);
      }, settings);
    } catch (error) {
      if (error instanceof RolledBack) return error.response;
      throw error;
    }
  }
}

type Connection = postgres.Sql | postgres.TransactionSql;

function requestSettings({ request, url, method, preferences }: Call, isReadOnly: boolean): Setting[] {
  const headers = Object.fromEntries([...request.headers].filter(([name]) => name !== "cookie"));
  const settings: Setting[] = [
    ["search_path", SEARCH_PATH],
    ["response.status", ""],
    ["response.headers", ""],
    ["request.method", method],
    ["request.path", url.pathname.slice("/rest/v1".length)],
    ["request.headers", JSON.stringify(headers)],
    ["request.cookies", JSON.stringify(cookiesOf(request.headers.get("cookie") ?? ""))],
    ["transaction_read_only", isReadOnly ? "on" : "off"],
  ];
  if (preferences.timezone) settings.push(["timezone", preferences.timezone]);
  return settings;
}

function cookiesOf(header: string): Record<string, string> {
  const pairs = header.split(";").map((pair) => pair.trim()).filter((pair) => pair.includes("="));
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

function decodeName(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new ApiError(404, "PGRST125", "Invalid path specified in request URL");
  }
}

function checkProfile(profile: string | null): void {
  if (profile === null || profile === EXPOSED_SCHEMA) return;
  throw new ApiError(406, "PGRST106", `Invalid schema: ${profile}`, {
    hint: `Only the following schemas are exposed: ${EXPOSED_SCHEMA}`,
  });
}

/** `Range: 0-9`, as supabase clients of old send it. */
function headerRange({ method, headers }: Request): Range | null {
  if (method !== "GET") return null;
  const found = /^(\d+)-(\d*)$/.exec(headers.get("range") ?? "");
  if (!found) return null;
  const [first, last] = [found[1], found[2]].map((text) =>
    text === "" ? null : Math.min(Number(text), Number.MAX_SAFE_INTEGER)
  ) as [number, number | null];
  if (last !== null && last < first) {
    throw rangeError("The lower boundary must be lower than or equal to the upper boundary in the Range header.");
  }
  return { offset: first, limit: last === null ? null : last - first + 1 };
}

function checkSingular({ kind }: Media, rows: number): void {
  if (kind !== "object" || rows === 1) return;
  throw new ApiError(406, "PGRST116", "Cannot coerce the result to a single JSON object", {
    details: `The result contains ${rows} rows`,
  });
}

function checkAffected(preferences: Preferences, rows: number): void {
  const most = preferences["max-affected"];
  if (most === undefined || preferences.handling !== "strict" || rows <= most) return;
  throw new ApiError(400, "PGRST124", "Query result exceeds max-affected preference constraint", {
    details: `The query affects ${rows} rows`,
  });
}

function checkMaxAffected(preferences: Preferences, routine: Routine): void {
  if (preferences["max-affected"] === undefined || preferences.handling !== "strict" || routine.returnsSet) return;
  const message = "Function must return SETOF or TABLE when max-affected preference is used with handling=strict";
  throw new ApiError(400, "PGRST128", message);
}
