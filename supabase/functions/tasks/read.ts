/** Tasks with how their rollouts went. */
import { v } from "../_shared/deps.ts";
import { FunctionError, unwrap } from "../_shared/errors.ts";
import { decodePlace, encodePlace, pageSize, type Place } from "../_shared/paging.ts";
import { given } from "../_shared/record.ts";
import type { Call } from "../_shared/serve.ts";
import type { get, list } from "./schema.ts";

type Client = Call<unknown>["client"];
interface Task extends Record<string, unknown> {
  id: string;
}

export async function listTasks({ client, input }: Call<v.InferOutput<typeof list.input>>) {
  const { limit, after, ...filters } = input;
  const page: { tasks: unknown[]; next: Place | null } = unwrap(
    await client.rpc("list_tasks", { filters: given(filters), after: decodePlace(after), page_size: pageSize(limit) }),
  );
  return { tasks: page.tasks, next: encodePlace(page.next) };
}

export async function getTask({ client, input }: Call<v.InferOutput<typeof get.input>>) {
  const { validators, ...task } = await findTask(client, input.id, input.environment);
  return { task, validators, results: unwrap(await client.rpc("task_results", { task_id: task.id })) };
}

/** The task of this row id or, where there is none, imported under this id. */
async function findTask(client: Client, reference: string, environment?: string | null): Promise<Task> {
  const named = environment ? ` of environment ${environment}` : "";
  const found = await tasksWith(client, "id", reference) ??
    await tasksWith(client, "external_id", reference, environment);
  if (found?.length === 1) return found[0];
  const [status, code, reason] = found
    ? [409, "conflict", "several environments have one; add the parameter `environment`, or give the UUID of its row"]
    : [404, "not_found", "there is no such task, or you may not see it"];
  throw new FunctionError(status as number, code as string, `task ${reference}${named}: ${reason}`, { field: "id" });
}

async function tasksWith(client: Client, column: "id" | "external_id", value: string, environment?: string | null) {
  if (column === "id" && !v.is(v.pipe(v.string(), v.uuid()), value)) return null;
  let query = client.from("tasks").select("*, validators(*)").eq(column, value).is("validators.retired_at", null);
  if (environment) query = query.eq("environment", environment);
  const rows: Task[] = unwrap(await query.limit(2)) ?? [];
  return rows.length > 0 ? rows : null;
}
