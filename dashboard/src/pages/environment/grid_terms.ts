/** The words of grid worlds. */
import terms from "./terms.json" with { type: "json" };

export type Cell = readonly [x: number, y: number];

export const OBJECT_KINDS = ["goal", "item", "trap", "block"] as const;
export type ObjectKind = (typeof OBJECT_KINDS)[number];

export const MAX_SIDE = 64;

export const COLORS: Record<string, string> = terms.colors;
/** A colour as #rrggbb; null where it is none. */
export function colorOf(value: unknown): string | null {
  if (typeof value !== "string") return null;
  if (Object.hasOwn(COLORS, value)) return COLORS[value]!;
  return /^#[0-9a-f]{6}$/i.test(value) ? value.toLowerCase() : null;
}
