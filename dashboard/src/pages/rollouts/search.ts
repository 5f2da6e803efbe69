/**
 * A search that goes on until a page is full, its end is reached, or someone stops it.
 *
 * The database answers each call in bounded time, also with less than a page; so a page can take many calls. Searches are kept for a
 * while, so that Back finds the list as it was left.
 */
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { type Cursor, findRollouts, type FoundPage, type FoundRollout, type RolloutFilters } from "@/api/rollouts.ts";

export const PAGE = 50;
const KEPT_SEARCHES = 8;
const FIRST_BUDGET_MS = 300;
/** Once nothing was found at once, fewer and longer calls get further. */
const LATER_BUDGET_MS = 800;

export interface Progress {
  rows: FoundRollout[];
  state: "searching" | "full" | "stopped" | "ended" | "failed";
  searched: number;
  searchedTo: string | null;
  error: Error | null;
}

const NOTHING: Progress = { rows: [], state: "stopped", searched: 0, searchedTo: null, error: null };

export class Search {
  progress: Progress = NOTHING;
  readonly startedAt = Date.now();
  firstPage: FoundPage | null = null;
  #isStoppedByPerson = false;
  #next: Cursor | null = null;
  #abort: AbortController | null = null;
  readonly #listeners = new Set<() => void>();

  constructor(readonly filters: RolloutFilters) {}

  subscribe = (listener: () => void): () => void => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #show(changes: Partial<Progress>): void {
    this.progress = { ...this.progress, ...changes };
    this.#listeners.forEach((listener) => listener());
  }

  /** Find another page of rows. */
  async more(): Promise<void> {
    if (this.progress.state === "searching" || this.progress.state === "ended") return;
    const abort = this.#abort = new AbortController();
    this.#isStoppedByPerson = false;
    const wanted = this.progress.rows.length + PAGE;
    this.#show({ state: "searching", error: null });
    try {
      for (let calls = 0, isDone = false; !isDone; calls++) {
        const pageSize = wanted - this.progress.rows.length;
        const budgetMs = calls < 2 ? FIRST_BUDGET_MS : LATER_BUDGET_MS;
        const page = await findRollouts(this.filters, this.#next, { pageSize, budgetMs }, abort.signal);
        if (abort.signal.aborted) return;
        isDone = this.#take(page, wanted);
      }
    } catch (error) {
      if (!abort.signal.aborted) this.#show({ state: "failed", error: error as Error });
    }
  }

  /** Add what was found; true: enough for now. */
  #take(page: FoundPage, wanted: number): boolean {
    const known = new Set(this.progress.rows.map((row) => row.id));
    const rows = [...this.progress.rows, ...page.rollouts.filter((row) => !known.has(row.id))];
    this.firstPage ??= page;
    this.#next = page.next;
    this.#show({
      rows,
      state: page.next === null ? "ended" : rows.length >= wanted ? "full" : "searching",
      searched: this.progress.searched + page.searched,
      searchedTo: page.searched_to ?? this.progress.searchedTo,
    });
    return this.progress.state !== "searching";
  }

  stop(): void {
    this.#isStoppedByPerson = true;
    this.rest();
  }

  /** Nobody looks any more. */
  rest(): void {
    if (this.progress.state !== "searching") return;
    this.#abort?.abort();
    this.#show({ state: "stopped" });
  }

  /** Someone looks: go on, unless a person said to stop. */
  wake(): void {
    if (this.progress.state === "stopped" && !this.#isStoppedByPerson) void this.more();
  }

  /** Begin anew with a page that was read from the beginning. */
  restart(page: FoundPage): void {
    this.#abort?.abort();
    this.progress = NOTHING;
    this.#take(page, 0);
  }

  /** Show other rows, found at the top of what this search walks along. */
  replace(rows: FoundRollout[]): void {
    this.#show({ rows });
  }

  /** Rows as they are by now, in their places. */
  update(changed: Map<string, Partial<FoundRollout>>): void {
    let isSame = true;
    const rows = this.progress.rows.map((row) => {
      const now = changed.get(row.id);
      if (!now || isEqual(row, now)) return row;
      isSame = false;
      return { ...row, ...now };
    });
    if (!isSame) this.#show({ rows });
  }
}

function isEqual(row: FoundRollout, now: Partial<FoundRollout>): boolean {
  return Object.entries(now).every(([name, value]) =>
    JSON.stringify(row[name as keyof FoundRollout]) === JSON.stringify(value)
  );
}

const kept = new Map<string, Search>();

function searchFor(key: string, filters: RolloutFilters): Search {
  const search = kept.get(key) ?? new Search(filters);
  // The last used is the last to be forgotten.
  kept.delete(key);
  kept.set(key, search);
  if (kept.size > KEPT_SEARCHES) kept.delete(kept.keys().next().value!);
  return search;
}

/** The search for these filters; another one stops when they change. */
export function useSearch(filters: RolloutFilters, who: string | null): [Search, Progress] {
  const key = JSON.stringify([who, filters]);
  const search = useMemo(() => searchFor(key, filters), [key]);
  const progress = useSyncExternalStore(search.subscribe, () => search.progress);
  useEffect(() => {
    search.wake();
    return () => search.rest();
  }, [search]);
  return [search, progress];
}
