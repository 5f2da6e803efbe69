/** Training jobs: asking for them, following them, their logs, and the orchestrators that launch them. */
import type { JobStatus, Json, Row } from "@/database.ts";
import { answered, rpc, supabase } from "@/supabase.ts";
import type { Results } from "./contract.ts";
import { after, type Place, placeAfter } from "./paging.ts";

export type Job = Row<"jobs">;
export type JobsOverview = Results["jobs_overview"];
export type Orchestrator = JobsOverview["orchestrators"][number];
export type JobLog = Results["read_job_logs"];
export type JobConfig = Record<string, Json>;

/** The columns of a list; what can be long is not among them. */
const LISTED =
  "id, name, training_run_id, backend, status, status_message, host, attempt, restarts, max_restarts, exit_code, cost_usd, stop_requested_at, owner_id, started_at, finished_at, created_at" as const;
export type ListedJob = Pick<
  Job,
  | "id"
  | "name"
  | "training_run_id"
  | "backend"
  | "status"
  | "status_message"
  | "host"
  | "attempt"
  | "restarts"
  | "max_restarts"
  | "exit_code"
  | "cost_usd"
  | "stop_requested_at"
  | "owner_id"
  | "started_at"
  | "finished_at"
  | "created_at"
>;

const PAGE = 50;
const JOBS_OF_A_RUN = 20;

export const ACTIVE_JOB: readonly JobStatus[] = ["pending", "launching", "queued", "running"];

export function isActiveJob(status: string): boolean {
  return (ACTIVE_JOB as readonly string[]).includes(status);
}

export function isRetryableJob(status: string): boolean {
  return status === "failed" || status === "cancelled";
}

export async function readJobs(statuses: string[], from: Place | null, signal: AbortSignal): Promise<ListedJob[]> {
  let query = supabase().from("jobs").select(LISTED);
  // An address may name any status; one that is none finds nothing.
  if (statuses.length) query = query.in("status", statuses as JobStatus[]);
  if (from) query = query.or(after("created_at", from, "ascending"));
  return await answered(
    query.order("created_at", { ascending: false }).order("id").limit(PAGE).abortSignal(signal),
  );
}

export function nextJobPage(page: ListedJob[]): Place | null {
  return placeAfter(page, PAGE, (job) => job.created_at);
}

/** The jobs of a run, the latest first. */
export async function readJobsOfRun(runId: string, signal: AbortSignal): Promise<Job[]> {
  return await answered(
    supabase().from("jobs").select("*").eq("training_run_id", runId).order("created_at", { ascending: false })
      .order("id").limit(JOBS_OF_A_RUN).abortSignal(signal),
  );
}

export function jobsOverview(signal: AbortSignal): Promise<JobsOverview> {
  return rpc("jobs_overview", {}, signal);
}

export function previewJob(runId: string, config: JobConfig, signal: AbortSignal): Promise<Results["preview_job"]> {
  return rpc("preview_job", { run_id: runId, config }, signal);
}

/** Asking again with the same id makes nothing new. */
export function requestJob(runId: string, config: JobConfig, jobId: string): Promise<Results["request_job"]> {
  return rpc("request_job", { run_id: runId, config, job_id: jobId });
}

export function stopRun(runId: string): Promise<unknown> {
  return rpc("stop_run", { run_id: runId });
}

export function stopJobs(ids: string[]): Promise<unknown> {
  return rpc("stop_jobs", { job_ids: ids });
}

export function retryJob(jobId: string): Promise<unknown> {
  return rpc("retry_job", { job_id: jobId });
}

export function readJobLogs(
  jobId: string,
  attempt: number | null,
  from: number,
  signal: AbortSignal,
): Promise<JobLog> {
  return rpc("read_job_logs", { job_id: jobId, attempt, after: from }, signal);
}
