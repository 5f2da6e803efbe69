/** The rules of a grid world without a map. They are those of the training service, which has the last word. */
import { type Cell, colorOf, COLORS, MAX_SIDE, OBJECT_KINDS } from "./grid_terms.ts";
import { wrapperProblems } from "./gymnasium.ts";
import {
  amount,
  asList,
  asObject,
  type Check,
  checkFields,
  type Fields,
  flag,
  isCell,
  matching,
  oneOf,
  optional,
  type Problem,
  whole,
} from "./problems.ts";

const NAME = matching(/^[A-Za-z][\w-]{0,31}$/, "must be a letter and up to 31 letters, digits, _ or -");
const SYMBOL = optional(matching(/^[!-~]$/, "must be one visible character"));
const COLOR: Check = optional((value) =>
  colorOf(value) ? null : `must be #rrggbb, or one of ${Object.keys(COLORS).join(", ")}`
);
const CELL: Check = (value) => isCell(value) ? null : "must be [x, y], whole numbers from 0";

const SIDES = { required: ["width", "height"], fields: { width: whole(1, MAX_SIDE), height: whole(1, MAX_SIDE) } };
const OBJECT = {
  required: ["name", "kind"],
  fields: {
    name: NAME,
    kind: oneOf(...OBJECT_KINDS),
    random: whole(0, 64),
    color: COLOR,
    reward: optional(amount),
    symbol: SYMBOL,
  },
  known: ["positions"],
};
const AGENT = {
  required: ["name"],
  fields: {
    name: NAME,
    moves: oneOf("trained", "random", "still"),
    start: optional(CELL),
    color: COLOR,
    reward: amount,
    ends: flag,
    symbol: SYMBOL,
  },
};
const PARTS: Record<string, Record<string, Check>> = {
  rewards: { step: amount, bump: amount, goal: amount, item: amount, trap: amount },
  ends: { goal: flag, all_items: flag, trap: flag, max_steps: optional(whole(1, 1_000_000)) },
  observation: { kind: oneOf("grid", "window", "coordinates"), radius: optional(whole(1, MAX_SIDE)) },
  actions: { directions: oneOf(4, 8), pick: flag, noop: flag },
};

export function checkGrid(spec: Fields): Problem[] {
  const problems = [...shapeProblems(spec), ...wrapperProblems(spec.wrappers)];
  // Where a field is not what it should be, what it means for others cannot be said.
  return problems.length ? problems : [...meaningProblems(spec), ...nameProblems(spec), ...cellProblems(spec)];
}

function shapeProblems(spec: Fields): Problem[] {
  const problems = checkFields(spec, "", {
    required: ["size"],
    fields: { kind: oneOf("grid"), seed: optional(whole(0, Number.MAX_SAFE_INTEGER)) },
    known: ["size", "walls", "objects", "agents", "wrappers", "map", "legend", ...Object.keys(PARTS)],
  });
  if (spec.size !== undefined) problems.push(...checkFields(spec.size, "size", SIDES));
  problems.push(...cellListProblems(spec.walls, "walls"));
  for (const [field, shape, most] of [["objects", OBJECT, 32], ["agents", AGENT, 16]] as const) {
    if (spec[field] === undefined) continue;
    const all = asList(spec[field]);
    if (!all || all.length > most) problems.push({ field, message: `must be a list of at most ${most}` });
    all?.forEach((each, place) => {
      problems.push(...checkFields(each, `${field}.${place}`, shape));
      if (field === "objects") {
        problems.push(...cellListProblems(asObject(each)?.positions, `objects.${place}.positions`));
      }
    });
  }
  for (const [part, fields] of Object.entries(PARTS)) {
    if (spec[part] !== undefined) problems.push(...checkFields(spec[part], part, { fields }));
  }
  return problems;
}

function cellListProblems(value: unknown, field: string): Problem[] {
  if (value === undefined) return [];
  const cells = asList(value);
  if (!cells) return [{ field, message: "must be a list of cells, such as [[0, 1], [2, 3]]" }];
  return cells.flatMap((cell, place) => isCell(cell) ? [] : [{ field: `${field}.${place}`, message: CELL(cell)! }]);
}

function objectsOf(spec: Fields): Fields[] {
  return (spec.objects ?? []) as Fields[];
}

function agentsOf(spec: Fields): Fields[] {
  return (spec.agents ?? [{ name: "agent" }]) as Fields[];
}

function positionsOf(thing: Fields): Cell[] {
  return (thing.positions ?? []) as Cell[];
}

function meaningProblems(spec: Fields): Problem[] {
  const problems: Problem[] = [];
  objectsOf(spec).forEach((thing, place) => {
    if (!positionsOf(thing).length && !thing.random) {
      problems.push({
        field: `objects.${place}.positions`,
        message: "give positions, or in random how many there are",
      });
    }
    if (thing.kind === "block" && typeof thing.reward === "number") {
      problems.push({ field: `objects.${place}.reward`, message: "a block cannot be reached; see rewards.bump" });
    }
  });
  const agents = agentsOf(spec);
  if (agents.filter((agent) => (agent.moves ?? "trained") === "trained").length !== 1) {
    problems.push({ field: "agents", message: 'exactly one must be trained; others have moves "random" or "still"' });
  }
  agents.forEach((agent, place) => {
    if ((agent.moves ?? "trained") === "trained" && (agent.reward || agent.ends)) {
      problems.push({
        field: `agents.${place}.reward`,
        message: "reward and ends are for the agents that the trained one meets",
      });
    }
  });
  const observation = asObject(spec.observation) ?? {};
  if (typeof observation.radius === "number" && observation.kind !== "window") {
    problems.push({ field: "observation.radius", message: "only a window has a radius" });
  }
  if (asObject(spec.ends)?.all_items && !objectsOf(spec).some((thing) => thing.kind === "item")) {
    problems.push({ field: "ends.all_items", message: "there are no items" });
  }
  return problems;
}

function nameProblems(spec: Fields): Problem[] {
  const problems: Problem[] = [];
  const [names, symbols] = [new Set<unknown>(["wall"]), new Set<unknown>(["#", "."])];
  const all = [
    ...objectsOf(spec).map((thing, place) => ({ field: `objects.${place}`, thing })),
    ...agentsOf(spec).map((thing, place) => ({ field: `agents.${place}`, thing })),
  ];
  for (const { field, thing } of all) {
    if (names.has(thing.name)) {
      problems.push({ field: `${field}.name`, message: `${thing.name} is the name of something else` });
    }
    names.add(thing.name);
    if (typeof thing.symbol !== "string") continue;
    if (symbols.has(thing.symbol)) {
      problems.push({ field: `${field}.symbol`, message: `${thing.symbol} is the symbol of something else` });
    }
    symbols.add(thing.symbol);
  }
  return problems;
}

function placesOf(spec: Fields): { field: string; cell: Cell }[] {
  return [
    ...((spec.walls ?? []) as Cell[]).map((cell, place) => ({ field: `walls.${place}`, cell })),
    ...objectsOf(spec).flatMap((thing, number) =>
      positionsOf(thing).map((cell, place) => ({ field: `objects.${number}.positions.${place}`, cell }))
    ),
    ...agentsOf(spec).flatMap((agent, place) =>
      isCell(agent.start) ? [{ field: `agents.${place}.start`, cell: agent.start }] : []
    ),
  ];
}

const keyOf = ([x, y]: Cell) => `${x},${y}`;

function cellProblems(spec: Fields): Problem[] {
  const { width, height } = spec.size as { width: number; height: number };
  const problems: Problem[] = [];
  const taken = new Map<string, string>();
  for (const { field, cell } of placesOf(spec)) {
    const other = taken.get(keyOf(cell));
    if (cell[0] >= width || cell[1] >= height) {
      problems.push({ field, message: `[${cell.join(", ")}] is outside of ${width} x ${height} cells` });
    } else if (other) {
      problems.push({ field, message: `[${cell.join(", ")}] is taken by ${other}` });
    } else taken.set(keyOf(cell), field);
  }
  return problems.length ? problems : wayProblems(spec, width, height);
}

/** Goals and items must be reachable, where it is known from where. */
function wayProblems(spec: Fields, width: number, height: number): Problem[] {
  const trained = agentsOf(spec).find((agent) => (agent.moves ?? "trained") === "trained");
  if (!isCell(trained?.start)) return [];
  const ends = asObject(spec.ends) ?? {};
  const closed = new Set(((spec.walls ?? []) as Cell[]).map(keyOf));
  for (const thing of objectsOf(spec)) {
    const isFinal = (thing.kind === "goal" && ends.goal !== false) || (thing.kind === "trap" && ends.trap !== false);
    if (thing.kind === "block" || isFinal) positionsOf(thing).forEach((cell) => closed.add(keyOf(cell)));
  }
  for (const agent of agentsOf(spec)) {
    if (agent.moves === "still" && agent.ends && isCell(agent.start)) closed.add(keyOf(agent.start));
  }
  const steps = asObject(spec.actions)?.directions === 8 ? EIGHT : EIGHT.filter(([x, y]) => x === 0 || y === 0);
  const found = reachable(trained.start, width, height, closed, steps);
  return objectsOf(spec).flatMap((thing, number) =>
    thing.kind !== "goal" && thing.kind !== "item"
      ? []
      : positionsOf(thing).flatMap((cell, place) =>
        found.has(keyOf(cell)) || steps.some(([x, y]) => found.has(keyOf([cell[0] - x, cell[1] - y]))) ? [] : [{
          field: `objects.${number}.positions.${place}`,
          message: `[${cell.join(", ")}] cannot be reached from the agent's start`,
        }]
      )
  );
}

const EIGHT: Cell[] = [[0, -1], [1, 0], [0, 1], [-1, 0], [1, -1], [1, 1], [-1, 1], [-1, -1]];

function reachable(from: Cell, width: number, height: number, closed: Set<string>, steps: Cell[]): Set<string> {
  const found = new Set([keyOf(from)]);
  const waiting = [from];
  for (let cell = waiting.pop(); cell; cell = waiting.pop()) {
    for (const [dx, dy] of steps) {
      const next: Cell = [cell[0] + dx, cell[1] + dy];
      const isInside = next[0] >= 0 && next[1] >= 0 && next[0] < width && next[1] < height;
      if (!isInside || found.has(keyOf(next)) || closed.has(keyOf(next))) continue;
      found.add(keyOf(next));
      waiting.push(next);
    }
  }
  return found;
}
