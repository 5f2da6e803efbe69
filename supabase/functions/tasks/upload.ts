/** Import tasks: all of an upload, or nothing of it. */
import type { v } from "../_shared/deps.ts";
import { FunctionError, invalid, unwrap } from "../_shared/errors.ts";
import { uuid5, uuid7 } from "../_shared/ids.ts";
import { check } from "../_shared/input.ts";
import { isObject } from "../_shared/json.ts";
import { given, ingest } from "../_shared/record.ts";
import { repetitionId } from "../_shared/repetition.ts";
import type { Call } from "../_shared/serve.ts";
import { type Item, readUpload } from "./body.ts";
import { type Entry, entry as entrySchema, MAX_TASKS, type upload, validatorName } from "./schema.ts";

/** As in Python (openmanus_rl.records.ids): whoever imports a task gives it the same id. */
const NAMESPACE = "e2a7519d-8088-4d57-8dbf-f9f4cf31e13d";
/** A file in which everything is wrong would make a longer answer than itself. */
const MAX_PROBLEMS = 1000;

const ALIASES = [["id", "external_id"], ["task", "description"], ["answer", "expected_answer"]] as const;

interface Problem {
  index: number;
  field: string | null;
  message: string;
}

export async function uploadTasks(call: Call<v.InferOutput<typeof upload.input>>) {
  const { items, environment } = await readUpload(call.request);
  const entries = checked(items);
  const repetition = await repetitionId(call);
  const records = await Promise.all(
    entries.map((entry, index) => recordsOf(entry, index, call.input.environment ?? environment, repetition)),
  );
  await write(call, records);
  const count = records.length;
  return { message: count === 1 ? "1 task was imported" : `${count} tasks were imported`, count };
}

function checked(items: Item[]): Entry[] {
  if (items.length === 0) throw invalid("there are no tasks in it; send a list of them");
  if (items.length > MAX_TASKS) {
    const message = `there are ${items.length} tasks in it, and ${MAX_TASKS} are possible at once; send it in parts`;
    throw new FunctionError(413, "too_large", message, { max_tasks: MAX_TASKS });
  }
  const problems: Problem[] = [];
  const places = new Map<string, number>();
  const entries = items.map((item, index) => {
    const { output, found } = checkedEntry(item);
    problems.push(...found.map((problem) => ({ index, ...problem })));
    if (found.length > 0) return output;
    const reference = referenceOf(output);
    const key = JSON.stringify([output.environment ?? null, reference]);
    if (reference !== null && places.has(key)) {
      problems.push({ index, field: "id", message: `entry ${places.get(key)} has the same id` });
    } else places.set(key, index);
    return output;
  });
  if (problems.length > 0) throw refused(problems, items.length);
  return entries;
}

function checkedEntry(item: Item): { output: Entry; found: Omit<Problem, "index">[] } {
  if ("problem" in item) return { output: {}, found: [{ field: null, message: item.problem }] };
  if (!isObject(item.value)) return { output: {}, found: [{ field: null, message: "an object is expected" }] };
  const { output, problems } = check(entrySchema, item.value);
  const found = problems.map(({ path, message }) => ({ field: path || null, message }));
  if (found.length === 0) {
    for (const [first, second] of ALIASES) {
      if (output[first] != null && output[second] != null) {
        found.push({ field: second, message: `give ${first} or ${second}, not both` });
      }
    }
    const twice = Object.keys(others(output)).find((key) => Object.hasOwn(output.metadata ?? {}, key));
    if (twice !== undefined) found.push({ field: `metadata.${twice}`, message: "is given twice, also beside it" });
    if ((output.task ?? output.description) == null) found.push({ field: "task", message: "is required" });
  }
  return { output, found };
}

function refused(problems: Problem[], total: number): FunctionError {
  const wrong = new Set(problems.map(({ index }) => index)).size;
  const [{ index, field, message }] = problems;
  const first = `entry ${index}: ${field === null ? "" : `${field}: `}${message}`;
  const cut = problems.length > MAX_PROBLEMS ? `; details has the first ${MAX_PROBLEMS} problems` : "";
  const summary = `${wrong} of ${total} tasks ${
    wrong === 1 ? "is" : "are"
  } wrong, and nothing was written; ${first}${cut}`;
  return invalid(summary, problems.slice(0, MAX_PROBLEMS));
}

/** The fields of an entry that are not a task's own. */
function others(entry: Entry): Record<string, unknown> {
  return Object.fromEntries(Object.entries(entry).filter(([key]) => !Object.hasOwn(entrySchema.entries, key)));
}

function referenceOf(entry: Entry): string | null {
  return entry.id ?? entry.external_id ?? null;
}

async function recordsOf(entry: Entry, index: number, usual: string | null | undefined, repetition: string | null) {
  const reference = referenceOf(entry);
  const environment = entry.environment ?? usual ?? null;
  const id = reference !== null
    ? await uuid5(NAMESPACE, `task:${environment ?? ""}:${reference}`)
    : repetition !== null
    ? await uuid5(repetition, `task:${index}`)
    : uuid7();
  const { name, split, solution } = entry;
  const metadata = { ...entry.metadata, ...others(entry) };
  const fields = given({
    external_id: reference,
    environment,
    name,
    description: entry.task ?? entry.description,
    expected_answer: answerText(entry.answer ?? entry.expected_answer),
    split,
    solution,
    metadata: Object.keys(metadata).length > 0 ? metadata : null,
  });
  const validators = (entry.validators ?? []).map(async (validator, position) => {
    const { kind, spec } = validator;
    const own = validatorName(validator, position);
    return { id: await uuid5(id, `validator:${own}`), ...given({ task_id: id, external_id: own, kind, spec }) };
  });
  return { task: { id, ...fields }, validators: await Promise.all(validators) };
}

/** The column is a text: JSON is compared by structure if it holds JSON. */
function answerText(answer: unknown): string | null {
  return answer == null ? null : typeof answer === "string" ? answer : JSON.stringify(answer);
}

async function write(call: Call<unknown>, records: Awaited<ReturnType<typeof recordsOf>>[]): Promise<void> {
  const [tasks, validators] = [records.map(({ task }) => task), records.flatMap(({ validators }) => validators)];
  try {
    await ingest(call, { tasks, validators }, []);
    // Those that an earlier upload named, and this one does not, are retired.
    const kept = { task_ids: tasks.map(({ id }) => id), validator_ids: validators.map(({ id }) => id) };
    unwrap(await call.client.rpc("keep_validators", kept));
  } catch (error) {
    if (!(error instanceof FunctionError)) throw error;
    const { kind, index, field } = (error.details ?? {}) as { kind?: string; index?: number; field?: string };
    if (kind !== "tasks" || index === undefined) throw error;
    const details = [{ index, field: field ?? null, message: error.message }];
    throw new FunctionError(error.status, error.code, error.message, details, error.headers);
  }
}
