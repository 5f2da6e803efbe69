/** Grid worlds as the training service reads them: what there is to draw, and what is wrong, by field. */
import { checkGrid } from "./grid_check.ts";
import { type Cell, colorOf, COLORS, MAX_SIDE, OBJECT_KINDS, type ObjectKind } from "./grid_terms.ts";
import { asList, asObject, type Fields, isCell, isWhole, type Problem } from "./problems.ts";

export interface Thing {
  name: string;
  kind: ObjectKind;
  color: string;
  cells: Cell[];
  /** How many more there are, elsewhere in every episode. */
  random: number;
}

export interface Agent {
  name: string;
  moves: "trained" | "random" | "still";
  color: string;
  /** Null: elsewhere in every episode. */
  start: Cell | null;
}

/** What can be drawn of a spec, even of one that is not whole yet. */
export interface Grid {
  width: number;
  height: number;
  walls: Cell[];
  things: Thing[];
  agents: Agent[];
}

const USUAL: Record<ObjectKind, string> = {
  goal: COLORS.green!,
  item: COLORS.yellow!,
  trap: COLORS.orange!,
  block: COLORS.brown!,
};

const COMMON: Record<string, ObjectKind> = { G: "goal", o: "item", T: "trap", B: "block" };
const WALL = "#";
export const FREE = ".";
const AGENT = "A";

/** What a spec says, and what is wrong with it; the first problem of each field. */
export function readGrid(spec: unknown): { grid: Grid | null; problems: Problem[] } {
  const given = asObject(spec);
  if (!given) return { grid: null, problems: [{ field: "spec", message: "must be a JSON object" }] };
  const problems: Problem[] = [];
  const expanded = withoutMap(given, problems);
  const grid = expanded && drawn(expanded);
  if (expanded && problems.length === 0) problems.push(...checkGrid(expanded));
  return { grid, problems };
}

/** What characters of a map stand for. */
export function meaningsOf(spec: Fields): Record<string, string> {
  const trained = named(spec.agents).find(({ thing }) => (thing.moves ?? "trained") === "trained")?.name ?? "agent";
  const legend = asObject(spec.legend) ?? {};
  return { [WALL]: "wall", [AGENT]: trained, ...COMMON, ...legend as Record<string, string> };
}

/** A spec with size, walls and positions in place of its map. */
function withoutMap(spec: Fields, problems: Problem[]): Fields | null {
  if (!("map" in spec)) {
    if ("legend" in spec) problems.push({ field: "legend", message: "is for a map" });
    return spec;
  }
  const { map, legend: _legend, ...rest } = spec;
  for (const field of ["size", "walls"]) {
    if (field in rest) problems.push({ field, message: "the map has it already; leave it out" });
  }
  const rows = asList(map);
  if (!rows?.length || !rows.every((row): row is string => typeof row === "string")) {
    problems.push({ field: "map", message: 'must be a list of rows, such as ["#####", "#A.G#", "#####"]' });
    return null;
  }
  const width = rows[0]!.length;
  if (width < 1 || width > MAX_SIDE || rows.length > MAX_SIDE) {
    problems.push({ field: "map", message: `must have from 1 to ${MAX_SIDE} rows and columns` });
    return null;
  }
  checkLegend(spec.legend, problems);
  return placed(rest, rows, meaningsOf(spec), problems);
}

function checkLegend(legend: unknown, problems: Problem[]): void {
  if (legend === undefined) return;
  const given = asObject(legend);
  if (!given) {
    problems.push({ field: "legend", message: 'must be an object of characters and names, such as {"K": "key"}' });
    return;
  }
  for (const [symbol, name] of Object.entries(given)) {
    if (symbol.length !== 1 || ` .${WALL}`.includes(symbol)) {
      problems.push({ field: "legend", message: `${symbol} is not one character, or has a meaning already` });
    } else if (typeof name !== "string") {
      problems.push({ field: "legend", message: `${symbol} must stand for the name of an object or agent` });
    }
  }
}

function placed(rest: Fields, rows: string[], meanings: Record<string, string>, problems: Problem[]): Fields {
  const cells = cellsOf(rows, meanings, problems);
  const taken = (name: string) => {
    const found = cells.get(name) ?? [];
    cells.delete(name);
    return found;
  };
  const walls = taken("wall");
  const agents = (asList(rest.agents) ?? [{ name: "agent" }]).map((agent) => {
    const starts = taken(String(asObject(agent)?.name));
    if (starts.length > 1) problems.push({ field: "map", message: `one agent is at ${starts.length} cells` });
    return starts.length ? { ...asObject(agent), start: starts[0] } : agent;
  });
  const objects = (asList(rest.objects) ?? []).map((thing) => {
    const found = taken(String(asObject(thing)?.name));
    return found.length
      ? { ...asObject(thing), positions: [...asList(asObject(thing)?.positions) ?? [], ...found] }
      : thing;
  });
  for (const kind of OBJECT_KINDS) {
    const positions = taken(kind);
    if (positions.length) objects.push({ name: kind, kind, positions });
  }
  for (const name of cells.keys()) {
    problems.push({ field: "legend", message: `there is no object or agent ${name}` });
  }
  return { ...rest, size: { width: rows[0]!.length, height: rows.length }, walls, agents, objects };
}

function cellsOf(rows: string[], meanings: Record<string, string>, problems: Problem[]): Map<string, Cell[]> {
  const cells = new Map<string, Cell[]>();
  rows.forEach((row, y) => {
    if (row.length !== rows[0]!.length) {
      problems.push({
        field: `map.${y}`,
        message: `has ${row.length} characters, but the first row has ${rows[0]!.length}`,
      });
    }
    [...row].forEach((symbol, x) => {
      if (symbol === " " || symbol === FREE) return;
      const name = Object.hasOwn(meanings, symbol) ? meanings[symbol]! : null;
      if (name === null) {
        problems.push({ field: `map.${y}`, message: `${symbol} at column ${x} is not in the legend` });
      } else cells.set(name, [...cells.get(name) ?? [], [x, y]]);
    });
  });
  return cells;
}

/** What is drawn of a spec without a map: whatever is well-formed. */
function drawn(spec: Fields): Grid | null {
  const size = asObject(spec.size);
  if (!size || ![size.width, size.height].every((side) => isWhole(side, 1, MAX_SIDE))) return null;
  const [width, height] = [size.width as number, size.height as number];
  const inside = (cell: unknown): cell is Cell => isCell(cell) && cell[0] < width && cell[1] < height;
  return {
    width,
    height,
    walls: (asList(spec.walls) ?? []).filter(inside),
    things: named(spec.objects).flatMap(({ name, thing }) => {
      const kind = OBJECT_KINDS.find((known) => known === thing.kind);
      if (!kind) return [];
      const random = isWhole(thing.random, 0, 64) ? thing.random as number : 0;
      return [{
        name,
        kind,
        random,
        color: colorOf(thing.color) ?? USUAL[kind],
        cells: (asList(thing.positions) ?? []).filter(inside),
      }];
    }),
    agents: named(spec.agents ?? [{ name: "agent" }]).map(({ name, thing }) => {
      const moves = thing.moves === "random" || thing.moves === "still" ? thing.moves : "trained";
      const usual = moves === "trained" ? COLORS.blue! : COLORS.purple!;
      return { name, moves, color: colorOf(thing.color) ?? usual, start: inside(thing.start) ? thing.start : null };
    }),
  };
}

function named(things: unknown): { name: string; thing: Fields }[] {
  return (asList(things) ?? []).flatMap((each) => {
    const thing = asObject(each);
    return thing && typeof thing.name === "string" ? [{ name: thing.name, thing }] : [];
  });
}
