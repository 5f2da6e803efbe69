/** The Postgres connection that Supabase Lite works on, with hosted Supabase's manners. */
import type { IntrospectResult } from "@supabase/lite";
import { PostgresConnection } from "@supabase/lite/postgres";
import type postgres from "postgres";
import { admission } from "./admission.ts";
import { Canceller } from "./cancel.ts";
import { DatabaseUnavailable, isUnavailable } from "./errors.ts";
import { statementTimeoutMs } from "./limits.ts";
import { begin, type Database, kyselyOn, leave } from "./pool.ts";
import { readSchema, type Schema } from "./rest/schema.ts";
import { exposedOnly } from "./root_document.ts";
import { scramOnly } from "./scram.ts";
import { postgresTypes } from "./types.ts";

const MAX_CONNECTIONS = 20;
const CONNECT_TIMEOUT_SECONDS = 5;
const RELOAD_DELAY_MS = 100;

export class GatewayConnection extends PostgresConnection {
  #schema: Promise<Schema> | undefined;
  #readings = 0;
  #loading: Promise<IntrospectResult> | undefined;
  #reloadTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #canceller: Canceller;
  #watching = false;
  #closing = false;
  #answeredAt = Date.now();

  constructor(readonly url: string) {
    super({ url });
    this.driver = this.#open();
    this.kysely = kyselyOn(() => this.driver);
    this.#canceller = new Canceller(url);
  }

  /** A pool that is left for a new one as soon as Postgres closes any of its connections. */
  #open(): postgres.Sql {
    const { driver } = new PostgresConnection({
      url: this.url,
      postgresOptions: {
        max: MAX_CONNECTIONS,
        connect_timeout: CONNECT_TIMEOUT_SECONDS,
        backoff: (attempt: number) => Math.min(0.1 * 2 ** attempt, 2),
        // Connections are closed by Postgres alone: whenever one closes, something happened there.
        max_lifetime: null,
        types: postgresTypes,
        connection: { application_name: "openmanus-rl gateway" },
        onnotice: () => {},
        ...scramOnly,
        onclose: () => this.#renew(driver),
      },
    });
    return driver;
  }

  #renew(closed: postgres.Sql): void {
    if (this.driver !== closed || this.#closing) return;
    this.driver = this.#open();
    leave(closed);
    // If it fails, postgres.js itself listens again, for as long as this pool lives.
    if (this.#watching) this.watchSchema().catch(() => {});
  }

  override async close(): Promise<void> {
    this.#closing = true;
    await Promise.all([this.driver.end({ timeout: 1 }), this.#canceller.close()]);
  }

  override runInTransaction<T>(run: (database: Database) => Promise<T>): Promise<T> {
    return this.#begin((transaction) => run(kyselyOn(() => transaction)));
  }

  #begin<T>(run: (transaction: postgres.TransactionSql) => Promise<T>): Promise<T> {
    return begin(() => this.driver, (transaction) => {
      this.#answeredAt = Date.now();
      return run(transaction);
    });
  }

  /** How long ago Postgres last took a request's transaction. */
  get silentMs(): number {
    return Date.now() - this.#answeredAt;
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

  /** Whether there is such a role to act as. */
  async hasRole(name: string): Promise<boolean> {
    return (await this.driver`select 1 from pg_catalog.pg_roles where rolname = ${name}`).length > 0;
  }

  /** The Data API's schema cache; read once by however many requests wait for it. */
  schema(): Promise<Schema> {
    this.#schema ??= this.#remember(readSchema(this.driver));
    return this.#schema;
  }

  /** Keep a reading for the requests to come, unless it fails. */
  #remember(reading: Promise<Schema>): Promise<Schema> {
    reading.catch(() => {
      if (this.#schema === reading) this.#schema = undefined;
    });
    return reading;
  }

  /** Supabase Lite's own schema cache, of which it makes the document at `/rest/v1/`. */
  override introspect(options?: { useCache?: boolean }): Promise<IntrospectResult> {
    if (options?.useCache && this.introspection) return Promise.resolve(this.introspection);
    this.#loading ??= this.#load().finally(() => (this.#loading = undefined));
    return this.#loading;
  }

  async #load(): Promise<IntrospectResult> {
    const schema = await super.introspect({ useCache: false });
    // A failed reading comes back as an empty schema, which would make every table unknown.
    if (schema.functions === undefined) throw new DatabaseUnavailable("the schema could not be read");
    this.introspection = exposedOnly(schema);
    return this.introspection;
  }

  /** Read the schema again when Postgres says `notify pgrst`, as PostgREST does. */
  async watchSchema(): Promise<void> {
    const reload = () => this.reloadSchema();
    this.#watching = true;
    // Also on every (re)connection: notifications sent meanwhile were missed.
    await this.driver.listen("pgrst", reload, reload);
  }

  /** Read the schema again soon; many calls in a row cause one reading. */
  reloadSchema(): void {
    clearTimeout(this.#reloadTimer);
    this.#reloadTimer = setTimeout(() => this.#reload(), RELOAD_DELAY_MS);
  }

  async #reload(): Promise<void> {
    const reading = ++this.#readings;
    try {
      const schema = await readSchema(this.driver);
      // One that began later knows what this one may not.
      if (reading !== this.#readings) return;
      this.#schema = Promise.resolve(schema);
      this.introspection = undefined;
    } catch (error) {
      console.error("schema reload failed:", (error as Error).message);
    }
  }

  /** Run statements in one transaction with the caller's rights, and with settings that last as long. */
  asCaller<T>(
    claims: Claims,
    operation: string,
    run: (sql: postgres.TransactionSql) => Promise<T>,
    further: Setting[] = [],
  ): Promise<T> {
    const begun = () =>
      this.#begin(async (transaction) => {
        const settings = [...further, ...callerSettings(claims, operation)];
        const calls = settings.map((_, i) => `set_config($${2 * i + 1}, $${2 * i + 2}, true)`);
        const query = `select pg_backend_pid() as pid, ${calls.join(", ")}`;
        const [{ pid }] = await transaction.unsafe(query, settings.flat(), { prepare: true });
        return await this.#canceller.whileWanted(pid, () => run(transaction));
      });
    // The gateway's own look for what changed waits for nobody.
    return operation === "realtime" ? begun() : admission.run(claims, begun);
  }

  /** Lite's own Data API would grant every table to every API role; nothing here leads to it, and nothing may. */
  override withContext(): Promise<never> {
    throw new Error("requests reach the database with asCaller");
  }
}

/** The caller as Postgres sees it. */
export interface Claims {
  role: string;
  sub?: string;
  [claim: string]: unknown;
}

export type Setting = [name: string, value: string];

function callerSettings(claims: Claims, operation: string): Setting[] {
  return [
    ["request.jwt.claims", JSON.stringify(claims)],
    ["request.jwt.claim.sub", String(claims.sub ?? "")],
    ["request.jwt.claim.role", claims.role],
    ["storage.operation", operation],
    // A role's own setting does not hold for whoever becomes that role.
    ["statement_timeout", String(statementTimeoutMs(claims.role))],
    ["role", claims.role],
  ];
}
