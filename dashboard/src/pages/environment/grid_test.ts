import { deepStrictEqual, strictEqual } from "node:assert";
import { type Grid, readGrid } from "./grid.ts";
import { checkGymnasium } from "./gymnasium.ts";
import { paint } from "./paint.ts";
import type { Fields } from "./problems.ts";
import wrong from "./wrong_grids.json" with { type: "json" };

const MAP = { kind: "grid", map: ["#####", "#A.G#", "#####"] };

function fieldsOf(spec: unknown): string[] {
  return readGrid(spec).problems.map(({ field }) => field);
}

function gridOf(spec: unknown): Grid {
  return readGrid(spec).grid!;
}

Deno.test("a map is drawn with its walls, its goal and the start of the agent", () => {
  const { grid, problems } = readGrid(MAP);
  deepStrictEqual(problems, []);
  deepStrictEqual([grid!.width, grid!.height, grid!.walls.length], [5, 3, 12]);
  deepStrictEqual(grid!.things.map(({ kind, cells }) => ({ kind, cells })), [{ kind: "goal", cells: [[3, 1]] }]);
  deepStrictEqual(grid!.agents[0]!.start, [1, 1]);
});

Deno.test("a legend names objects and agents, with their own colours", () => {
  const spec = {
    map: ["AK.M"],
    legend: { K: "key", M: "ghost" },
    objects: [{ name: "key", kind: "item", color: "red" }],
    agents: [{ name: "me" }, { name: "ghost", moves: "random" }],
  };
  const { grid, problems } = readGrid(spec);
  deepStrictEqual(problems, []);
  strictEqual(grid!.things[0]!.color, "#d93a3a");
  deepStrictEqual(grid!.agents.map(({ name, start }) => [name, start]), [["me", [0, 0]], ["ghost", [3, 0]]]);
});

Deno.test("size, walls and objects draw the same as a map", () => {
  const lists = {
    kind: "grid",
    size: { width: 3, height: 1 },
    walls: [],
    objects: [{ name: "goal", kind: "goal", positions: [[2, 0]] }],
    agents: [{ name: "agent", start: [0, 0] }],
  };
  deepStrictEqual(gridOf(lists), gridOf({ map: ["A.G"] }));
});

Deno.test("what is wrong is named by its field", () => {
  for (const { fields, spec } of wrong) deepStrictEqual(fieldsOf(spec), fields, JSON.stringify(spec));
});

Deno.test("diagonal moves reach around a corner", () => {
  strictEqual(fieldsOf({ map: ["A#", "#G"] }).length, 1);
  deepStrictEqual(fieldsOf({ map: ["A#", "#G"], actions: { directions: 8 } }), []);
});

Deno.test("a grid that is not right is drawn as far as it goes", () => {
  const grid = gridOf({ size: { width: 2, height: 2 }, walls: [[0, 0], [9, 9], "x"], objects: [{ name: 1 }, null] });
  deepStrictEqual([grid.walls, grid.things], [[[0, 0]], []]);
  strictEqual(gridOf({ map: ["A?G"] }).things.length, 1);
});

Deno.test("pointing at cells draws and erases, on a map as in lists", () => {
  const lists: Fields = { size: { width: 3, height: 1 }, agents: [{ name: "agent", start: [0, 0] }] };
  for (const start of [lists, { map: ["A.."] }]) {
    const withGoal = paint(start, [2, 0], "goal");
    deepStrictEqual(gridOf(withGoal).things.map(({ kind, cells }) => [kind, cells]), [["goal", [[2, 0]]]]);
    const walled = paint(withGoal, [2, 0], "wall");
    deepStrictEqual([gridOf(walled).walls, gridOf(walled).things], [[[2, 0]], []]);
    deepStrictEqual(gridOf(paint(walled, [2, 0], "free")).walls, []);
    const moved = gridOf(paint(withGoal, [1, 0], "start"));
    deepStrictEqual(moved.agents.map((agent) => agent.start), [[1, 0]]);
  }
});

Deno.test("a Gymnasium environment has an id or an entry point, and wrappers that are known", () => {
  const fields = (spec: unknown) => checkGymnasium(spec).map(({ field }) => field);
  deepStrictEqual(
    fields({ id: "CartPole-v1", wrappers: [{ name: "TimeLimit", arguments: { max_episode_steps: 5 } }] }),
    [],
  );
  deepStrictEqual(fields({ entry_point: "package.module:Class" }), []);
  deepStrictEqual(fields({}), ["id"]);
  deepStrictEqual(fields({ id: "a", entry_point: "a:b" }), ["id"]);
  deepStrictEqual(fields({ id: "Cart Pole" }), ["id"]);
  deepStrictEqual(fields({ id: "a", arguments: [] }), ["arguments"]);
  deepStrictEqual(fields({ id: "a", wrapper: [] }), ["wrapper"]);
  deepStrictEqual(fields({ id: "a", wrappers: [{ name: "TimeLimit", arguments: { steps: 5 } }] }), [
    "wrappers.0.arguments",
  ]);
});
