/** The words of grid worlds. */
export type Cell = readonly [x: number, y: number];

export const OBJECT_KINDS = ["goal", "item", "trap", "block"] as const;
export type ObjectKind = (typeof OBJECT_KINDS)[number];

export const MAX_SIDE = 64;

export const COLORS: Record<string, string> = {
  black: "#22252b",
  blue: "#2f6fde",
  brown: "#9a6b43",
  cyan: "#17a6b8",
  gray: "#8a909c",
  green: "#2e9e5b",
  orange: "#ea7317",
  pink: "#e05a9c",
  purple: "#8250c4",
  red: "#d93a3a",
  white: "#f4f5f7",
  yellow: "#e5b80b",
};
/** A colour as #rrggbb; null where it is none. */
export function colorOf(value: unknown): string | null {
  if (typeof value !== "string") return null;
  if (Object.hasOwn(COLORS, value)) return COLORS[value]!;
  return /^#[0-9a-f]{6}$/i.test(value) ? value.toLowerCase() : null;
}
