import { deepStrictEqual, strictEqual } from "node:assert";
import type { FoundPage, FoundRollout } from "@/api/rollouts.ts";
import { headFilters, merged } from "./fresh.ts";

/** Rollouts by their second; the newest comes first. */
function made(...seconds: number[]): FoundRollout[] {
  return seconds.map((second) => {
    const time = `2026-01-01T00:00:${String(second).padStart(2, "0")}Z`;
    return { id: String(second), created_at: time, status: "success" } as FoundRollout;
  });
}

function head(rollouts: FoundRollout[], isWhole = false): FoundPage {
  return { rollouts, next: isWhole ? null : { created_at: "x", id: "x" }, searched: 0, searched_to: null };
}

const ids = (rows: FoundRollout[] | null) => rows?.map(({ id }) => Number(id)) ?? null;
const NEWEST = { sort: "newest" } as const;

Deno.test("what is new comes on top of what was loaded", () => {
  deepStrictEqual(ids(merged(made(5, 4, 3, 2), head(made(7, 6, 5)), NEWEST)), [7, 6, 5, 4, 3, 2]);
});

Deno.test("what is not in the list any more goes, where the beginning shows that", () => {
  deepStrictEqual(ids(merged(made(5, 4, 3, 2), head(made(5, 3)), NEWEST)), [5, 3, 2]);
});

Deno.test("between the beginning and what was loaded there may be a gap: then the list begins anew", () => {
  strictEqual(merged(made(3, 2, 1), head(made(9, 8, 7)), NEWEST), null);
  strictEqual(merged(made(3, 2, 1), head(made(9, 8, 7)), { ...NEWEST, text: "x" }), null);
});

Deno.test("an empty list stays empty, and takes what comes", () => {
  deepStrictEqual(ids(merged([], head([], true), NEWEST)), []);
  strictEqual(merged([], head(made(1), true), NEWEST), null);
});

Deno.test("in another order than by age nothing is put on top", () => {
  const by = { sort: "reward_high" } as const;
  deepStrictEqual(ids(merged(made(5, 4), head(made(5)), by)), [5, 4]);
  strictEqual(merged(made(5, 4), head(made(6)), by), null);
});

Deno.test("a slow search is read again only where it is newer than the search", () => {
  const startedAt = Date.parse("2026-01-01T00:10:00Z");
  strictEqual(headFilters({ sort: "oldest", text: "x" }, startedAt), null);
  deepStrictEqual(headFilters(NEWEST, startedAt), NEWEST);
  strictEqual(headFilters({ ...NEWEST, text: "x" }, startedAt)?.created_from, "2026-01-01T00:09:00.000Z");
  const later = "2026-01-01T00:09:30.000Z";
  strictEqual(headFilters({ ...NEWEST, text: "x", created_from: later }, startedAt)?.created_from, later);
});
