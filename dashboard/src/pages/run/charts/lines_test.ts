import { deepStrictEqual, strictEqual } from "node:assert";
import type { Series } from "@/api/metrics.ts";
import { draw, smoothed, stepAt, stepsWithin, toCsv, xOf } from "./lines.ts";

const second = (n: number) => `2026-01-01T00:00:${String(n).padStart(2, "0")}Z`;
const series = (values: Series["values"]): Series => ({
  steps: values.map((_, place) => place),
  values,
  times: values.map((_, place) => second(place)),
});
const shown = (values: Series["values"]) => [{ run: { id: "r", name: "run", color: "red" }, series: series(values) }];
const PLAIN = { axis: "step", smoothing: 0, isLog: false } as const;

Deno.test("values that are no numbers are gaps, counted and marked", () => {
  const { lines, strange } = draw(shown([1, "NaN", 2, "Infinity", "NaN", "-Infinity"]), PLAIN);
  deepStrictEqual(lines[0]!.y, [1, null, 2, null, null, null]);
  deepStrictEqual(strange, { NaN: 2, Infinity: 1, "-Infinity": 1 });
  deepStrictEqual(lines[0]!.marks, [1, 3, 4, 5]);
});

Deno.test("a logarithmic scale leaves out what it cannot show, and says how much", () => {
  const { lines, notPositive } = draw(shown([1e-300, 0, -1, 1e300]), { ...PLAIN, isLog: true });
  deepStrictEqual([lines[0]!.y, notPositive], [[1e-300, null, null, 1e300], 2]);
});

Deno.test("nothing drawn is no line", () => {
  deepStrictEqual(draw([], PLAIN), { lines: [], strange: {}, notPositive: 0 });
  strictEqual(stepAt([], "step", 3), null);
  strictEqual(toCsv([], "loss"), "run,metric,step,value,time\n");
});

Deno.test("smoothing begins at the first value, keeps gaps, and keeps what does not change", () => {
  deepStrictEqual(smoothed([4, null, 4], 0.9).map((value) => value && Math.round(value * 1e9) / 1e9), [4, null, 4]);
  deepStrictEqual(smoothed([], 0.9), []);
  strictEqual(smoothed([3, 5], 0.5)[0], 3);
});

Deno.test("time on the axis never goes back, and begins where the run did", () => {
  const late = { ...series([1, 2, 3]), times: [second(3), second(1), second(5)] };
  deepStrictEqual(xOf(late, "elapsed", second(1)), [2, 2, 4]);
  deepStrictEqual(xOf(late, "elapsed"), [0, 0, 2]);
  deepStrictEqual(xOf(late, "step"), [0, 1, 2]);
});

Deno.test("a stretch of time is its steps and one more on each side", () => {
  const five = series([0, 0, 0, 0, 0]);
  deepStrictEqual(stepsWithin(five, "elapsed", second(0), 1.5, 2.5), { fromStep: 1, toStep: 3 });
  deepStrictEqual(stepsWithin(five, "elapsed", second(0), 100, 200), { fromStep: 4, toStep: null });
});

Deno.test("names with commas and quotes are quoted", () => {
  const run = { id: "r", name: 'a "b", c', color: "red" };
  strictEqual(
    toCsv([{ run, series: series(["NaN"]) }], "x"),
    `run,metric,step,value,time\n"a ""b"", c",x,0,NaN,${second(0)}\n`,
  );
});
