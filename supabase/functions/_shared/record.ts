/** Writing to the record: one call, one transaction, with the caller's rights. */
import type { RecordKind } from "./constants.ts";
import type { Call } from "./serve.ts";
import { type DatabaseFailure, forbidden, FunctionError, unwrap } from "./errors.ts";

type Caller = Pick<Call<unknown>, "client" | "caller">;

/** A row that the request refers to. */
export interface Reference {
  /** The request's field that names it. */
  field: string;
  table: Extract<RecordKind, "training_runs" | "rollouts" | "rollout_groups" | "tasks">;
  id: string | null | undefined;
}

const NOUNS: Record<Reference["table"], string> = {
  training_runs: "training run",
  rollouts: "rollout",
  rollout_groups: "rollout group",
  tasks: "task",
};

/** Write all of a batch or nothing of it. */
export async function ingest(
  call: Caller,
  batch: Partial<Record<RecordKind, unknown[]>>,
  references: Reference[],
): Promise<void> {
  await write(call, call.client.rpc("ingest", { batch, all_or_nothing: true }), references);
}

/** The data of a writing RPC; a refusal says which of the rows referred to is missing, or that the caller is no member. */
export async function write<T>(
  call: Caller,
  rpc: PromiseLike<{ data: T | null; error: DatabaseFailure | null; status: number }>,
  references: Reference[],
): Promise<T> {
  try {
    return unwrap(await rpc) as T;
  } catch (error) {
    throw error instanceof FunctionError ? await explain(error, call, references) : error;
  }
}

/**
 * What the database refused, in the request's own words.
 *
 * Row level security refuses a row of an unknown parent as it does a row of somebody else's, and hides what there is
 * from strangers, so the reason has to be looked for. Nothing was written; looking is all that happens here.
 */
async function explain(refusal: FunctionError, call: Caller, references: Reference[]): Promise<FunctionError> {
  if (![400, 403, 404].includes(refusal.status)) return refusal;
  if (refusal.status !== 400 && !(await isMember(call))) {
    return forbidden("you are not a member of this workspace; ask an admin to add you");
  }
  for (const { field, table, id } of references) {
    if (!id || (await exists(call, table, id))) continue;
    return new FunctionError(404, "not_found", `${field} ${id}: there is no such ${NOUNS[table]}`, { field });
  }
  return refusal;
}

async function isMember({ client, caller }: Caller): Promise<boolean> {
  if (caller.kind !== "user") return true;
  const found = unwrap(await client.from("members").select("user_id").eq("user_id", caller.userId!).limit(1));
  return found !== null && found.length > 0;
}

async function exists({ client }: Caller, table: Reference["table"], id: string): Promise<boolean> {
  const found = unwrap(await client.from(table).select("id").eq("id", id).limit(1));
  return found !== null && found.length > 0;
}

/** What of a record was given. For new records: null, which would clear a field, is for whoever sends it the same as nothing. */
export function given<T extends object>(record: T): Partial<T> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value != null)) as Partial<T>;
}
