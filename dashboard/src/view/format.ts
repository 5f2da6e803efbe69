/** Numbers and times as people read them; what is unknown is a dash. */
export const UNKNOWN = "—";

type Maybe<T> = T | null | undefined;

/** A double as JSON may hold it: NaN and the infinities come as text. */
export type Double = number | "NaN" | "Infinity" | "-Infinity";

export function number(value: Maybe<Double>, digits = 4): string {
  if (value === null || value === undefined) return UNKNOWN;
  const given = Number(value);
  if (!Number.isFinite(given)) return String(value);
  if (given === 0) return "0"; // also -0
  if (Number.isInteger(given)) return Math.abs(given) < 1e15 ? given.toLocaleString("en-US") : given.toExponential(3);
  const size = Math.abs(given);
  if (size >= 1e6 || size < 1e-4) return given.toExponential(digits - 2);
  return given.toLocaleString("en-US", {
    maximumSignificantDigits: Math.max(digits, Math.floor(Math.log10(size)) + 1),
  });
}

/** Whether there is a number to show; NaN is what comes of counting with what is unknown. */
function isKnown(value: Maybe<number>): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

export function percent(value: Maybe<number>, digits = 1): string {
  return isKnown(value) ? `${(value * 100).toFixed(digits)}%` : UNKNOWN;
}

/** A share as a percentage, unknown where there is nothing to share. */
export function share(part: Maybe<number>, whole: Maybe<number>): number | null {
  return isKnown(part) && isKnown(whole) && whole !== 0 ? part / whole : null;
}

/** "3 of 4"; null where either is unknown. */
export function partOf(part: Maybe<number>, whole: Maybe<number>): string | null {
  if (!isKnown(part) || !isKnown(whole)) return null;
  return `${part.toLocaleString("en-US")} of ${whole.toLocaleString("en-US")}`;
}

export function compact(value: Maybe<number>): string {
  if (!isKnown(value)) return UNKNOWN;
  return value.toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 });
}

export function duration(milliseconds: Maybe<number>): string {
  if (!isKnown(milliseconds)) return UNKNOWN;
  const seconds = milliseconds / 1000;
  // What took less than the clock can tell took some time all the same.
  if (milliseconds <= 0) return "< 1 ms";
  if (milliseconds < 0.0005) return "< 1 µs";
  if (milliseconds < 0.9995) return `${(milliseconds * 1000).toFixed(0)} µs`;
  if (milliseconds < 999.5) return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
  if (seconds < 59.5) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3599.5) return inTwo(Math.round(seconds), 60, "min", "s");
  if (seconds < 86370) return inTwo(Math.round(seconds / 60), 60, "h", "min");
  return inTwo(Math.round(seconds / 3600), 24, "d", "h");
}

/** Rounded before it is divided, so that there are never 60 seconds beside the minutes. */
function inTwo(count: number, size: number, large: string, small: string): string {
  return `${Math.floor(count / size)} ${large} ${count % size} ${small}`;
}

/** Milliseconds between two times, to the microsecond. */
export function between(from: Maybe<string>, to: Maybe<string>): number | null {
  if (!from || !to) return null;
  const milliseconds = new Date(to).getTime() - new Date(from).getTime();
  return isKnown(milliseconds) ? milliseconds + (microseconds(to) - microseconds(from)) / 1000 : null;
}

/** The digits of a time that a Date, which ends at milliseconds, drops. */
function microseconds(time: string): number {
  return Number((/\.\d{3}(\d{1,3})/.exec(time)?.[1] ?? "").padEnd(3, "0"));
}

export function bytes(size: Maybe<number>): string {
  if (!isKnown(size)) return UNKNOWN;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [shown, power] = [size, 0];
  // Rounded, 1023.9 would be 1024 of a unit.
  for (; shown >= (power ? 1023.5 : 1024) && power < units.length - 1; power++) shown /= 1024;
  return `${shown.toFixed(power && shown < 100 ? 1 : 0)} ${units[power]}`;
}

function dateOf(time: Maybe<string>): Date | null {
  const date = time ? new Date(time) : null;
  return date && isKnown(date.getTime()) ? date : null;
}

export function dateTime(time: Maybe<string>): string {
  const date = dateOf(time);
  return date ? date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : UNKNOWN;
}

export function ago(time: Maybe<string>, now = Date.now()): string {
  const date = dateOf(time);
  if (!date) return UNKNOWN;
  const seconds = Math.round((now - date.getTime()) / 1000);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 86400 * 30) return `${Math.floor(seconds / 86400)} d ago`;
  return date.toLocaleDateString();
}

/** How long until a time that is to come. */
export function until(time: string, now = Date.now()): string {
  const minutes = (Date.parse(time) - now) / 60_000;
  if (minutes <= 0) return "over";
  if (minutes < 90) return `in ${Math.ceil(minutes)} min`;
  if (minutes < 36 * 60) return `in ${Math.round(minutes / 60)} h`;
  return `in ${Math.round(minutes / 1440)} days`;
}

export function shortId(id: string): string {
  return id.slice(-8);
}
