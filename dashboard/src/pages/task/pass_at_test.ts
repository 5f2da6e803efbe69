import { deepStrictEqual } from "node:assert";
import type { TaskResults } from "@/api/tasks.ts";
import { ksOf, linesOf, MOST_LINES, nameOf } from "./pass_at.ts";

const of = (pass_at: Record<string, number> | null, agent: string | null = "chat") =>
  ({ agent, model: null, pass_at }) as TaskResults[number];

Deno.test("the points of a line are in the order of k, not of its text", () => {
  const [line] = linesOf([of({ 16: 0.9, 2: 0.4, 1: 0.25, 8: 0.8, 4: 0.6 })]);
  deepStrictEqual([line!.x, line!.y], [[1, 2, 4, 8, 16], [0.25, 0.4, 0.6, 0.8, 0.9]]);
});

Deno.test("what has no second point is no line, and too many lines are cut", () => {
  deepStrictEqual(linesOf([of(null), of({ 1: 1 })]), []);
  deepStrictEqual(linesOf(Array.from({ length: 20 }, () => of({ 1: 0, 2: 1 }))).length, MOST_LINES);
});

Deno.test("the columns are the k that somebody has", () => {
  deepStrictEqual(ksOf([of(null), of({ 1: 1, 2: 1 }), of({ 1: 0, 2: 0, 4: 0 })]), [1, 2, 4]);
  deepStrictEqual(ksOf([]), []);
});

Deno.test("who is not named was recorded", () => {
  deepStrictEqual([
    nameOf({ agent: null, model: null }),
    nameOf({ agent: "chat", model: "m" }),
    nameOf({ agent: null, model: "m" }),
  ], ["Recorded", "chat · m", "m"]);
});
