/** For whoever runs the server: `/metrics` for Prometheus, and `/gateway/status` for `openmanus-rl status`. */
import prometheus from "prom-client";
import { admission } from "./admission.ts";
import { currentClient } from "./client.ts";
import { type GatewayConnection, OWN_WORK } from "./database.ts";
import { bearer, type Keys } from "./keys.ts";
import type { Caller, Observer } from "./observer.ts";
import type { Realtime } from "./realtime/routes.ts";

const METRICS_PATH = "/metrics";
const STATUS_PATH = "/gateway/status";
/** How old figures of the database may be: whoever asks often must not make it count as often. */
const FRESH_MS = 15_000;
const FILES_FRESH_MS = 5 * 60_000;
const COURIER = /^openmanus-rl-courier\b/;
const COURIER_SILENT_MS = 60_000;

/** Rows as the planner knows them, since counting would read every one; nothing for a table that was never analyzed. */
const USAGE_SQL = `
  select jsonb_build_object(
    'database_bytes', pg_catalog.pg_database_size(current_database()),
    'rows', (
      select coalesce(jsonb_object_agg(c.relname, c.reltuples::bigint), '{}') from pg_catalog.pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.reltuples >= 0),
    'running_runs', (select count(*) from public.training_runs r where r.status = 'running'),
    'members', (select count(*) from public.members))`;

/** Reads the row of every file. */
const FILES_SQL = `
  select coalesce(jsonb_object_agg(b.bucket_id, jsonb_build_object('files', b.files, 'bytes', b.bytes)), '{}') from (
    select o.bucket_id, count(*) as files, coalesce(sum((o.metadata ->> 'size')::bigint), 0) as bytes
    from storage.objects o group by o.bucket_id) b`;

const NAMES_SQL = `
  select coalesce(jsonb_object_agg(n.id, n.name), '{}') from (
    select m.user_id as id, coalesce(m.display_name, internal.account_of(m.user_id) ->> 'email') as name from public.members m
    union all select k.id, k.name from public.member_keys k) n`;

interface Usage {
  database_bytes: number;
  rows: Record<string, number>;
  running_runs: number;
  members: number;
}

interface Queue {
  waiting: number;
  held_count: number;
  oldest_waiting_at: string | null;
  health: Record<string, number>;
}

type Files = Record<string, { files: number; bytes: number }>;

interface Figures {
  usage: Usage;
  queue: Queue;
  jobs: Record<string, number>;
}

export class Operations {
  readonly #figures = new Remembered(() => this.#readFigures(), FRESH_MS);
  readonly #files = new Remembered(() => this.#ask<Files>(FILES_SQL), FILES_FRESH_MS);
  readonly #gauges: Record<string, prometheus.Gauge>;

  constructor(
    readonly connection: GatewayConnection,
    readonly keys: Keys,
    readonly observer: Observer,
    readonly realtime: Realtime,
    version: string,
  ) {
    const gauge = (name: string, help: string, labelNames: string[] = []) =>
      new prometheus.Gauge({ name: `openmanus_rl_${name}`, help, labelNames, registers: [observer.registry] });
    gauge("info", "The version of the server", ["version"]).set({ version }, 1);
    this.#gauges = {
      database: gauge("database_bytes", "Size of the database"),
      up: gauge("database_up", "Whether the database answered; the figures that are read from it are absent if not"),
      rows: gauge("rows", "Estimated rows of a table", ["table"]),
      files: gauge("files", "Stored files", ["bucket"]),
      fileBytes: gauge("file_bytes", "Size of the stored files", ["bucket"]),
      runs: gauge("running_runs", "Training runs that are running"),
      rollouts: gauge("queue_rollouts", "Rollouts of the queue", ["state"]),
      oldest: gauge("queue_oldest_seconds", "How long the oldest waiting rollout has waited"),
      workers: gauge("workers", "Workers by their health", ["health"]),
      jobs: gauge("jobs", "Training jobs that have not ended", ["status"]),
      sockets: gauge("realtime_connections", "Open live connections, mostly dashboards"),
      admitted: gauge("admission_requests", "Requests of members that use the database or wait for it", ["state"]),
      couriers: gauge("couriers", "Machines and keys that delivered records within the last minute"),
      callers: gauge("callers", "Callers of the last five minutes: programs, keys and addresses"),
    };
  }

  /** Answer a request for one of these pages; null when it is for something else. */
  async fetch(request: Request): Promise<Response | null> {
    const { pathname } = new URL(request.url);
    if (pathname !== METRICS_PATH && pathname !== STATUS_PATH) return null;
    if (request.method !== "GET") return new Response(null, { status: 405, headers: { Allow: "GET" } });
    const isOperator = await this.#isOperator(request);
    const mayRead = isOperator || pathname === METRICS_PATH && (currentClient.getStore()?.isLocal ?? false);
    if (!mayRead) {
      const message = "Send the secret key: Authorization: Bearer sb_secret_…";
      return Response.json({ message }, { status: 401, headers: { "WWW-Authenticate": "Bearer" } });
    }
    return pathname === METRICS_PATH ? await this.#metrics() : await this.#status();
  }

  async #isOperator(request: Request): Promise<boolean> {
    const key = bearer(request.headers) ?? request.headers.get("apikey");
    return key !== null && (await this.keys.kindOf(key)) === "secret";
  }

  async #metrics(): Promise<Response> {
    const { sockets, admitted, couriers, callers } = this.#gauges;
    const seen = this.observer.callers();
    sockets.set(this.realtime.connections);
    admitted.set({ state: "running" }, admission.running);
    admitted.set({ state: "waiting" }, admission.waiting);
    callers.set(seen.length);
    couriers.set(seen.filter(isCourier).length);
    await this.#readDatabase();
    const { registry } = this.observer;
    return new Response(await registry.metrics(), {
      headers: { "Content-Type": registry.contentType, "Cache-Control": "no-store" },
    });
  }

  /** Fill in what the database knows, or, while it does not answer, leave it out: an old figure would look new. */
  async #readDatabase(): Promise<void> {
    const { database, up, rows, files, fileBytes, runs, rollouts, oldest, workers, jobs } = this.#gauges;
    const forget = () => {
      for (const gauge of [rows, files, fileBytes, rollouts, workers, jobs]) gauge.reset();
      for (const gauge of [database, runs, oldest]) gauge.remove(); // Of those without labels a reset would leave a 0.
    };
    forget();
    try {
      const [{ usage, queue, jobs: counts }, buckets] = await Promise.all([this.#figures.get(), this.#files.get()]);
      up.set(1);
      database.set(usage.database_bytes);
      runs.set(usage.running_runs);
      for (const [table, count] of Object.entries(usage.rows)) rows.set({ table }, count);
      for (const [bucket, { files: count, bytes }] of Object.entries(buckets)) {
        files.set({ bucket }, count);
        fileBytes.set({ bucket }, bytes);
      }
      rollouts.set({ state: "waiting" }, queue.waiting);
      rollouts.set({ state: "held" }, queue.held_count);
      oldest.set(queue.oldest_waiting_at ? (Date.now() - Date.parse(queue.oldest_waiting_at)) / 1000 : 0);
      for (const health of ["active", "draining", "silent"]) workers.set({ health }, queue.health[health]);
      for (const [status, count] of Object.entries(counts)) jobs.set({ status }, count);
    } catch (error) {
      console.error("metrics: the database was not read:", (error as Error).message);
      forget();
      up.set(0);
    }
  }

  async #status(): Promise<Response> {
    const [{ usage }, files, names] = await Promise.all([this.#figures.get(), this.#files.get(), this.#names()]);
    const callers = this.observer.callers().map(({ userId, keyId, ...caller }) => ({
      ...caller,
      name: userId === null ? null : names[userId] ?? userId,
      key: keyId === null ? null : names[keyId] ?? keyId,
    }));
    return Response.json({ callers, liveConnections: this.realtime.connections, usage, files }, {
      headers: { "Cache-Control": "no-store" },
    });
  }

  /** What members and their keys are called, by id. */
  async #names(): Promise<Record<string, string>> {
    return await this.#ask(NAMES_SQL);
  }

  async #readFigures(): Promise<Figures> {
    const usage = await this.#ask<Usage>(USAGE_SQL);
    const queue = await this.#ask<Queue>("select public.queue_overview(0)");
    const { counts } = await this.#ask<{ counts: Record<string, number> }>("select public.jobs_overview()");
    return { usage, queue, jobs: counts };
  }

  /** The answer of a query of one JSON value, with the rights of the secret key. */
  async #ask<T>(query: string): Promise<T> {
    return await this.connection.asCaller({ role: "service_role" }, OWN_WORK, async (sql) => {
      const [{ answer }] = await sql.unsafe(`select (${query})::text as answer`);
      return JSON.parse(answer) as T;
    });
  }
}

function isCourier({ program, last }: Caller): boolean {
  return COURIER.test(program) && Date.parse(last) > Date.now() - COURIER_SILENT_MS;
}

/** Something that is asked for more often than it changes. */
class Remembered<T> {
  #reading: Promise<T> | undefined;
  #until = 0;

  constructor(readonly read: () => Promise<T>, readonly freshMs: number) {}

  get(): Promise<T> {
    if (this.#reading && Date.now() < this.#until) return this.#reading;
    this.#until = Date.now() + this.freshMs;
    const reading = this.#reading = this.read();
    reading.catch(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    return reading;
  }
}
