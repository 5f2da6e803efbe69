/** Reading a tasks.json: what can be taken, and for each entry that cannot, why. */
import { type NewTask, taskId } from "@/api/tasks.ts";

export interface Problem {
  /** The place in the file, from 0; null: the file as a whole. */
  entry: number | null;
  message: string;
}

export interface Parsed {
  tasks: NewTask[];
  /** Where in the file each task was. */
  entries: number[];
  problems: Problem[];
}

const KNOWN = new Set(["id", "task", "answer", "name", "split", "environment", "metadata"]);
export const MAX_BYTES = 50 * 1024 * 1024;

/** NUL and half of a surrogate pair are characters that the database cannot keep. */
function isStorable(text: string): boolean {
  return !text.includes("\0") && (text as string & { isWellFormed(): boolean }).isWellFormed();
}

export async function parseTasks(text: string, environment: string | null): Promise<Parsed> {
  const [list, problem] = readList(text);
  if (!list) return { tasks: [], entries: [], problems: [{ entry: null, message: problem! }] };
  const parsed: Parsed = { tasks: [], entries: [], problems: [] };
  const places = new Map<string, number>();
  for (const [entry, given] of list.entries()) {
    const found = problemOf(given);
    if (found) {
      parsed.problems.push({ entry, message: found });
      continue;
    }
    const task = await toTask(given as Record<string, unknown>, environment);
    const earlier = places.get(task.id);
    if (earlier !== undefined) {
      const message = `"id" ${JSON.stringify(task.external_id)} is that of entry ${
        earlier + 1
      } already; ids must differ`;
      parsed.problems.push({ entry, message });
      continue;
    }
    places.set(task.id, entry);
    parsed.tasks.push(task);
    parsed.entries.push(entry);
  }
  return parsed;
}

function readList(text: string): [unknown[] | null, string | null] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return [
      null,
      `This is not JSON: ${(error as Error).message}. A list is expected: [{"id": …, "task": …, "answer": …}].`,
    ];
  }
  const list = Array.isArray(value) ? value : (value as { tasks?: unknown } | null)?.tasks;
  if (!Array.isArray(list)) return [null, 'A list is expected: [{"id": …, "task": …, "answer": …}].'];
  if (list.length === 0) return [null, "The list is empty; there is nothing to upload."];
  return [list, null];
}

function problemOf(given: unknown): string | null {
  if (given === null || typeof given !== "object" || Array.isArray(given)) {
    return `an object is expected, not ${given === null ? "null" : Array.isArray(given) ? "a list" : typeof given}`;
  }
  const entry = given as Record<string, unknown>;
  const { id, task } = entry;
  if (id === undefined || id === null || id === "") return '"id" is missing; by it a later upload finds the task again';
  if (typeof id !== "string" && typeof id !== "number") return `"id" must be a text or a number, not ${typeOf(id)}`;
  if (task === undefined || task === null) return '"task" is missing: what the agent is asked';
  if (typeof task !== "string") return `"task" must be a text, not ${typeOf(task)}`;
  if (task.trim() === "") return '"task" is empty';
  for (const name of ["name", "split", "environment"]) {
    if (entry[name] !== undefined && entry[name] !== null && typeof entry[name] !== "string") {
      return `"${name}" must be a text, not ${typeOf(entry[name])}`;
    }
  }
  if (entry.metadata !== undefined && typeOf(entry.metadata) !== "an object") return '"metadata" must be an object';
  const unstorable = Object.keys(entry).find((name) => !isStorable(name + deepText(entry[name])));
  return unstorable ? `"${unstorable}" holds a character that cannot be stored (NUL or half of a pair)` : null;
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** All texts within a value, one after the other. */
function deepText(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === null || typeof value !== "object") return "";
  return Object.entries(value).map(([name, inner]) => `${name} ${deepText(inner)}`).join(" ");
}

async function toTask(entry: Record<string, unknown>, environment: string | null): Promise<NewTask> {
  const further = Object.fromEntries(Object.entries(entry).filter(([name]) => !KNOWN.has(name)));
  const of = (entry.environment as string | null) || environment;
  const externalId = String(entry.id);
  return {
    id: await taskId(of, externalId),
    external_id: externalId,
    environment: of,
    name: (entry.name as string | undefined) ?? null,
    description: entry.task as string,
    expected_answer: answerOf(entry.answer),
    split: (entry.split as string | undefined) ?? null,
    metadata: { ...(entry.metadata as Record<string, unknown> | undefined), ...further },
  };
}

function answerOf(answer: unknown): string | null {
  if (answer === undefined || answer === null) return null;
  return typeof answer === "string" ? answer : JSON.stringify(answer);
}
