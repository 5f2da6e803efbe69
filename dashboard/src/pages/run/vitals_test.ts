import { deepStrictEqual, strictEqual } from "node:assert";
import type { RunHealth } from "@/api/run.ts";
import { vitalsOf } from "./vitals.ts";

const NOTHING = { groups: 0, flat_groups: 0, tool_calls: 0, tool_errors: 0, mean_staleness: null, max_staleness: null };
const HEALTH = { ...NOTHING, completed: 100, solved: 0, truncated: 72, errors: 3 } as RunHealth;

function tonesOf(health: RunHealth, isEpisodic: boolean) {
  return Object.fromEntries(vitalsOf(health, isEpisodic).map(({ label, tone }) => [label, tone ?? "plain"]));
}

Deno.test("rollouts that are cut off are alarming", () => {
  const { Truncated: truncated, Errors: errors, ...rest } = tonesOf(HEALTH, false);
  deepStrictEqual([truncated, errors], ["bad", "warn"]);
  strictEqual("Success, newest" in rest, true);
});

Deno.test("episodes that nobody judges have no success, and one that its environment ends is no fault", () => {
  const { Truncated: truncated, Errors: errors, ...rest } = tonesOf(HEALTH, true);
  deepStrictEqual([truncated, errors], ["plain", "warn"]);
  strictEqual("Success, newest" in rest, false);
  strictEqual("Success, newest" in tonesOf({ ...HEALTH, solved: 5 }, true), true);
});
