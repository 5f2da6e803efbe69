/** The `Prefer` header: what a client would like, and which of it was done. */
import { ApiError } from "./errors.ts";

const VALUES = {
  resolution: ["merge-duplicates", "ignore-duplicates"],
  missing: ["default", "null"],
  return: ["representation", "minimal", "headers-only"],
  count: ["exact", "planned", "estimated"],
  tx: ["commit", "rollback"],
  handling: ["strict", "lenient"],
} as const;

type Named = { [Name in keyof typeof VALUES]?: typeof VALUES[Name][number] };

export interface Preferences extends Named {
  timezone?: string;
  "max-affected"?: number;
}

export type Preference = keyof Preferences;

/** As they are told in `Preference-Applied`. */
const ORDER = [...Object.keys(VALUES), "timezone", "max-affected"] as Preference[];

/** Read the preferences; with `handling=strict` one that is not known is refused. */
export function readPreferences(headers: Headers): Preferences {
  const preferences: Record<string, string | number> = {};
  const unknown: string[] = [];
  for (const part of (headers.get("prefer") ?? "").split(",").map((part) => part.trim()).filter(Boolean)) {
    const [name, value = ""] = part.split("=", 2).map((side) => side.trim());
    if (name in preferences) continue;
    if (Object.hasOwn(VALUES, name) && (VALUES[name as keyof Named] as readonly string[]).includes(value)) {
      preferences[name] = value;
    } else if (name === "max-affected" && /^\d+$/.test(value)) preferences[name] = Number(value);
    else if (name === "timezone" && isTimezone(value)) preferences[name] = value;
    else unknown.push(part);
  }
  if (preferences.handling === "strict" && unknown.length > 0) {
    throw new ApiError(400, "PGRST122", "Invalid preferences given with handling=strict", {
      details: `Invalid preferences: ${unknown.join(", ")}`,
    });
  }
  return preferences as Preferences;
}

/** The value of `Preference-Applied` for the preferences that mattered to this kind of request. */
export function applied(preferences: Preferences, names: Preference[]): string {
  const isStrict = preferences.handling === "strict";
  return ORDER
    .filter((name) => names.includes(name) && preferences[name] !== undefined && (name !== "max-affected" || isStrict))
    .map((name) => `${name}=${preferences[name]}`).join(", ");
}

/** Offsets such as +05:30 are no names: Postgres would count them the other way round. */
function isTimezone(name: string): boolean {
  if (!/^[A-Z]/i.test(name)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
