/** What was recorded since the list was read: rows change in their places, new ones come on top when nothing is moved by it. */
import { useEffect, useMemo, useState } from "react";
import {
  findRollouts,
  type FoundPage,
  type FoundRollout,
  isSlow,
  type RolloutFilters,
  rolloutsNow,
} from "@/api/rollouts.ts";
import { queryClient, useLive } from "@/live/query.ts";
import { PAGE, type Progress, type Search } from "./search.ts";

/** Recorders deliver late, and their clocks differ. */
const LATE_MS = 60_000;
const TOP_PIXELS = 40;
const MOST_UNFINISHED = 100;
const UNFINISHED = new Set(["pending", "provisioning", "running"]);

/** What to read again: the beginning of the list; where that takes long, what is newer than the search. */
export function headFilters(filters: RolloutFilters, startedAt: number): RolloutFilters | null {
  if (!isSlow(filters)) return filters;
  if (filters.sort !== "newest") return null;
  const since = new Date(startedAt - LATE_MS).toISOString();
  return { ...filters, created_from: [since, filters.created_from ?? ""].sort().at(-1) };
}

function isBelow(row: FoundRollout, last: FoundRollout): boolean {
  return row.created_at < last.created_at || (row.created_at === last.created_at && row.id > last.id);
}

/** The list with what is at its beginning now. null: there is a gap between the two; begin anew. */
export function merged(loaded: FoundRollout[], head: FoundPage, filters: RolloutFilters): FoundRollout[] | null {
  const known = new Set(loaded.map((row) => row.id));
  const isJoined = head.next === null || head.rollouts.length === 0 || head.rollouts.some((row) => known.has(row.id));
  if (isSlow(filters)) return isJoined ? [...head.rollouts.filter((row) => !known.has(row.id)), ...loaded] : null;
  const last = head.rollouts.at(-1);
  if (filters.sort !== "newest" || !last || head.next === null) return isBeginning(head, loaded) ? loaded : null;
  if (!isJoined) return null;
  return [...head.rollouts, ...loaded.filter((row) => isBelow(row, last))];
}

function isBeginning(head: FoundPage, loaded: FoundRollout[]): boolean {
  const isWhole = head.next === null ? head.rollouts.length === loaded.length : head.rollouts.length <= loaded.length;
  return isWhole && head.rollouts.every((row, index) => row.id === loaded[index]?.id);
}

export interface News {
  /** How many rows are new, "some" where the order changed. */
  count: number | "some";
  isMore: boolean;
  show: () => void;
}

/** Keeps the list of a search true. What would move the rows that someone reads is handed back to be offered. */
export function useNews(search: Search, progress: Progress): News | null {
  const { filters } = search;
  const subject = filters.training_run_id ?? "*";
  const asked = useMemo(() => headFilters(filters, search.startedAt), [search]);
  const key = ["rollouts", "head", asked];
  const isRead = progress.state !== "searching" && search.firstPage !== null;
  useMemo(() => {
    // The search has just read the beginning: no need to read it twice.
    if (isRead && asked === filters && !queryClient.getQueryData(key)) queryClient.setQueryData(key, search.firstPage);
  }, [search, isRead]);
  const head = useLive(
    subject,
    key,
    (signal) => findRollouts(asked!, null, { pageSize: PAGE, budgetMs: 300 }, signal),
    { enabled: isRead && asked !== null },
  ).data;
  useEffect(() => {
    // A list that was left and found again is older than the last signal.
    if (Date.now() - search.startedAt > 1_000) void queryClient.invalidateQueries({ queryKey: key, exact: true });
  }, [search]);
  useUnfinished(search, progress, head, subject);

  const isAtTop = useIsAtTop();
  const news = useMemo(() => head && isRead ? newsOf(search, progress, head) : null, [search, progress, head, isRead]);
  useEffect(() => {
    if (head && isRead) search.update(new Map(head.rollouts.map((row) => [row.id, row])));
  }, [search, head, isRead]);
  const isUnmoved = news !== null && isAtTop && (filters.sort === "newest" || progress.rows.length <= PAGE);
  useEffect(() => {
    if (isUnmoved) news?.show();
  }, [news, isUnmoved]);
  return isUnmoved ? null : news;
}

function newsOf(search: Search, { rows, state }: Progress, head: FoundPage): News | null {
  const next = merged(rows, head, search.filters);
  const known = new Set(rows.map((row) => row.id));
  const fresh = head.rollouts.filter((row) => !known.has(row.id)).length;
  if (next === null) {
    // A search that was stopped or failed on its way has not read what the beginning is compared to.
    if (state !== "full" && state !== "ended") return null;
    const isMore = fresh === head.rollouts.length && head.next !== null;
    return { count: fresh || "some", isMore, show: () => search.restart(head) };
  }
  const isSame = next.length === rows.length && next.every((row, index) => row.id === rows[index]?.id);
  if (isSame) return null;
  return { count: fresh || "some", isMore: false, show: () => search.replace(next) };
}

/** Rows further down that were not finished when they were read. */
function useUnfinished(search: Search, progress: Progress, head: FoundPage | undefined, subject: string): void {
  const ids = useMemo(() => {
    const read = new Set(head?.rollouts.map((row) => row.id));
    const unfinished = progress.rows.filter((row) => UNFINISHED.has(row.status) && !read.has(row.id));
    return unfinished.slice(0, MOST_UNFINISHED).map((row) => row.id);
  }, [progress.rows, head]);
  const now = useLive(
    subject,
    ["rollouts", "now", ids],
    (signal) => rolloutsNow(ids, signal),
    { enabled: ids.length > 0 },
  ).data;
  useEffect(() => {
    if (now) search.update(new Map(now.map((row) => [row.id, row])));
  }, [search, now]);
}

function useIsAtTop(): boolean {
  const [isAtTop, setIsAtTop] = useState(() => scrollY < TOP_PIXELS);
  useEffect(() => {
    const look = () => setIsAtTop(scrollY < TOP_PIXELS);
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, []);
  return isAtTop;
}
