/** The Postgres connection that Supabase Lite works on, with hosted Supabase's manners. */
import type { AnyAST, ConnectionContextOptions, IntrospectResult, VarsContext } from "@supabase/lite";
import { PostgresConnection } from "@supabase/lite/postgres";
import { sql } from "kysely";
import type postgres from "postgres";
import { type Catalog, exposedOnly, readCatalog } from "./catalog.ts";
import { DatabaseUnavailable, errorForLite, isUnavailable } from "./errors.ts";
import { type Database, kyselyOn } from "./pool.ts";
import { postgresTypes } from "./types.ts";
import { InsertFromJson, keepValuesExact } from "./writes.ts";

const MAX_CONNECTIONS = 20;
const CONNECT_TIMEOUT_SECONDS = 5;
const RELOAD_DELAY_MS = 100;

/** Carries a result out of a transaction that must not be kept. */
class Rollback extends Error {
  constructor(readonly result: unknown) {
    super("rolled back");
  }
}

export class GatewayConnection extends PostgresConnection {
  #catalog: Catalog = new Map();
  #loading: Promise<IntrospectResult> | undefined;
  #reloadTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(url: string) {
    super({
      url,
      postgresOptions: {
        max: MAX_CONNECTIONS,
        connect_timeout: CONNECT_TIMEOUT_SECONDS,
        backoff: (attempt: number) => Math.min(0.1 * 2 ** attempt, 2),
        types: postgresTypes,
        connection: { application_name: "openmanus-rl gateway" },
        onnotice: () => {},
      },
    });
    this.kysely = kyselyOn(this.driver);
  }

  override runInTransaction<T>(run: (database: Database) => Promise<T>): Promise<T> {
    return this.driver.begin((transaction) => run(kyselyOn(transaction))) as Promise<T>;
  }

  /** Whether Postgres answers at all. */
  async answers(): Promise<boolean> {
    try {
      await this.driver`select 1`;
      return true;
    } catch (error) {
      if (isUnavailable(error)) return false;
      throw error;
    }
  }

  /** The schema cache; read once by however many requests wait for it. */
  override introspect(options?: { useCache?: boolean }): Promise<IntrospectResult> {
    if (options?.useCache && this.introspection) return Promise.resolve(this.introspection);
    this.#loading ??= this.#load().finally(() => (this.#loading = undefined));
    return this.#loading;
  }

  async #load(): Promise<IntrospectResult> {
    const schema = await super.introspect({ useCache: false });
    // A failed reading comes back as an empty schema, which would make every table unknown.
    if (schema.functions === undefined) throw new DatabaseUnavailable("the schema could not be read");
    this.#catalog = await readCatalog(this.driver);
    this.introspection = exposedOnly(schema);
    return this.introspection;
  }

  override async onPostgrestAST(ast: AnyAST): Promise<AnyAST> {
    const checked = await super.onPostgrestAST(ast);
    return keepValuesExact(checked, this.#catalog, await this.introspect({ useCache: true }));
  }

  /** Read the schema again when Postgres says `notify pgrst`, as PostgREST does. */
  async watchSchema(): Promise<void> {
    const reload = () => this.reloadSchema();
    // Also on every (re)connection: notifications sent meanwhile were missed.
    await this.driver.listen("pgrst", reload, reload);
  }

  /** Read the schema again soon; many calls in a row cause one reading. */
  reloadSchema(): void {
    clearTimeout(this.#reloadTimer);
    this.#reloadTimer = setTimeout(() => {
      this.introspect().catch((error) => console.error("schema reload failed:", error.message));
    }, RELOAD_DELAY_MS);
  }

  /** Run statements in one transaction with the caller's rights. */
  asCaller<T>(claims: Claims, operation: string, run: (sql: postgres.TransactionSql) => Promise<T>): Promise<T> {
    return this.driver.begin(async (transaction) => {
      const settings = callerSettings(claims, operation);
      const calls = settings.map((_, i) => `set_config($${2 * i + 1}, $${2 * i + 2}, true)`);
      await transaction.unsafe(`select ${calls.join(", ")}`, settings.flat());
      return await run(transaction);
    }) as Promise<T>;
  }

  override normalizeDbError(error: unknown): unknown {
    return errorForLite(error);
  }

  /**
   * Run a request's statements in one transaction as the caller's role.
   *
   * Replaces Lite's own, which grants every table to every API role, and which commits a write that is
   * then answered with an error.
   */
  override async withContext<T>(
    vars: VarsContext | undefined,
    run: (database: Database) => Promise<T>,
    options: ConnectionContextOptions = {},
  ): Promise<T> {
    if (options.transaction) {
      if (vars) await enterContext(options.transaction, vars, options);
      return run(options.transaction);
    }
    if (!vars && !options.forceRollback) return run(this.kysely);
    try {
      return await this.runInTransaction(async (transaction) => {
        if (vars) await enterContext(transaction, vars, options);
        const result = await run(transaction.withPlugin(new InsertFromJson()));
        const refused = result instanceof Response && result.status >= 400;
        if (options.forceRollback || refused) throw new Rollback(result);
        return result;
      });
    } catch (error) {
      if (error instanceof Rollback) return error.result as T;
      throw error;
    }
  }
}

/** The caller as Postgres sees it. */
export interface Claims {
  role: string;
  sub?: string;
  [claim: string]: unknown;
}

type Setting = [name: string, value: string];

function callerSettings(claims: Claims, operation = ""): Setting[] {
  return [
    ["request.jwt.claims", JSON.stringify(claims)],
    ["request.jwt.claim.sub", String(claims.sub ?? "")],
    ["request.jwt.claim.role", claims.role],
    ["storage.operation", operation],
    ["role", claims.role],
  ];
}

function requestSettings({ method, path, requestHeaders, readOnly }: NonNullable<ConnectionContextOptions["rpc"]>) {
  return [
    ["response.status", ""],
    ["response.headers", ""],
    ["request.method", method],
    ["request.path", path],
    ["request.headers", JSON.stringify(requestHeaders ?? {})],
    ["transaction_read_only", readOnly ? "on" : "off"],
  ] as Setting[];
}

/** Become the caller for the rest of this transaction, in one round trip. */
async function enterContext(database: Database, vars: VarsContext, options: ConnectionContextOptions): Promise<void> {
  const auth = (vars.auth ?? {}) as { role?: string; jwt?: Claims | null };
  const role = auth.role || "anon";
  const settings = [
    ...(options.rpc ? requestSettings(options.rpc) : []),
    ...callerSettings({ ...auth.jwt, role }),
  ];
  const calls = settings.map(([name, value]) => sql`set_config(${name}, ${value}, true)`);
  await sql`select ${sql.join(calls)}`.execute(database);
}
