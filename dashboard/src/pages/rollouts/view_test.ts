import { deepStrictEqual, strictEqual } from "node:assert";
import { countSet, DEFAULTS, filtersOf, isId, sortOf } from "./view.ts";

Deno.test("the default view filters nothing", () => {
  deepStrictEqual(filtersOf(DEFAULTS), { sort: "newest" });
  strictEqual(countSet(DEFAULTS), 0);
});

Deno.test("what is no number or no time filters nothing", () => {
  const odd = {
    reward_from: "",
    reward_to: " ",
    turns_from: "x",
    turns_to: "NaN",
    step_from: "Infinity",
    from: "soon",
  };
  deepStrictEqual(filtersOf({ ...DEFAULTS, ...odd }), { sort: "newest" });
});

Deno.test("numbers are taken as they are, whole where there is nothing between", () => {
  const view = { ...DEFAULTS, reward_from: "-1e-9", reward_to: "0", turns_from: "2.9", step_to: "0" };
  deepStrictEqual(filtersOf(view), { reward_from: -1e-9, reward_to: 0, turns_from: 2, step_to: 0, sort: "newest" });
});

Deno.test("equal filters are equal whatever order they were chosen in", () => {
  const one = filtersOf({ ...DEFAULTS, status: ["failed", "error"] });
  deepStrictEqual(one, filtersOf({ ...DEFAULTS, status: ["error", "failed"] }));
});

Deno.test("by reward there is an order within a run only", () => {
  strictEqual(sortOf({ ...DEFAULTS, sort: "reward_high" }), "newest");
  strictEqual(sortOf({ ...DEFAULTS, sort: "reward_high", run: "r" }), "reward_high");
  strictEqual(sortOf({ ...DEFAULTS, sort: "no such order" }), "newest");
});

Deno.test("an id is one by its form", () => {
  strictEqual(isId("0192f0c1-7a10-7c3e-9d55-2b8c4f1e6a01"), true);
  for (const text of [null, "", "0192f0c1", "0192f0c1-7a10-7c3e-9d55-2b8c4f1e6a01 "]) strictEqual(isId(text), false);
});

Deno.test("a time of the database is kept to the microsecond, and any other is understood as local", () => {
  const at = "2026-01-02T03:04:05.678901+00:00";
  deepStrictEqual(filtersOf({ ...DEFAULTS, from: at, to: at }), { created_from: at, created_to: at, sort: "newest" });
  const local = "2026-01-02T03:04";
  deepStrictEqual(filtersOf({ ...DEFAULTS, from: local }).created_from, new Date(local).toISOString());
});
