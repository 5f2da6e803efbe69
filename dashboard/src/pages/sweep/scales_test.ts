import { deepStrictEqual, ok, strictEqual } from "node:assert";
import { axesOf, colorAt, nearestLine, passes, placesOf, type Point, RESULT } from "./scales.ts";

const SPACE = {
  "hyperparameters.learning_rate": { min: 1e-5, max: 1e-1, log: true },
  n_envs: { values: [1, 2, 4] },
  policy: { values: ["MlpPolicy", "CnnPolicy"] },
};
const POINTS: Point[] = [
  { parameters: { "hyperparameters.learning_rate": 1e-3, n_envs: 4, policy: "CnnPolicy" }, value: 10 },
  { parameters: { "hyperparameters.learning_rate": 1e-5, n_envs: 1, policy: "MlpPolicy" }, value: 20 },
  { parameters: { n_envs: 2 }, value: null },
];

Deno.test("there is an axis for each parameter, as its values are, and one for the result", () => {
  const axes = axesOf(POINTS, SPACE, "reward");
  deepStrictEqual(axes.map(({ label, kind }) => [label, kind]), [
    ["learning_rate", "log"],
    ["n_envs", "linear"],
    ["policy", "category"],
    ["reward", "linear"],
  ]);
  strictEqual(axes.at(-1)!.name, RESULT);
  const [middle, first] = POINTS.map((point) => placesOf(axes, point).map((at) => at === null ? null : +at.toFixed(6)));
  deepStrictEqual(middle, [0.5, 1, 1, 0]);
  deepStrictEqual(first, [0, 0, 0, 1]);
});

Deno.test("a trial without a value is not placed on that axis", () => {
  deepStrictEqual(placesOf(axesOf(POINTS, SPACE, "reward"), POINTS[2]!).map((at) => at === null), [
    true,
    false,
    true,
    true,
  ]);
});

Deno.test("values that are one, none, mixed, or no numbers have an axis all the same", () => {
  const axes = axesOf(
    [{ parameters: { one: 3, zero: 0, mixed: 1, flag: true }, value: Infinity }, {
      parameters: { one: 3, zero: 0, mixed: "two", flag: null },
      value: null,
    }],
    {},
    "m",
  );
  deepStrictEqual(axes.map(({ kind }) => kind), ["linear", "linear", "category", "category", "linear"]);
  deepStrictEqual(axes.slice(0, 2).map((axis) => axis.place(axis.name === "one" ? 3 : 0)), [0.5, 0.5]);
  deepStrictEqual([axes[3]!.place(true), axes[3]!.place(null), axes[3]!.place("x")], [0, 1, null]);
  ok(axes.every(({ ticks }) => ticks.every(({ at }) => Number.isFinite(at))));
  strictEqual(axes.at(-1)!.place(NaN), null);
});

Deno.test("positive numbers over several powers of ten are on a logarithmic axis, unless one is not positive", () => {
  const kindOf = (values: number[]) => axesOf(values.map((a) => ({ parameters: { a }, value: 1 })), {}, "m")[0]!.kind;
  deepStrictEqual([[0.001, 1], [1, 2], [0, 1000]].map(kindOf), ["log", "linear", "linear"]);
});

Deno.test("a brush keeps the trials within it, ends included", () => {
  const axes = axesOf(POINTS, SPACE, "reward");
  const kept = (brushes: Record<string, [number, number]>) =>
    POINTS.filter((point) => passes(axes, placesOf(axes, point), brushes)).length;
  strictEqual(kept({}), 3);
  strictEqual(kept({ n_envs: [1, 1] }), 1);
  strictEqual(kept({ n_envs: [0, 0.5] }), 2);
  strictEqual(kept({ n_envs: [0, 0.5], [RESULT]: [0, 1] }), 1);
  strictEqual(kept({ gone: [0, 0] }), 3);
});

Deno.test("the line that is pointed at is the nearest, and none where none is near", () => {
  const lines = [[0, 1], [1, 0], [null, 0.5]];
  strictEqual(nearestLine(lines, 0, 0.05, 0.1), 0);
  strictEqual(nearestLine(lines, 0.9, 0.12, 0.1), 1);
  strictEqual(nearestLine(lines, 0, 0.5, 0.1), null);
  strictEqual(nearestLine(lines, 1, 1, 0.1), 0);
  strictEqual(nearestLine([], 0, 0, 1), null);
});

Deno.test("the words of a place are the value there", () => {
  const [rate, , policy] = axesOf(POINTS, SPACE, "reward");
  strictEqual(rate!.words(0.5), "0.001");
  deepStrictEqual([policy!.words(0), policy!.words(1)], ["MlpPolicy", "CnnPolicy"]);
});

Deno.test("colours go from cold to warm, and are grey without a value", () => {
  deepStrictEqual([0, 0.5, 1, 7].map(colorAt), [
    "rgb(91 107 214)",
    "rgb(42 157 143)",
    "rgb(217 98 43)",
    "rgb(217 98 43)",
  ]);
  strictEqual(colorAt(null), "#8d969f");
});
