/**
 * Decides which queries to read again, and when, after the record changed.
 *
 * A signal says that a run changed; the writes of the second after it send none, so each is followed by a second look,
 * unless the server follows up itself. A query that took long is read again less often, so that watching never becomes
 * the load.
 */
import type { Query, QueryClient } from "@tanstack/react-query";

/** What a query shows: a run by id, what hangs on no run (null), or everything. */
export type Subject = string | null | "*";

const SECOND_LOOK_MS = 1_500;
const SHORTEST_PAUSE_MS = 700;
/** What was read within this time need not be read because a signal may have been lost. */
const FRESH_MS = 30_000;
/** A query rests this many times as long as it took. */
const REST = 4;

export class Refresher {
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();
  readonly #secondLooks = new Set<ReturnType<typeof setTimeout>>();
  readonly #durations = new Map<string, number>();

  constructor(readonly client: QueryClient) {}

  /** Remember how long a query took; its next refresh waits accordingly. */
  timed(hash: string, milliseconds: number): void {
    this.#durations.set(hash, milliseconds);
  }

  /** Read again what shows this run, and once more when the second after the signal is over, unless told then. */
  changed(run: string | null, { isFollowedUp = false } = {}): void {
    const matches = (subject: Subject) => subject === "*" || subject === run;
    if (isFollowedUp) this.#refresh(matches);
    else this.#refreshTwice(matches);
  }

  /** Forget what was to be read again: nobody looks. */
  rest(): void {
    for (const timer of [...this.#secondLooks, ...this.#timers.values()]) clearTimeout(timer);
    this.#secondLooks.clear();
    this.#timers.clear();
  }

  /** Read everything again, as after a change: signals may have been missed. */
  everything(): void {
    this.#refreshTwice(() => true);
  }

  /** Read again what has not been read for a while. */
  anyway(): void {
    this.#refresh(() => true, FRESH_MS);
  }

  #refreshTwice(matches: (subject: Subject) => boolean): void {
    this.#refresh(matches);
    const secondLook = setTimeout(() => {
      this.#secondLooks.delete(secondLook);
      this.#refresh(matches);
    }, SECOND_LOOK_MS);
    this.#secondLooks.add(secondLook);
  }

  #refresh(matches: (subject: Subject) => boolean, freshMs = 0): void {
    for (const query of this.client.getQueryCache().findAll({ type: "active" })) {
      const subject = query.meta?.subject as Subject | undefined;
      const isFresh = Date.now() - query.state.dataUpdatedAt < freshMs;
      if (subject !== undefined && matches(subject) && !isFresh) this.#schedule(query);
    }
  }

  #schedule(query: Query): void {
    if (this.#timers.has(query.queryHash)) return;
    const timer = setTimeout(() => {
      this.#timers.delete(query.queryHash);
      if (!query.isActive()) return;
      // It is being read, or was meanwhile and rests now.
      if (this.#waitFor(query) > 0) return this.#schedule(query);
      void this.client.invalidateQueries({ queryKey: query.queryKey, exact: true });
    }, this.#waitFor(query));
    this.#timers.set(query.queryHash, timer);
  }

  /** How long until a query may be read again. */
  #waitFor(query: Query): number {
    const rest = Math.max(SHORTEST_PAUSE_MS, REST * (this.#durations.get(query.queryHash) ?? 0));
    // A read under way began before the change: it must be read again, but to cut it short would starve a slow query.
    const atLeast = query.state.fetchStatus === "idle" ? 0 : SHORTEST_PAUSE_MS;
    return Math.max(atLeast, query.state.dataUpdatedAt + rest - Date.now());
  }
}
