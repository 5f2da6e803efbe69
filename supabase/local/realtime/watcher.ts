/** Looks for changed rows of `public.activity`, for as long as someone listens. */
import { forEverybody } from "../client.ts";
import { type Claims, type GatewayConnection, OWN_WORK } from "../database.ts";
import { isUnavailable } from "../errors.ts";
import { requests, Slots } from "../pace.ts";
import type { ActivityRow } from "./activity.ts";
import { JoinRefused } from "./bindings.ts";

const INTERVAL_MS = 400;
/** How many listeners are told in a second, at the most: each then reads what its page shows. */
const TOLD_PER_SECOND = 20;
/** And how many at once, less the requests under way: a busy server causes itself no more work than one by one. */
const TOLD_AT_ONCE = 8;
/** A mark is dated when it is made and seen when its transaction ends; transactions longer than this are rare. */
const LOOK_BACK = "5 minutes";

/** One caller's ear: told of changed rows that it may see. */
export interface Listener {
  /** Listeners with equal tokens are asked for once. */
  readonly token: string;
  readonly claims: Claims;
  tell(rows: ActivityRow[]): void;
}

/** What a listener is yet to be told, and when. */
interface Ear {
  readonly listener: Listener;
  readonly changed: Set<string>;
  dueAt: number;
}

export class ActivityWatcher {
  readonly #ears = new Map<Listener, Ear>();
  readonly #slots = new Slots(TOLD_PER_SECOND, 0);
  /** When each row of the last few minutes was marked, as of the last look; null while nobody listens. */
  #marks: Map<string, string> | null = null;
  #lookedAt: string | null = null;
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
    this.#ears.set(listener, { listener, changed: new Set(), dueAt: this.#slots.reserve(performance.now()) });
    if (!this.#looping) forEverybody(() => this.#loop());
  }

  remove(listener: Listener): void {
    this.#ears.delete(listener);
  }

  async #loop(): Promise<void> {
    this.#looping = true;
    while (true) {
      await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
      if (this.#ears.size === 0) break;
      await this.#lookAndTell();
    }
    this.#looping = false;
    this.#marks = this.#lookedAt = null;
  }

  async #lookAndTell(): Promise<void> {
    try {
      const changed = await this.#look();
      for (const ear of this.#ears.values()) for (const id of changed) ear.changed.add(id);
      await this.#tellDue();
      this.#failing = false;
    } catch (error) {
      // Once: it is tried again several times a second.
      if (!this.#failing) console.error("activity can't be followed:", (error as Error).message);
      this.#failing = true;
    }
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

  /** Tell those whose time has come; of each caller the database is asked once which of the rows it may see. */
  async #tellDue(): Promise<void> {
    const now = performance.now();
    const due = [...this.#ears.values()].filter((ear) => ear.changed.size > 0 && ear.dueAt <= now)
      .sort((a, b) => a.dueAt - b.dueAt)
      .slice(0, Math.max(1, TOLD_AT_ONCE - requests.underWay));
    for (const ears of Map.groupBy(due, (ear) => ear.listener.token).values()) {
      try {
        const ids = new Set(ears.flatMap((ear) => [...ear.changed]));
        const rows = await this.#visible(ears[0].listener.claims, [...ids]);
        for (const { listener, changed } of ears) listener.tell(rows.filter((row) => changed.has(row.id)));
      } catch (error) {
        // They are told when the database answers again.
        if (isUnavailable(error)) throw error;
        console.error("activity can't be told:", (error as Error).message); // a token's role may be unknown: its own loss
      }
      for (const ear of ears) {
        ear.changed.clear();
        ear.dueAt = this.#slots.reserve(now);
      }
    }
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
