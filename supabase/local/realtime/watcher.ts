/** Looks for changed rows of `public.activity`, for as long as someone listens. */
import { forEverybody } from "../client.ts";
import { type Claims, type GatewayConnection, OWN_WORK } from "../database.ts";
import { isUnavailable } from "../errors.ts";
import { reads } from "../pace.ts";
import type { ActivityRow } from "./activity.ts";
import { JoinRefused } from "./bindings.ts";

const INTERVAL_MS = 400;
/** Listeners are told one after the other, since each then reads what its page shows; */
const APART_MS = 50;
/** also where the server is busy, now and then. */
const FURTHEST_APART_MS = 2000;
/**
 * What happens within a second after a mark makes none. So a change is told again when no more have come for a while, and
 * whoever listens need not look a second time by itself.
 */
const SETTLED_MS = 2000;
/** A mark is dated when it is made and seen when its transaction ends; transactions longer than this are rare. */
const LOOK_BACK = "5 minutes";

/** One caller's ear: told of changed rows that it may see. */
export interface Listener {
  readonly claims: Claims;
  tell(rows: ActivityRow[]): void;
}

/** What a listener is yet to be told. */
interface Ear {
  readonly listener: Listener;
  readonly changed: Set<string>;
  toldAt: number;
}

export class ActivityWatcher {
  readonly #ears = new Map<Listener, Ear>();
  #lastToldAt = -Infinity;
  /** When each row of the last few minutes was marked, as of the last look; null while nobody listens. */
  #marks: Map<string, string> | null = null;
  #lookedAt: string | null = null;
  /** When each row was last seen changed that is to be told again. */
  readonly #unsettled = new Map<string, number>();
  #firstLook: Promise<unknown> | undefined;
  #looping = false;
  #failing = false;

  constructor(readonly connection: GatewayConnection) {}

  /** Listen from now on: what changes after this has resolved is told. */
  async add(listener: Listener): Promise<void> {
    if (this.#marks === null) {
      this.#firstLook ??= this.#look().finally(() => (this.#firstLook = undefined));
      await this.#firstLook.catch((error) => {
        throw explained(error);
      });
    }
    this.#ears.set(listener, { listener, changed: new Set(), toldAt: -Infinity });
    if (!this.#looping) forEverybody(() => this.#loop());
  }

  remove(listener: Listener): void {
    this.#ears.delete(listener);
  }

  async #loop(): Promise<void> {
    this.#looping = true;
    let lookAt = performance.now() + INTERVAL_MS;
    while (true) {
      const isTelling = [...this.#ears.values()].some((ear) => ear.changed.size > 0);
      const pauseMs = isTelling && !this.#failing ? APART_MS : lookAt - performance.now();
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      if (this.#ears.size === 0) break;
      try {
        if (performance.now() >= lookAt) {
          lookAt = performance.now() + INTERVAL_MS;
          const changed = this.#followUp(await this.#look());
          for (const ear of this.#ears.values()) for (const id of changed) ear.changed.add(id);
        }
        await this.#tellNext();
        this.#failing = false;
      } catch (error) {
        // Once: it is tried again several times a second.
        if (!this.#failing) console.error("activity can't be followed:", (error as Error).message);
        this.#failing = true;
      }
    }
    this.#looping = false;
    this.#marks = this.#lookedAt = null;
    this.#unsettled.clear();
  }

  /** Read the marks and return the rows whose mark is another than at the last look. */
  async #look(): Promise<string[]> {
    // Compared with the clock too, which may have been set back.
    const rows = await this.connection.driver<{ id: string | null; at: string; now: string }[]>`
      select a.id::text, a.changed_at::text as at, clock_timestamp()::text as now
      from (select least(${this.#lookedAt}::timestamptz, clock_timestamp()) - ${LOOK_BACK}::interval as earliest) since
      left join public.activity a on a.changed_at > since.earliest`;
    const before = this.#marks;
    const marks = new Map(rows.filter((row) => row.id !== null).map((row) => [row.id!, row.at]));
    this.#lookedAt = rows[0].now;
    this.#marks = marks;
    return before === null ? [] : [...marks].filter(([id, at]) => before.get(id) !== at).map(([id]) => id);
  }

  /** Return what changed, and what changed a while ago and not since. */
  #followUp(changed: string[]): string[] {
    const now = performance.now();
    for (const id of changed) this.#unsettled.set(id, now);
    const settled = [...this.#unsettled].filter(([, at]) => now - at >= SETTLED_MS).map(([id]) => id);
    for (const id of settled) this.#unsettled.delete(id);
    return [...changed, ...settled];
  }

  /** Tell the listener that was told longest ago, if the server has time for what it will read. */
  async #tellNext(): Promise<void> {
    const now = performance.now();
    const waiting = [...this.#ears.values()].filter((ear) => ear.changed.size > 0);
    if (waiting.length === 0 || !reads.isLeft(now) && now - this.#lastToldAt < FURTHEST_APART_MS) return;
    const ear = waiting.reduce((first, next) => next.toldAt < first.toldAt ? next : first);
    try {
      const rows = await this.#visible(ear.listener.claims, [...ear.changed]);
      if (this.#ears.has(ear.listener)) ear.listener.tell(rows);
    } catch (error) {
      // It is told when the database answers again.
      if (isUnavailable(error)) throw error;
      console.error("activity can't be told:", (error as Error).message); // a token's role may be unknown: its own loss
    }
    ear.changed.clear();
    ear.toldAt = this.#lastToldAt = now;
  }

  async #visible(claims: Claims, ids: string[]): Promise<ActivityRow[]> {
    const rows = await this.connection.asCaller(claims, OWN_WORK, (sql) =>
      sql<{ record: ActivityRow }[]>`
        select to_jsonb(a) as record from public.activity a where a.id = any(${ids}::uuid[]) order by a.changed_at, a.id`);
    return rows.map((row) => row.record);
  }
}

function explained(error: unknown): Error {
  if (isUnavailable(error)) return new JoinRefused("the database is unavailable; try again shortly");
  if ((error as { code?: string }).code === "42P01") {
    return new JoinRefused("public.activity is not there; apply the migrations");
  }
  return error as Error;
}
