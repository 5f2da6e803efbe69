/** Changes of a grid world by pointing at a cell. */
import { FREE, meaningsOf } from "./grid.ts";
import { OBJECT_KINDS, type ObjectKind } from "./grid_terms.ts";
import { asList, asObject, type Fields } from "./problems.ts";

export const BRUSHES = ["wall", "free", "start", ...OBJECT_KINDS] as const;
export type Brush = (typeof BRUSHES)[number];

/** The spec with this at that cell, in place of what was there. */
export function paint(spec: Fields, [x, y]: readonly [number, number], brush: Brush): Fields {
  return "map" in spec ? onMap(spec, x, y, brush) : onLists(spec, x, y, brush);
}

function onMap(spec: Fields, x: number, y: number, brush: Brush): Fields {
  const meanings = meaningsOf(spec);
  const trained = trainedOf(spec);
  const name = brush === "wall" ? "wall" : brush === "start" ? trained : nameOf(spec, brush);
  // The last that has a meaning: a legend's come after the usual ones.
  const symbol = brush === "free" ? FREE : Object.keys(meanings).findLast((each) => meanings[each] === name);
  const rows = (asList(spec.map) ?? []) as string[];
  if (symbol === undefined) return spec;
  const map = rows.map((row, at) => {
    const freed = brush === "start" ? row.replaceAll(symbol, FREE) : row;
    return at === y ? freed.slice(0, x) + symbol + freed.slice(x + 1) : freed;
  });
  return { ...spec, map };
}

function trainedOf(spec: Fields): string {
  const agents = (asList(spec.agents) ?? []).map(asObject);
  return String(agents.find((agent) => (agent?.moves ?? "trained") === "trained")?.name ?? "agent");
}

/** The object that a brush stands for: the first of its kind, else a new one that is called as its kind. */
function nameOf(spec: Fields, brush: Brush): string {
  const found = (asList(spec.objects) ?? []).map(asObject).find((thing) => thing?.kind === brush);
  return String(found?.name ?? brush);
}

function onLists(spec: Fields, x: number, y: number, brush: Brush): Fields {
  const isElsewhere = (cell: unknown) => !(Array.isArray(cell) && cell[0] === x && cell[1] === y);
  const walls = (asList(spec.walls) ?? []).filter(isElsewhere);
  const agents = (asList(spec.agents) ?? [{ name: "agent" }]).map((agent) => {
    const { start, ...rest } = asObject(agent) ?? {};
    if (brush === "start" && rest.name === trainedOf(spec)) return { ...rest, start: [x, y] };
    return start === undefined || !isElsewhere(start) ? rest : { ...rest, start };
  });
  let objects = (asList(spec.objects) ?? []).map((thing) => {
    const given = asObject(thing) ?? {};
    const positions = asList(given.positions);
    return positions ? { ...given, positions: positions.filter(isElsewhere) } : given;
  });
  if (OBJECT_KINDS.includes(brush as ObjectKind)) objects = withObject(objects, nameOf(spec, brush), brush, [x, y]);
  // One that is nowhere is no object.
  objects = objects.filter((thing: Fields) => asList(thing.positions)?.length !== 0 || thing.random);
  return { ...spec, walls: brush === "wall" ? [...walls, [x, y]] : walls, objects, agents };
}

function withObject(objects: Fields[], name: string, kind: string, cell: number[]): Fields[] {
  if (!objects.some((thing) => thing.name === name)) return [...objects, { name, kind, positions: [cell] }];
  return objects.map((thing) =>
    thing.name === name ? { ...thing, positions: [...asList(thing.positions) ?? [], cell] } : thing
  );
}
