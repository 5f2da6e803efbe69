/** The Postgres connection that Supabase Lite works on, with hosted Supabase's manners. */
import { PostgresConnection } from "@supabase/lite/postgres";
import type postgres from "postgres";
import { admission } from "./admission.ts";
import { Canceller } from "./cancel.ts";
import { type DatabaseAddress, dialling } from "./dial.ts";
import { isUnavailable } from "./errors.ts";
import { statementTimeoutMs } from "./limits.ts";
import { begin, counted, type Database, kyselyOn, leave, wasRefused } from "./pool.ts";
import { forgetPrepared } from "./rest/prepared.ts";
import { join, literal, raw } from "./rest/sql.ts";
import { readSchema, type Schema } from "./rest/schema.ts";
import { fingerprint, tellsOfChanges } from "./schema_changes.ts";
import { postgresTypes } from "./types.ts";

const MAX_CONNECTIONS = 20;
const CONNECT_TIMEOUT_SECONDS = 5;
/** What SQL and clients are written for, whatever the database or the role says; poolers know these parameters too. */
const SESSION = {
  application_name: "openmanus-rl gateway",
  standard_conforming_strings: "on",
  DateStyle: "ISO",
  TimeZone: "UTC",
};
const RELOAD_DELAY_MS = 100;
/** How often to look for changes of a schema that does not tell of them. */
const LOOK_MS = 10_000;

export class GatewayConnection extends PostgresConnection {
  #schema: Promise<Schema> | undefined;
  #readings = 0;
  #reloadTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #canceller: Canceller;
  #watching = false;
  #lookTimer: ReturnType<typeof setInterval> | undefined;
  #seen: string | undefined;
  #closing = false;
  #answeredAt = Date.now();

  constructor(readonly address: DatabaseAddress) {
    super({ url: address.url });
    this.driver = this.#open();
    this.kysely = kyselyOn(() => this.driver);
    this.#canceller = new Canceller(address);
  }

  /** A pool that is left for a new one as soon as Postgres closes any of its connections. */
  #open(): postgres.Sql {
    const { driver } = new PostgresConnection({
      url: this.address.url,
      postgresOptions: {
        max: MAX_CONNECTIONS,
        connect_timeout: CONNECT_TIMEOUT_SECONDS,
        backoff: (attempt: number) => Math.min(0.1 * 2 ** attempt, 2),
        // Connections are closed by Postgres alone: whenever one closes, something happened there.
        max_lifetime: null,
        types: postgresTypes,
        connection: SESSION,
        onnotice: () => {},
        ...dialling(this.address),
        onclose: () => this.#renew(driver),
      },
    });
    return counted(driver);
  }

  #renew(closed: postgres.Sql): void {
    if (this.driver !== closed || this.#closing || wasRefused(closed)) return;
    this.driver = this.#open();
    leave(closed);
    // If it fails, postgres.js itself listens again, for as long as this pool lives.
    if (this.#watching) this.watchSchema().catch(() => {});
  }

  override async close(): Promise<void> {
    this.#closing = true;
    clearInterval(this.#lookTimer);
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

  /** Supabase Lite's own schema cache is for its Data API, which nothing here leads to. */
  override introspect(): Promise<never> {
    throw new Error("the schema is read with schema()");
  }

  /** Read the schema again when Postgres says `notify pgrst`, as PostgREST does. */
  async watchSchema(): Promise<void> {
    const reload = () => this.reloadSchema();
    this.#watching = true;
    // Also on every (re)connection: notifications sent meanwhile were missed.
    await this.driver.listen("pgrst", reload, reload);
  }

  /** Look for changes where Postgres does not tell of them: only superusers may make event triggers. */
  async lookForSchemaChanges(): Promise<void> {
    if (await tellsOfChanges(this.driver)) return;
    this.#seen = await fingerprint(this.driver);
    this.#lookTimer = setInterval(() => this.#look().catch(() => {}), LOOK_MS);
  }

  async #look(): Promise<void> {
    const state = await fingerprint(this.driver);
    if (state !== this.#seen) this.reloadSchema();
    this.#seen = state;
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
      forgetPrepared();
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
    const settings = [...further, ...callerSettings(claims, operation)];
    const begun = () =>
      this.#begin(async (transaction) => {
        const set = transaction.unsafe(settingSql(settings)).execute();
        // Sent right behind: where the settings are refused, Postgres refuses everything that follows.
        const work = () => inOrder(set, run(transaction));
        return await this.#canceller.whileWanted(() => processOf(set), work);
      });
    return operation === OWN_WORK ? begun() : admission.run(claims, begun);
  }

  /** Run statements that change nothing with the caller's rights. */
  readAsCaller<T>(claims: Claims, run: (sql: postgres.TransactionSql) => Promise<T>, further: Setting[]): Promise<T> {
    return this.asCaller(claims, "", run, [...further, ["transaction_read_only", "on"]]);
  }

  /** Lite's own Data API would grant every table to every API role; nothing here leads to it, and nothing may. */
  override withContext(): Promise<never> {
    throw new Error("requests reach the database with asCaller");
  }
}

/** The operation of what the gateway does by itself, such as looking for what changed: it waits for nobody. */
export const OWN_WORK = "gateway";

/** The caller as Postgres sees it. */
export interface Claims {
  role: string;
  sub?: string;
  [claim: string]: unknown;
}

export type Setting = [name: string, value: string];

/**
 * The second of two that were sent one behind the other, when both have ended: Postgres passes over whatever is sent
 * behind a statement that failed before it was sent whole, and the connection would wait for an answer for ever.
 */
async function inOrder<T>(first: PromiseLike<unknown>, second: Promise<T>): Promise<T> {
  const ended = await Promise.allSettled([first, second]);
  for (const one of ended) if (one.status === "rejected") throw one.reason;
  return (ended[1] as PromiseFulfilledResult<Awaited<T>>).value;
}

/** As one text without parameters: postgres.js then sends it whole, ahead of whatever follows. */
function settingSql(settings: Setting[]): string {
  const calls = settings.map(([name, value]) =>
    join([raw("set_config("), literal(name), raw(", "), literal(value), raw(", true)")], "")
  );
  return `select ${join(calls, ", ").render()[0]}`;
}

/** The server's process that a query was sent to, once it was. */
function processOf(query: unknown): number | undefined {
  return (query as { state: { pid: number } | null }).state?.pid; // Missing from its types.
}

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
