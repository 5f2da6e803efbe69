import { deepStrictEqual, ok, strictEqual } from "node:assert";
import { bandOf } from "./band.ts";

Deno.test("at common steps the band is the mean, the lowest and the highest", () => {
  const band = bandOf([{ steps: [0, 10], values: [1, 3] }, { steps: [0, 10], values: [3, 9] }], "range");
  deepStrictEqual(band, { steps: [0, 10], mean: [2, 6], low: [1, 3], high: [3, 9], counts: [2, 2] });
});

Deno.test("a curve without a value at a step counts with what is between its neighbours", () => {
  const band = bandOf([{ steps: [0, 10], values: [0, 10] }, { steps: [0, 4, 10], values: [0, 0, 0] }], "range");
  deepStrictEqual(band.steps, [0, 4, 10]);
  deepStrictEqual(band.high, [0, 4, 10]);
  deepStrictEqual(band.mean, [0, 2, 5]);
});

Deno.test("a curve does not count where it has not begun or has ended", () => {
  const band = bandOf([{ steps: [0, 10, 20], values: [1, 1, 1] }, { steps: [10], values: [5] }], "range");
  deepStrictEqual(band.counts, [1, 2, 1]);
  deepStrictEqual(band.mean, [1, 3, 1]);
});

Deno.test("a standard deviation is that of a sample, and none of one run", () => {
  const band = bandOf([{ steps: [0], values: [1] }, { steps: [0], values: [3] }], "deviation");
  deepStrictEqual([band.low[0], band.high[0]], [2 - Math.SQRT2, 2 + Math.SQRT2]);
  const alone = bandOf([{ steps: [0], values: [1] }], "deviation");
  deepStrictEqual([alone.low, alone.high], [[1], [1]]);
});

Deno.test("values that cannot be drawn are passed over", () => {
  const band = bandOf([{ steps: [0, 1, 2], values: [0, "NaN", 2] }, { steps: [0], values: ["Infinity"] }], "range");
  deepStrictEqual(band, { steps: [0, 2], mean: [0, 2], low: [0, 2], high: [0, 2], counts: [1, 1] });
  deepStrictEqual(bandOf([], "range").steps, []);
  deepStrictEqual(bandOf([{ steps: [], values: [] }], "deviation").steps, []);
});

Deno.test("many steps are thinned to as many as can be drawn, from the first to the last", () => {
  const steps = Array.from({ length: 5_000 }, (_, n) => n);
  const band = bandOf([{ steps, values: steps }, { steps, values: steps.map((n) => -n) }], "range");
  strictEqual(band.steps.length, 400);
  deepStrictEqual([band.steps[0], band.steps.at(-1)], [0, 4_999]);
  ok(band.mean.every((value) => Math.abs(value) < 1e-9));
});
