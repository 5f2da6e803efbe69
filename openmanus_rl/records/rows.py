# Written by scripts/generate_types from the migrations. Do not edit.
# ruff: noqa
# fmt: off
"""Rows of tables as the managers return them; ids and times are text, and JSON is what was put in it."""

from typing import Any, TypedDict

from openmanus_rl.records.statuses import ActorKind, ArchiveStatus, EvaluationKind, EvaluationStatus, JobBackend, JobStatus, MediaKind, MemberRole, OrchestratorState, OverrideVerdict, RolloutSource, RolloutStatus, RunStatus, StepPhase, StepStatus, SweepDirection, SweepMethod, SweepStatus, Verdict, Visibility, WorkerState

__all__ = ["ROW_TYPES", "AgentState", "Archive", "AuditLog", "Environment", "EnvironmentVersion", "Evaluation", "EvaluationResult", "Generation", "Invitation", "Job", "JobLog", "Media", "Member", "MemberKey", "MetricChunk", "ModelCheckpoint", "Observation", "Orchestrator", "Reward", "Rollout", "RolloutGroup", "RunOverview", "StatusChange", "Sweep", "SweepTrial", "Task", "ToolCall", "TrainingRun", "TrainingStep", "Validation", "ValidationOverride", "Validator", "Worker"]


class Environment(TypedDict):
    """A row of environments."""

    id: str
    name: str
    kind: str | None
    description: str | None
    spec: Any
    version: int
    is_draft: bool
    source: str | None
    owner_id: str | None
    created_at: str
    updated_at: str


class Task(TypedDict):
    """A row of tasks."""

    id: str
    external_id: str | None
    environment: str | None
    name: str | None
    description: str
    expected_answer: str | None
    solution: Any | None
    files_path: str | None
    version: int
    split: str | None
    metadata: Any
    owner_id: str | None
    created_at: str
    updated_at: str


class Validator(TypedDict):
    """A row of validators."""

    id: str
    task_id: str
    external_id: str
    kind: str
    spec: Any
    version: int
    retired_at: str | None
    created_at: str
    updated_at: str


class TrainingRun(TypedDict):
    """A row of training_runs."""

    id: str
    name: str
    run_name: str | None
    algorithm: str | None
    environment: str | None
    environment_version: int | None
    description: str | None
    config: Any
    summary: Any
    metadata: Any
    tags: list[str]
    status: RunStatus
    status_message: str | None
    status_change_id: str | None
    current_step: int | None
    total_steps: int | None
    progress: float | None
    timeline: int
    rewinds: list[int] | None
    baseline_id: str | None
    stop_requested_at: str | None
    heartbeat_at: str | None
    heartbeat_timeout_seconds: int
    archive_status: ArchiveStatus | None
    visibility: Visibility
    owner_id: str | None
    started_at: str | None
    finished_at: str | None
    created_at: str
    updated_at: str


class TrainingStep(TypedDict):
    """A row of training_steps."""

    id: str
    training_run_id: str
    step: int
    phase: StepPhase | None
    status: StepStatus
    status_message: str | None
    status_change_id: str | None
    rollout_progress: float | None
    training_progress: float | None
    loss: float | None
    kl: float | None
    grad_norm: float | None
    reward_mean: float | None
    reward_std: float | None
    tokens: int | None
    metrics: Any
    timeline: int
    rewound_at: str | None
    started_at: str | None
    finished_at: str | None
    created_at: str
    updated_at: str


class ModelCheckpoint(TypedDict):
    """A row of model_checkpoints."""

    id: str
    training_run_id: str
    checkpoint_number: int
    step: int | None
    storage_path: str | None
    size_bytes: int | None
    checksum: str | None
    metrics: Any
    metadata: Any
    timeline: int
    rewound_at: str | None
    created_at: str
    updated_at: str


class Evaluation(TypedDict):
    """A row of evaluations."""

    id: str
    training_run_id: str | None
    checkpoint_id: str | None
    kind: EvaluationKind
    name: str | None
    step: int | None
    model: str | None
    environment: str | None
    status: EvaluationStatus
    status_message: str | None
    status_change_id: str | None
    progress: float | None
    success_rate: float | None
    mean_reward: float | None
    mean_turns: float | None
    measured: list[str]
    is_queued: bool
    metadata: Any
    owner_id: str | None
    timeline: int
    rewound_at: str | None
    started_at: str | None
    finished_at: str | None
    created_at: str
    updated_at: str


class EvaluationResult(TypedDict):
    """A row of evaluation_results."""

    id: str
    checkpoint_id: str
    training_run_id: str | None
    evaluation_id: str | None
    task_id: str | None
    environment: str
    episode_count: int | None
    success_rate: float | None
    mean_reward: float | None
    mean_turns: float | None
    result_path: str | None
    metrics: Any
    created_at: str
    updated_at: str


class RolloutGroup(TypedDict):
    """A row of rollout_groups."""

    id: str
    training_run_id: str | None
    training_step_id: str | None
    evaluation_id: str | None
    task_id: str | None
    number: int
    task_description: str | None
    metadata: Any
    rollout_count: int
    completed_count: int
    success_count: int
    reward_count: int
    reward_sum: float
    reward_squares: float
    reward_mean: float | None
    reward_std: float | None
    created_at: str
    updated_at: str


class Rollout(TypedDict):
    """A row of rollouts."""

    id: str
    training_run_id: str | None
    group_id: str | None
    task_id: str | None
    source: RolloutSource
    environment: str
    episode_number: int | None
    step: int | None
    task_description: str | None
    status: RolloutStatus
    status_message: str | None
    status_change_id: str | None
    total_reward: float | None
    step_count: int | None
    result: Any | None
    error: str | None
    agent: str | None
    model: str | None
    policy_version: int | None
    seed: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    video_path: str | None
    logs_path: str | None
    metadata: Any
    request: Any | None
    priority: int
    worker_id: str | None
    lease_id: str | None
    attempt: int
    max_attempts: int
    attempt_of: str | None
    cancel_requested_at: str | None
    delete_requested: bool
    cache_key: str | None
    owner_id: str | None
    timeline: int
    rewound_at: str | None
    started_at: str | None
    finished_at: str | None
    created_at: str
    updated_at: str


class AgentState(TypedDict):
    """A row of agent_states."""

    id: str
    rollout_id: str
    training_run_id: str | None
    step_number: int
    reward: float | None
    observation: str | None
    action: str | None
    thought: str | None
    memory_summary: str | None
    messages: Any | None
    messages_from: int | None
    chat: list[int] | None
    model_response: Any | None
    info: Any | None
    duration_ms: float | None
    model_duration_ms: float | None
    environment_duration_ms: float | None
    created_at: str


class Observation(TypedDict):
    """A row of observations."""

    id: str
    agent_state_id: str
    training_run_id: str | None
    position: int
    kind: str
    text: str | None
    media_path: str | None


class Generation(TypedDict):
    """A row of generations."""

    id: str
    agent_state_id: str
    training_run_id: str | None
    position: int
    model: str | None
    policy_version: int | None
    prompt_ids: list[int] | None
    tokens_from: int | None
    prompt: list[int] | None
    completion_ids: list[int] | None
    logprobs: list[float] | None
    mask: list[bool] | None
    advantages: list[float] | None
    finish_reason: str | None


class ToolCall(TypedDict):
    """A row of tool_calls."""

    id: str
    agent_state_id: str
    training_run_id: str | None
    position: int
    tool_name: str
    tool_input: Any | None
    tool_output: str | None
    success: bool | None
    error_message: str | None
    execution_time_ms: float | None
    created_at: str


class Reward(TypedDict):
    """A row of rewards."""

    id: str
    rollout_id: str
    training_run_id: str | None
    step_number: int | None
    reward_type: str
    reward: float
    details: Any | None
    created_at: str


class Validation(TypedDict):
    """A row of validations."""

    id: str
    rollout_id: str
    training_run_id: str | None
    validator_id: str | None
    validator_name: str
    validator_version: int | None
    verdict: Verdict
    score: float | None
    expected: str | None
    actual: str | None
    message: str | None
    details: Any | None
    created_at: str
    updated_at: str


class ValidationOverride(TypedDict):
    """A row of validation_overrides."""

    id: str
    rollout_id: str
    training_run_id: str | None
    validation_id: str | None
    verdict: OverrideVerdict | None
    reason: str
    old_status: str
    new_status: str
    made_by: str | None
    made_by_name: str | None
    created_at: str


class Media(TypedDict):
    """A row of media."""

    id: str
    training_run_id: str | None
    rollout_id: str | None
    agent_state_id: str | None
    kind: MediaKind
    bucket: str
    path: str
    content_type: str | None
    size_bytes: int | None
    checksum: str | None
    width: int | None
    height: int | None
    duration_ms: float | None
    metadata: Any
    timeline: int
    rewound_at: str | None
    owner_id: str | None
    created_at: str


class EnvironmentVersion(TypedDict):
    """A row of environment_versions."""

    id: str
    environment_id: str
    version: int
    kind: str | None
    spec: Any
    preview: str | None
    preview_error: str | None
    created_by: str | None
    created_at: str


class Job(TypedDict):
    """A row of jobs."""

    id: str
    training_run_id: str | None
    backend: JobBackend
    name: str | None
    status: JobStatus
    status_message: str | None
    status_change_id: str | None
    config: Any
    yaml: str | None
    external_id: str | None
    host: str | None
    orchestrator_id: str | None
    attempt: int
    restarts: int
    max_restarts: int
    exit_code: int | None
    cost_usd: float | None
    earlier_cost_usd: float
    stop_requested_at: str | None
    owner_id: str | None
    started_at: str | None
    finished_at: str | None
    created_at: str
    updated_at: str


class JobLog(TypedDict):
    """A row of job_logs."""

    id: str
    job_id: str
    attempt: int
    start: int
    bytes: int
    text: str
    created_at: str


class Orchestrator(TypedDict):
    """A row of orchestrators."""

    id: str
    name: str
    host: str
    pid: int | None
    version: str | None
    backends: list[str]
    max_jobs: int
    state: OrchestratorState
    owner_id: str | None
    heartbeat_at: str
    started_at: str
    stopped_at: str | None


class Sweep(TypedDict):
    """A row of sweeps."""

    id: str
    name: str
    method: SweepMethod
    template: Any
    space: Any
    metric: str
    direction: SweepDirection
    max_trials: int
    max_concurrent: int
    seed: int
    early_stopping: Any | None
    job_config: Any
    status: SweepStatus
    status_message: str | None
    status_change_id: str | None
    next_trial: int
    importances: Any | None
    orchestrator_id: str | None
    owner_id: str | None
    started_at: str | None
    finished_at: str | None
    created_at: str
    updated_at: str


class SweepTrial(TypedDict):
    """A row of sweep_trials."""

    id: str
    sweep_id: str
    trial: int
    training_run_id: str | None
    parameters: Any
    pruned_at: str | None
    created_at: str


class Worker(TypedDict):
    """A row of workers."""

    id: str
    name: str
    host: str | None
    pid: int | None
    version: str | None
    max_rollouts: int
    providers: list[str]
    state: WorkerState
    infra: Any
    owner_id: str | None
    heartbeat_at: str
    started_at: str
    stopped_at: str | None


class MetricChunk(TypedDict):
    """A row of metric_chunks."""

    id: str
    training_run_id: str
    name: str
    axis_id: str | None
    steps: list[int] | None
    values: list[float]
    times: list[str] | None
    first_step: int
    last_step: int
    timeline: int
    visible_to: int | None
    updated_at: str


class Archive(TypedDict):
    """A row of archives."""

    id: str
    training_run_id: str
    files: Any
    row_counts: Any
    figures: Any
    archive_bytes: int
    database_bytes: int
    loaded_at: str | None
    created_at: str


class Member(TypedDict):
    """A row of members."""

    user_id: str
    role: MemberRole
    display_name: str | None
    created_at: str
    updated_at: str


class MemberKey(TypedDict):
    """A row of member_keys."""

    id: str
    member_id: str
    name: str
    prefix: str
    role: MemberRole
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class Invitation(TypedDict):
    """A row of invitations."""

    id: str
    email: str
    role: MemberRole
    invited_by: str | None
    created_at: str
    expires_at: str
    accepted_at: str | None
    accepted_by: str | None
    revoked_at: str | None


class AuditLog(TypedDict):
    """A row of audit_log."""

    id: str
    happened_at: str
    action: str
    actor_kind: ActorKind
    actor_id: str | None
    actor_name: str | None
    key_id: str | None
    key_name: str | None
    subject: str | None
    subject_id: str | None
    subject_name: str | None
    details: Any


class StatusChange(TypedDict):
    """A row of status_history."""

    id: str
    entity: str
    entity_id: str
    training_run_id: str | None
    old_status: str | None
    new_status: str
    message: str | None
    changed_by: str | None
    changed_at: str


class RunOverview(TrainingRun):
    """A row of run_overview."""

    shown_status: str
    steps_done: int | None


ROW_TYPES: dict[str, type] = {
    "environments": Environment,
    "tasks": Task,
    "validators": Validator,
    "training_runs": TrainingRun,
    "training_steps": TrainingStep,
    "model_checkpoints": ModelCheckpoint,
    "evaluations": Evaluation,
    "evaluation_results": EvaluationResult,
    "rollout_groups": RolloutGroup,
    "rollouts": Rollout,
    "agent_states": AgentState,
    "observations": Observation,
    "generations": Generation,
    "tool_calls": ToolCall,
    "rewards": Reward,
    "validations": Validation,
    "media": Media,
    "metric_chunks": MetricChunk,
}
"""By kind of record: the type of its rows."""
