/** The entries of a file of tasks: a JSON list, {"tasks": [...]}, or JSON Lines. Whether each is right, the server says. */
import type { Entry, Problem } from "@/api/tasks.ts";

export interface Parsed {
  entries: Entry[];
  /** What cannot be read at all. */
  problems: Problem[];
  /** Of entries that name none, as the file says. */
  environment: string | null;
}

export const MAX_BYTES = 50 * 1024 * 1024;
const EXPECTED = 'A list is expected: [{"id": …, "task": …, "answer": …}], or such an object in each line.';

/** Numbers that JavaScript cannot hold stay as they are written, where the browser knows how. */
function exactly(_key: string, value: unknown, context?: { source?: string }): unknown {
  const rawJSON = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON;
  const isChanged = typeof value === "number" && context?.source !== undefined && String(value) !== context.source;
  return isChanged && rawJSON ? rawJSON(context!.source!) : value;
}

const parseExactly = JSON.parse as (text: string, reviver: typeof exactly) => unknown;

export function parseTasks(text: string): Parsed {
  if (text.trim() === "") return whole("The file is empty; there is nothing to upload.");
  const lines = asLines(text);
  if (lines) return lines;
  let value: unknown;
  try {
    value = parseExactly(text, exactly);
  } catch (error) {
    return whole(`This is not JSON: ${(error as Error).message}. ${EXPECTED}`);
  }
  const { tasks, environment } = Array.isArray(value)
    ? { tasks: value, environment: null }
    : (value ?? {}) as { tasks?: unknown; environment?: unknown };
  if (!Array.isArray(tasks)) return whole(EXPECTED);
  if (tasks.length === 0) return whole("The list is empty; there is nothing to upload.");
  const entries = tasks.map((task: unknown, place) => ({ place, value: task }));
  return { entries, problems: [], environment: typeof environment === "string" ? environment : null };
}

function whole(message: string): Parsed {
  return { entries: [], problems: [{ place: null, field: null, message }], environment: null };
}

/** An object in each line; null where the first line is none, or is all and no task. */
function asLines(text: string): Parsed | null {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  const first = objectIn(lines[0]!);
  if (!first || (lines.length === 1 && !("task" in first || "description" in first))) return null;
  const parsed: Parsed = { entries: [], problems: [], environment: null };
  for (const [place, line] of lines.entries()) {
    try {
      parsed.entries.push({ place, value: parseExactly(line, exactly) });
    } catch (error) {
      parsed.problems.push({ place, field: null, message: `is not JSON: ${(error as Error).message}` });
    }
  }
  return parsed;
}

function objectIn(line: string): object | null {
  try {
    return line.startsWith("{") ? JSON.parse(line) : null;
  } catch {
    return null;
  }
}

/** Fields of an entry as a preview shows them, whatever they hold. */
export function shownField(value: unknown, ...names: string[]): string | null {
  if (value === null || typeof value !== "object") return null;
  const fields = value as Record<string, unknown>;
  const found = names.map((name) => fields[name]).find((field) => field !== undefined && field !== null);
  return found === undefined ? null : typeof found === "string" ? found : JSON.stringify(found);
}
