import { strictEqual } from "node:assert";
import { bestOf } from "./results.ts";

const trial = (
  value: number | null,
  status = "completed",
) => ({ value, status } as Parameters<typeof bestOf>[0][number]);

Deno.test("the best trial has the highest or the lowest value, by the sweep's direction", () => {
  const trials = [trial(2), trial(9), trial(null), trial(-3)];
  strictEqual(bestOf(trials, "maximize"), trials[1]);
  strictEqual(bestOf(trials, "minimize"), trials[3]);
});

Deno.test("a trial that failed is not the best one, nor is one without a value", () => {
  strictEqual(bestOf([trial(99, "failed"), trial(null), trial(NaN)], "maximize"), null);
  const trials = [trial(99, "failed"), trial(1)];
  strictEqual(bestOf(trials, "maximize"), trials[1]);
});
