// Written by scripts/generate_types from the migrations. Do not edit.

export const RUN_STATUSES = [
  "pending",
  "running",
  "completed",
  "failed",
  "cancelled",
  "interrupted",
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

export const STEP_STATUSES = [
  "pending",
  "running",
  "completed",
  "failed",
  "interrupted",
] as const;
export type StepStatus = (typeof STEP_STATUSES)[number];

export const EVALUATION_STATUSES = [
  "pending",
  "running",
  "completed",
  "failed",
  "cancelled",
  "interrupted",
] as const;
export type EvaluationStatus = (typeof EVALUATION_STATUSES)[number];

export const ROLLOUT_STATUSES = [
  "pending",
  "provisioning",
  "running",
  "success",
  "failed",
  "completed",
  "truncated",
  "timeout",
  "error",
  "cancelled",
  "interrupted",
] as const;
export type RolloutStatus = (typeof ROLLOUT_STATUSES)[number];

export const JOB_STATUSES = [
  "pending",
  "launching",
  "queued",
  "running",
  "succeeded",
  "failed",
  "cancelled",
] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

export const JOB_BACKENDS = [
  "local",
  "skypilot",
] as const;
export type JobBackend = (typeof JOB_BACKENDS)[number];

export const ORCHESTRATOR_STATES = [
  "active",
  "stopped",
] as const;
export type OrchestratorState = (typeof ORCHESTRATOR_STATES)[number];

export const SWEEP_STATUSES = [
  "pending",
  "running",
  "completed",
  "failed",
  "cancelled",
] as const;
export type SweepStatus = (typeof SWEEP_STATUSES)[number];

export const SWEEP_METHODS = [
  "grid",
  "random",
  "bayesian",
  "seeds",
] as const;
export type SweepMethod = (typeof SWEEP_METHODS)[number];

export const SWEEP_DIRECTIONS = [
  "maximize",
  "minimize",
] as const;
export type SweepDirection = (typeof SWEEP_DIRECTIONS)[number];

export const WORKER_STATES = [
  "active",
  "draining",
  "stopped",
] as const;
export type WorkerState = (typeof WORKER_STATES)[number];

export const STEP_PHASES = [
  "rollout",
  "training",
] as const;
export type StepPhase = (typeof STEP_PHASES)[number];

export const EVALUATION_KINDS = [
  "eval",
  "baseline",
] as const;
export type EvaluationKind = (typeof EVALUATION_KINDS)[number];

export const ROLLOUT_SOURCES = [
  "training",
  "evaluation",
  "baseline",
  "manual",
  "import",
] as const;
export type RolloutSource = (typeof ROLLOUT_SOURCES)[number];

export const MEDIA_KINDS = [
  "frame",
  "screenshot",
  "image",
  "video",
  "audio",
  "file",
] as const;
export type MediaKind = (typeof MEDIA_KINDS)[number];

export const VERDICTS = [
  "pass",
  "fail",
  "error",
] as const;
export type Verdict = (typeof VERDICTS)[number];

export const OVERRIDE_VERDICTS = [
  "pass",
  "fail",
] as const;
export type OverrideVerdict = (typeof OVERRIDE_VERDICTS)[number];

export const VISIBILITIES = [
  "private",
  "public",
] as const;
export type Visibility = (typeof VISIBILITIES)[number];

export const ARCHIVE_STATUSES = [
  "writing",
  "archived",
] as const;
export type ArchiveStatus = (typeof ARCHIVE_STATUSES)[number];

export const MEMBER_ROLES = [
  "viewer",
  "editor",
  "admin",
] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];

export const ACTOR_KINDS = [
  "member",
  "key",
  "secret_key",
  "system",
] as const;
export type ActorKind = (typeof ACTOR_KINDS)[number];

/** The statuses that count as completed in success rates and averages. */
export const COMPLETED_ROLLOUT_STATUSES = [
  "success",
  "failed",
  "completed",
  "truncated",
  "timeout",
  "error",
] as const;
export type CompletedRolloutStatus = (typeof COMPLETED_ROLLOUT_STATUSES)[number];

/** The kinds of records that `ingest` takes, parents before children. */
export const RECORD_KINDS = [
  "environments",
  "tasks",
  "validators",
  "training_runs",
  "training_steps",
  "model_checkpoints",
  "evaluations",
  "evaluation_results",
  "rollout_groups",
  "rollouts",
  "agent_states",
  "observations",
  "generations",
  "tool_calls",
  "rewards",
  "validations",
  "media",
  "metric_chunks",
] as const;
export type RecordKind = (typeof RECORD_KINDS)[number];

/** The codes that our own SQL raises and refuses with. */
export const ERROR_CODES = [
  "OM400",
  "OM403",
  "OM404",
  "OM409",
  "OM413",
] as const;
export type ErrorCode = (typeof ERROR_CODES)[number];

/** The columns that take no other words, by table. */
export interface Choices {
  training_runs: { status: RunStatus; visibility: Visibility; archive_status: ArchiveStatus };
  training_steps: { status: StepStatus; phase: StepPhase };
  evaluations: { status: EvaluationStatus; kind: EvaluationKind };
  rollouts: { status: RolloutStatus; source: RolloutSource };
  jobs: { status: JobStatus; backend: JobBackend };
  orchestrators: { state: OrchestratorState };
  sweeps: { status: SweepStatus; method: SweepMethod; direction: SweepDirection };
  workers: { state: WorkerState };
  media: { kind: MediaKind };
  validations: { verdict: Verdict };
  validation_overrides: { verdict: OverrideVerdict };
  members: { role: MemberRole };
  member_keys: { role: MemberRole };
  invitations: { role: MemberRole };
  audit_log: { actor_kind: ActorKind };
}
