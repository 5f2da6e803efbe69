/** Environments, what they were in each version, and bringing in new ones. */
import type { ErrorCode, Json, Row } from "@/database.ts";
import { answered, invoke, RequestError, supabase } from "@/supabase.ts";
import { after, type Place, placeAfter } from "./paging.ts";
import { containing } from "./runs.ts";

export type Environment = Row<"environments">;
export type EnvironmentVersion = Pick<
  Row<"environment_versions">,
  "environment_id" | "version" | "kind" | "spec" | "preview_error" | "created_at"
>;
export type Spec = Record<string, Json>;

/** The kinds that can be trained in; the others are for rollouts. */
export const TRAINING_KINDS = ["grid", "gymnasium"] as const;

export interface EnvironmentFilters {
  search: string;
  kind: string | null;
}

const PAGE = 24;
const VERSIONS = 100;
const FORBIDDEN: ErrorCode = "OM403";
const TAKEN = "23505";

export async function readEnvironments(
  filters: EnvironmentFilters,
  from: Place | null,
  signal: AbortSignal,
): Promise<Environment[]> {
  let query = supabase().from("environments").select("*");
  if (filters.search.trim()) query = query.ilike("name", containing(filters.search.trim()));
  if (filters.kind) query = query.eq("kind", filters.kind);
  if (from) query = query.or(after("updated_at", from, "ascending"));
  return await answered(
    query.order("updated_at", { ascending: false }).order("id").limit(PAGE).abortSignal(signal),
  );
}

export function nextEnvironmentPage(page: Environment[]): Place | null {
  return placeAfter(page, PAGE, (environment) => environment.updated_at);
}

/** Names of environments that can be trained in, the latest first; drafts are not among them. */
export async function trainingEnvironments(search: string, signal: AbortSignal): Promise<Environment[]> {
  let query = supabase().from("environments").select("*").in("kind", [...TRAINING_KINDS]).eq("is_draft", false);
  if (search.trim()) query = query.ilike("name", containing(search.trim()));
  return await answered(query.order("updated_at", { ascending: false }).order("id").limit(20).abortSignal(signal));
}

export async function readEnvironment(id: string, signal: AbortSignal): Promise<Environment> {
  const found = await answered(supabase().from("environments").select("*").eq("id", id).limit(1).abortSignal(signal));
  if (!found[0]) throw RequestError.unknown(`environment ${id}: unknown id`);
  return found[0];
}

/** The versions of an environment, the latest first, without their pictures. */
export async function readVersions(id: string, signal: AbortSignal): Promise<EnvironmentVersion[]> {
  return await answered(
    supabase().from("environment_versions").select("environment_id, version, kind, spec, preview_error, created_at")
      .eq("environment_id", id).order("version", { ascending: false }).limit(VERSIONS).abortSignal(signal),
  );
}

export interface Preview {
  preview: string | null;
  preview_error: string | null;
}

export async function readPreview(id: string, version: number, signal: AbortSignal): Promise<Preview> {
  const found = await answered(
    supabase().from("environment_versions").select("preview, preview_error").eq("environment_id", id)
      .eq("version", version).limit(1).abortSignal(signal),
  );
  return found[0] ?? { preview: null, preview_error: null };
}

export interface EnvironmentChange {
  name?: string;
  kind?: string;
  description?: string | null;
  spec?: Spec;
  is_draft?: boolean;
}

function named(error: unknown): never {
  if (error instanceof RequestError && error.code === TAKEN) {
    throw new RequestError("name: there is an environment of this name already", TAKEN);
  }
  throw error;
}

/** Make an environment; return its id. */
export async function addEnvironment(given: EnvironmentChange & { name: string; kind: string }): Promise<string> {
  const made = await answered(supabase().from("environments").insert(given).select("id")).catch(named);
  return made[0]!.id;
}

/** Change an environment; the database refuses who may not, and counts a new version where kind or spec changed. */
export async function changeEnvironment(id: string, change: EnvironmentChange): Promise<void> {
  const changed = await answered(supabase().from("environments").update(change).eq("id", id).select("id")).catch(named);
  if (!changed.length) {
    throw new RequestError("This environment is not yours to change; ask its owner or an admin.", FORBIDDEN);
  }
}

export async function deleteEnvironment(id: string): Promise<void> {
  const gone = await answered(supabase().from("environments").delete().eq("id", id).select("id"));
  if (!gone.length) throw new RequestError("This environment is not yours to delete.", FORBIDDEN);
}

/** The answer of import-environment: the draft that was made. */
export interface Imported {
  environment: { id: string };
  /** What to check, and what was left out or assumed. */
  warnings: string[];
}

/** Read a page, such as a paper, and make a draft of what it describes; return the draft and what to check. */
export async function importEnvironment(url: string): Promise<Imported> {
  return await invoke<Imported>("import-environment", { url });
}
