/**
 * What the database's functions answer, the filters that they take, and the rows of its views.
 *
 * Of most of these the database says `jsonb` and no more. A test calls every function on real data and holds its answers
 * to these schemas, field by field. The dashboard takes types from here and nothing else: no schema is in its build.
 */
import * as v from "valibot";
import type { Database, Json } from "../../../supabase/functions/_shared/database.types.ts";
import {
  ARCHIVE_STATUSES,
  ERROR_CODES,
  EVALUATION_KINDS,
  EVALUATION_STATUSES,
  JOB_BACKENDS,
  JOB_STATUSES,
  MEMBER_ROLES,
  ORCHESTRATOR_STATES,
  OVERRIDE_VERDICTS,
  RECORD_KINDS,
  ROLLOUT_SOURCES,
  ROLLOUT_STATUSES,
  RUN_STATUSES,
  VISIBILITIES,
  WORKER_STATES,
} from "../../../supabase/functions/_shared/constants.ts";

const text = v.string();
const id = v.pipe(v.string(), v.uuid());
const time = v.pipe(v.string(), v.isoTimestamp());
const flag = v.boolean();
const number = v.number();
const count = v.pipe(v.number(), v.integer());
/** A double as JSON may hold it: NaN and the infinities come as text. */
const double = v.union([v.number(), v.picklist(["NaN", "Infinity", "-Infinity"])]);
const json = v.custom<Json>(() => true);
const maybe = v.nullable;
const list = v.array;
const fields = v.strictObject;
const rolloutStatus = v.picklist(ROLLOUT_STATUSES);

/** A row as its table has it, of which the generated types know the columns. */
const row = v.looseObject({ id });

// Rollouts ---------------------------------------------------------------------------------------------------------------

/** A rollout as lists show it. */
const shownRollout = {
  id,
  training_run_id: maybe(id),
  run_name: maybe(text),
  group_id: maybe(id),
  task_id: maybe(id),
  task_description: maybe(text),
  environment: text,
  source: v.picklist(ROLLOUT_SOURCES),
  status: rolloutStatus,
  total_reward: maybe(double),
  step_count: maybe(count),
  step: maybe(count),
  episode_number: maybe(count),
  agent: maybe(text),
  model: maybe(text),
  policy_version: maybe(count),
  error: maybe(text),
  started_at: maybe(time),
  finished_at: maybe(time),
  created_at: time,
  rewound_at: maybe(time),
  overridden: flag,
};

const foundRollouts = fields({
  rollouts: list(fields({
    ...shownRollout,
    match: maybe(fields({ step_number: maybe(count), field: text, snippet: text })),
  })),
  /** Where the next page begins; null at the end. */
  next: maybe(v.union([fields({ created_at: time, id }), fields({ reward: maybe(double), id })])),
  searched: count,
  searched_to: maybe(time),
});

const groupComparison = fields({
  group: fields({
    id,
    number: count,
    training_run_id: maybe(id),
    training_step_id: maybe(id),
    step: maybe(count),
    evaluation_id: maybe(id),
    task_id: maybe(id),
    task_description: maybe(text),
    rollout_count: count,
    completed_count: count,
    success_count: count,
    reward_mean: maybe(number),
    reward_std: maybe(number),
  }),
  no_variance: maybe(flag),
  parts_at: maybe(count),
  rollouts: list(fields({
    ...shownRollout,
    group_id: id,
    advantage: maybe(double),
    computed_advantage: maybe(double),
    at_parting: maybe(fields({ observation: maybe(text), action: maybe(text), thought: maybe(text) })),
  })),
});

/** All turns in columns: small even where there are thousands. */
const outline = fields({
  turns: count,
  step_numbers: list(count),
  rewards: list(maybe(double)),
  tools: list(count),
  tool_errors: list(count),
  durations_ms: list(maybe(number)),
  chars: list(count),
  tool_names: v.record(text, count),
});

const toolCall = fields({
  id,
  position: count,
  tool_name: text,
  tool_input: json,
  tool_input_cut: v.optional(v.literal(true)),
  tool_input_chars: maybe(count),
  tool_output: maybe(text),
  tool_output_chars: maybe(count),
  success: maybe(flag),
  error_message: maybe(text),
  execution_time_ms: maybe(number),
});

const generation = fields({
  id,
  position: count,
  model: maybe(text),
  policy_version: maybe(count),
  completion_tokens: maybe(count),
  prompt_tokens: maybe(count),
  mean_logprob: maybe(double),
  mean_advantage: maybe(double),
  finish_reason: maybe(text),
  has_logprobs: flag,
});

const media = fields({
  id,
  kind: text,
  bucket: text,
  path: text,
  content_type: maybe(text),
  width: maybe(count),
  height: maybe(count),
  duration_ms: maybe(number),
});

const turn = fields({
  id,
  step_number: count,
  created_at: time,
  duration_ms: maybe(number),
  model_duration_ms: maybe(number),
  environment_duration_ms: maybe(number),
  observation: maybe(text),
  observation_chars: maybe(count),
  action: maybe(text),
  action_chars: maybe(count),
  thought: maybe(text),
  thought_chars: maybe(count),
  memory_summary: maybe(text),
  memory_summary_chars: maybe(count),
  info: json,
  info_cut: v.optional(v.literal(true)),
  has_messages: flag,
  has_model_response: flag,
  tool_calls: list(toolCall),
  rewards: list(fields({ reward_type: text, reward: double, details: json })),
  observations: list(fields({
    position: count,
    kind: text,
    text: maybe(text),
    text_chars: maybe(count),
    media_path: maybe(text),
  })),
  media: list(media),
  generations: list(generation),
});

const tokens = fields({
  completion_ids: list(count),
  logprobs: maybe(list(maybe(double))),
  mask: maybe(list(flag)),
  advantages: maybe(list(maybe(double))),
  /** As texts, where the model's answer had them. */
  tokens: maybe(list(text)),
});

// Runs -------------------------------------------------------------------------------------------------------------------

const bucket = fields({
  from_step: count,
  to_step: count,
  rollouts: count,
  completed: count,
  solved: count,
  truncated: count,
  errors: count,
  reward_min: maybe(number),
  reward_p10: maybe(number),
  reward_p25: maybe(number),
  reward_p50: maybe(number),
  reward_p75: maybe(number),
  reward_p90: maybe(number),
  reward_max: maybe(number),
  reward_mean: maybe(number),
  mean_turns: maybe(number),
  groups: count,
  flat_groups: count,
});

const health = fields({
  rollouts: count,
  completed: count,
  solved: count,
  truncated: count,
  errors: count,
  groups: count,
  flat_groups: count,
  tool_calls: count,
  tool_errors: count,
  mean_staleness: maybe(number),
  max_staleness: maybe(number),
  rollouts_per_minute: maybe(number),
  turns_per_minute: maybe(number),
  tokens_per_second: maybe(number),
  seconds_per_step: maybe(number),
  window_from: maybe(time),
  window_to: maybe(time),
});

const evaluation = fields({
  id,
  name: maybe(text),
  kind: v.picklist(EVALUATION_KINDS),
  step: maybe(count),
  model: maybe(text),
  status: v.picklist(EVALUATION_STATUSES),
  success_rate: maybe(number),
  mean_reward: maybe(double),
  mean_turns: maybe(number),
  created_at: time,
});

const comparedTask = fields({
  task_id: maybe(id),
  task: maybe(text),
  baseline_rate: maybe(number),
  rate: maybe(number),
  baseline_rollouts: count,
  rollouts: count,
  change: v.picklist(["solved", "broken", "same", "new", "missing"]),
});

const listedRun = fields({
  id,
  name: text,
  run_name: maybe(text),
  algorithm: maybe(text),
  environment: maybe(text),
  description: maybe(text),
  tags: list(text),
  status: v.picklist(RUN_STATUSES),
  /** As `status`, but "stalled" where the heartbeat of a running run stopped. */
  shown_status: v.picklist([...RUN_STATUSES, "stalled"]),
  status_message: maybe(text),
  /** The number of the last step, counted from 0 by some and from 1 by others. */
  current_step: maybe(count),
  steps_done: maybe(count),
  total_steps: maybe(count),
  progress: maybe(number),
  heartbeat_at: maybe(time),
  heartbeat_timeout_seconds: count,
  archive_status: maybe(v.picklist(ARCHIVE_STATUSES)),
  visibility: v.picklist(VISIBILITIES),
  owner_id: maybe(id),
  owner_name: maybe(text),
  baseline_id: maybe(id),
  timeline: count,
  started_at: maybe(time),
  finished_at: maybe(time),
  created_at: time,
  updated_at: time,
  rollout_count: count,
  completed_count: count,
  success_count: count,
  success_rate: maybe(number),
  average_reward: maybe(number),
  average_turns: maybe(number),
  search_text: text,
});

// Tasks ------------------------------------------------------------------------------------------------------------------

const listedTask = fields({
  id,
  external_id: maybe(text),
  environment: maybe(text),
  name: maybe(text),
  description: text,
  expected_answer: maybe(text),
  split: maybe(text),
  created_at: time,
  updated_at: time,
  validators: count,
  /** Of the newest rollouts. */
  rollouts: count,
  completed: count,
  solved: count,
  success_rate: maybe(number),
  mean_reward: maybe(number),
  last_rollout_at: maybe(time),
});

const taskHistory = fields({
  sample: count,
  over_time: list(fields({
    from: time,
    to: time,
    rollouts: count,
    completed: count,
    solved: count,
    mean_reward: maybe(number),
  })),
  by_checkpoint: list(fields({
    checkpoint_id: id,
    checkpoint_number: count,
    training_run_id: id,
    run_name: text,
    step: maybe(count),
    /** Unknown where a result was recorded without them. */
    rollouts: maybe(count),
    completed: maybe(count),
    solved: maybe(count),
    success_rate: maybe(number),
    mean_reward: maybe(number),
  })),
  by_run: list(fields({
    training_run_id: maybe(id),
    run_name: maybe(text),
    rollouts: count,
    completed: count,
    solved: count,
    mean_reward: maybe(number),
    last_at: time,
  })),
});

// The queue --------------------------------------------------------------------------------------------------------------

/** A rollout of the queue, with the beginnings of its texts. */
const queued = {
  id,
  task_id: maybe(id),
  task_description: text,
  environment: text,
  training_run_id: maybe(id),
  /** Who may change it besides admins: the owner of its run, or its own. */
  owner_id: maybe(id),
  agent: text,
  model: maybe(text),
  status: rolloutStatus,
  status_message: maybe(text),
  priority: count,
  attempt: count,
  max_attempts: count,
  /** The kind of environment that its worker must be able to start. */
  provider: text,
  cancelling: flag,
  worker_id: maybe(id),
  worker_name: maybe(text),
  created_at: time,
  claimed_at: maybe(time),
  expires_at: maybe(time),
  started_at: maybe(time),
  finished_at: maybe(time),
  total_reward: maybe(double),
  turns: count,
  result: maybe(text),
  error: maybe(text),
  video_path: maybe(text),
  logs_path: maybe(text),
};

const nothing = v.null();
const waiting = {
  ...queued,
  ...{ worker_id: nothing, worker_name: nothing, claimed_at: nothing, expires_at: nothing },
  ...{ started_at: nothing, finished_at: nothing, total_reward: nothing, result: nothing, error: nothing },
  ...{ video_path: nothing, logs_path: nothing },
};
const held = { ...queued, worker_id: id, claimed_at: time, expires_at: time, finished_at: nothing };

const worker = fields({
  id,
  name: text,
  host: maybe(text),
  pid: maybe(count),
  version: maybe(text),
  max_rollouts: count,
  providers: list(text),
  state: v.picklist(WORKER_STATES),
  infra: json,
  owner_id: maybe(id),
  heartbeat_at: time,
  started_at: time,
  stopped_at: maybe(time),
  /** It has not renewed its leases for a minute. */
  is_silent: flag,
  held: count,
  /** Since when it has the oldest of them. */
  held_since: maybe(time),
});

const claim = fields({
  rollout: row,
  lease_id: id,
  task: maybe(v.looseObject({ id, validators: list(row) })),
  environment: maybe(fields({ id, name: text, version: count, kind: maybe(text), spec: json })),
});

const resultsOfAgent = fields({
  agent: maybe(text),
  model: maybe(text),
  rollouts: count,
  completed: count,
  verified: count,
  solved: count,
  success_rate: maybe(number),
  mean_reward: maybe(number),
  mean_turns: maybe(number),
  cost_usd: maybe(number),
  input_tokens: maybe(count),
  output_tokens: maybe(count),
  last_at: time,
  /** By k: the probability that one of k rollouts solves the task. */
  pass_at: maybe(v.record(text, number)),
});

// Jobs and sweeps --------------------------------------------------------------------------------------------------------

const orchestrated = { job: row, lease_id: id, name: text, task: json, run: maybe(row) };

const trial = fields({
  trial: count,
  training_run_id: maybe(id),
  parameters: v.record(text, json),
  is_pruned: flag,
  name: maybe(text),
  status: maybe(v.picklist(RUN_STATUSES)),
  progress: maybe(number),
  current_step: maybe(count),
  started_at: maybe(time),
  finished_at: maybe(time),
  job_id: maybe(id),
  job_status: maybe(v.picklist(JOB_STATUSES)),
  message: maybe(text),
  seconds_since_end: maybe(number),
  value: maybe(double),
});

const madeTrial = fields({
  id,
  sweep_id: id,
  trial: count,
  training_run_id: maybe(id),
  parameters: v.record(text, json),
  pruned_at: maybe(time),
  created_at: time,
});

const orchestrator = fields({
  id,
  name: text,
  host: text,
  pid: maybe(count),
  version: maybe(text),
  backends: list(text),
  max_jobs: count,
  state: v.picklist(ORCHESTRATOR_STATES),
  heartbeat_at: time,
  started_at: time,
  stopped_at: maybe(time),
  /** It has not been heard of for a minute. */
  is_silent: flag,
  /** How many jobs it follows. */
  held: count,
});

/** What a run looked like at a step. */
const frame = fields({
  id,
  step: number,
  bucket: text,
  path: text,
  width: maybe(count),
  height: maybe(count),
  created_at: time,
});

// All of them ------------------------------------------------------------------------------------------------------------

type Functions = Database["public"]["Functions"];
/** The functions that are called by name; those that take a row of a table are relationships, read by embedding. */
type Called = {
  [Name in keyof Functions]: Functions[Name] extends { Args: { "": object } } ? never : Name;
}[keyof Functions];

const refusal = fields({
  kind: v.picklist(RECORD_KINDS),
  index: count,
  id: maybe(text),
  code: v.picklist(ERROR_CODES),
  field: maybe(text),
  message: text,
});

export const results = {
  add_trial: madeTrial,
  append_job_log: count,
  begin_attempt: flag,
  cancel_rollouts: list(row),
  change_status: v.looseObject({ id, status: text }),
  claim_jobs: fields({ claims: list(fields(orchestrated)) }),
  claim_rollouts: fields({ state: v.picklist(WORKER_STATES), claims: list(claim) }),
  claim_sweeps: fields({ claims: list(fields({ sweep: row, lease_id: id })) }),
  compare_evaluations: fields({
    evaluation,
    baseline: evaluation,
    tasks: list(comparedTask),
    newly_solved: count,
    newly_broken: count,
  }),
  create_key: v.looseObject({ id, key: text, prefix: text }),
  delete_rollouts: fields({ deleted: list(id), stopping: list(id) }),
  find_invitation: fields({
    state: v.picklist(["open", "used", "revoked", "expired", "unknown"]),
    /** What is wrong with it, in a sentence. */
    problem: maybe(text),
    email: maybe(text),
    role: maybe(v.picklist(MEMBER_ROLES)),
    expires_at: maybe(time),
    has_account: maybe(flag),
  }),
  find_rollouts: foundRollouts,
  frame_steps: fields({ total: count, timeline: count, steps: list(number) }),
  generation_prompt: maybe(list(maybe(count))),
  group_comparison: groupComparison,
  heartbeat: time,
  ingest: fields({
    received: count,
    refused: list(refusal),
    /** Where rows were asked for, by kind. */
    rows: v.optional(v.record(text, list(row))),
  }),
  interrupt: count,
  invite_member: v.looseObject({ id, email: text, token: text }),
  jobs_overview: fields({
    /** How many have which status, of those that have not ended. */
    counts: v.record(text, count),
    /** Waiting jobs of backends that no orchestrator can launch. */
    unserved: list(fields({ backend: v.picklist(JOB_BACKENDS), jobs: count })),
    orchestrators: list(orchestrator),
  }),
  keep_validators: count,
  list_members: list(fields({
    user_id: id,
    role: v.picklist(MEMBER_ROLES),
    display_name: maybe(text),
    created_at: time,
    updated_at: time,
    /** For admins, and of oneself. */
    email: maybe(text),
    last_sign_in_at: maybe(time),
    /** How many are active. */
    keys: maybe(count),
  })),
  list_tasks: fields({ tasks: list(listedTask), next: maybe(fields({ created_at: time, id })) }),
  load_archived: count,
  load_batch: fields({ received: count, refused: list(refusal) }),
  metric_names: list(text),
  metric_series: v.record(text, fields({ steps: list(count), values: list(double), times: list(time) })),
  override_validation: fields({
    rollout: v.looseObject({ id, status: rolloutStatus }),
    override: v.looseObject({ id, verdict: maybe(v.picklist(OVERRIDE_VERDICTS)), reason: text }),
  }),
  prepare_sign_in_link: text,
  preview_job: fields({ config: json, task: json, yaml: text }),
  preview_sweep: fields({ trials: count, points: maybe(count), values: v.record(text, maybe(number)) }),
  prune_trial: flag,
  queue_overview: fields({
    waiting: count,
    oldest_waiting_at: maybe(time),
    held_count: count,
    /** How many workers are how; places: how many rollouts the active ones can work on at the same time. */
    health: fields({ active: count, draining: count, silent: count, stopped: count, places: count }),
    /** Waiting rollouts of environments that no active worker can start. */
    unserved: list(fields({ provider: text, rollouts: count })),
    next: list(fields(waiting)),
    held: list(fields(held)),
    workers: list(worker),
  }),
  read_job_logs: fields({
    attempt: count,
    attempts: count,
    status: v.picklist(JOB_STATUSES),
    text,
    /** Where to go on reading, and where the log ends so far, in bytes. */
    next: count,
    end: count,
  }),
  redeem_invitation: v.looseObject({ user_id: id, role: v.picklist(MEMBER_ROLES) }),
  register_orchestrator: fields({ orchestrator_id: id }),
  register_worker: fields({ worker_id: id }),
  release_rollouts: count,
  renew_jobs: fields({
    leases: list(fields({ lease_id: id, subject_id: id, stop_requested: flag, run_ended_seconds: maybe(number) })),
  }),
  renew_rollouts: fields({
    state: v.picklist(WORKER_STATES),
    leases: list(fields({ lease_id: id, rollout_id: id, cancelled: flag })),
  }),
  request_choices: fields({
    agents: list(text),
    models: list(text),
    environments: list(fields({ name: text, kind: maybe(text) })),
  }),
  request_evaluation: fields({ evaluation: row, rollouts: list(row) }),
  request_job: fields({ job: row, yaml: text }),
  request_rollouts: fields({ rollouts: list(v.looseObject({ id, created_at: time })), reused: list(id) }),
  request_sweep: row,
  restart_job: fields({ job: row, name: text, task: json }),
  resume_run: fields({ rewinds: list(count), next_step: count, next_episode: count }),
  retire_orchestrator: count,
  retire_worker: count,
  retry_job: row,
  retry_rollouts: list(row),
  revoke_invitation: row,
  revoke_key: row,
  rollout_outline: outline,
  rollout_result: maybe(fields({ text, chars: count })),
  rollout_rewards: list(fields({ reward_type: text, sum: double, count, min: double, max: double })),
  rollout_turns: list(turn),
  run_facets: fields({
    algorithms: list(text),
    environments: list(text),
    statuses: list(v.picklist(RUN_STATUSES)),
    owners: list(fields({ id, name: maybe(text) })),
    tags: list(text),
  }),
  run_frames: list(frame),
  run_health: health,
  run_metrics: fields({
    total_rollouts: count,
    completed_rollouts: count,
    successful_rollouts: count,
    success_rate: maybe(number),
    average_reward: maybe(number),
    average_steps: maybe(number),
    rollouts: list(row),
  }),
  run_progress: fields({ buckets: list(bucket), without_step: count }),
  save_preview: flag,
  search_rollout: fields({
    matches: list(fields({ step_number: count, field: text, snippet: text, at: count })),
    more: flag,
  }),
  set_display_name: v.looseObject({ user_id: id, display_name: maybe(text) }),
  stop_jobs: list(row),
  stop_run: row,
  stop_sweep: row,
  stop_workers: count,
  sweep_overview: fields({ sweep: row, trials: list(trial) }),
  task_facets: fields({ environments: list(text), splits: list(text) }),
  task_history: taskHistory,
  task_results: list(resultsOfAgent),
  turn_chat: maybe(list(json)),
  turn_fingerprints: fields({ step_numbers: list(count), fingerprints: list(text) }),
  turn_generation: tokens,
  update_job: row,
  update_sweep: row,
  /** When each turn begins in the video, for turns that say so. */
  video_times: fields({ step_numbers: list(count), seconds: list(number) }),
  watch_rollouts: fields({
    /** How many have which status. */
    counts: v.record(text, count),
    rollouts: list(fields(queued)),
  }),
} satisfies Record<Called, v.GenericSchema>;

/** Views of which the generated types know less than the database does: which columns are never null. */
export const views = {
  run_list: listedRun,
  rewards: fields({
    id,
    rollout_id: id,
    training_run_id: maybe(id),
    step_number: maybe(count),
    reward_type: text,
    reward: double,
    details: maybe(json),
    created_at: time,
  }),
} satisfies { [Name in keyof Database["public"]["Views"]]?: v.GenericSchema };

/** The filters of functions; one that is missing filters nothing. The database refuses any other. */
export const filters = {
  find_rollouts: v.partial(fields({
    training_run_id: id,
    group_id: id,
    task_id: id,
    environment: text,
    status: list(text),
    source: list(text),
    step_from: count,
    step_to: count,
    reward_from: number,
    reward_to: number,
    turns_from: count,
    turns_to: count,
    model: text,
    tool: text,
    tool_failed: flag,
    text,
    created_from: time,
    created_to: time,
    include_rewound: flag,
    sort: v.picklist(["newest", "oldest", "reward_high", "reward_low"]),
  })),
  list_tasks: v.partial(fields({ search: text, environment: text, split: text })),
} satisfies { [Name in keyof typeof results]?: v.GenericSchema };

/** What each function answers. */
export type Results = { [Name in keyof typeof results]: v.InferOutput<(typeof results)[Name]> };
/** What these functions filter by. */
export type Filters = { [Name in keyof typeof filters]: v.InferOutput<(typeof filters)[Name]> };
/** The rows of these views. */
export type ViewRows = { [Name in keyof typeof views]: v.InferOutput<(typeof views)[Name]> };
