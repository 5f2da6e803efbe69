/** The form of a request for rollouts, and what it asks of the database. */
import { type Limits, MOST_REQUESTED, type RolloutRequest } from "@/api/queue.ts";

/** Agents that come with the package; any other is named as module:attribute. */
export const AGENTS = ["chat", "browser", "oracle", "scripted", "noop"];

export const LIMITS = ["max_steps", "max_seconds", "max_tokens", "max_cost_usd"] as const;

export interface Form {
  agent: string;
  model: string;
  environment: string;
  /** As typed: an emptied field is no number. */
  attempts: number | string;
  priority: number | string;
  limits: Partial<Record<(typeof LIMITS)[number], number | string>>;
  reuse: boolean;
}

export const EMPTY: Form = {
  agent: "",
  model: "",
  environment: "",
  attempts: 1,
  priority: 0,
  limits: {},
  reuse: false,
};

export type Problems = Partial<Record<"agent" | "attempts" | "priority" | (typeof LIMITS)[number], string>>;

function isWhole(value: number | string | undefined, low: number, high: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= low && value <= high;
}

/** What stands in the way, by field. */
export function problemsOf(form: Form, tasks: number): Problems {
  const problems: Problems = {};
  const agent = form.agent.trim();
  if (agent && !AGENTS.includes(agent) && !/^[\w.]+:[\w.]+$/.test(agent)) {
    problems.agent = `${AGENTS.join(", ")}, or an import path such as my_package.agents:Agent`;
  }
  if (!isWhole(form.attempts, 1, 1_000)) problems.attempts = "A whole number from 1 to 1,000";
  else if (form.attempts * tasks > MOST_REQUESTED) {
    problems.attempts = `At most ${MOST_REQUESTED.toLocaleString("en-US")} rollouts in one request`;
  }
  if (!isWhole(form.priority, -1_000, 1_000)) problems.priority = "A whole number from -1,000 to 1,000";
  for (const name of LIMITS) {
    const value = form.limits[name];
    if (value === undefined || value === "") continue;
    const isCounted = name === "max_steps" || name === "max_tokens";
    const isGood = typeof value === "number" && value > 0 && value <= 1e12 && (!isCounted || Number.isInteger(value));
    if (!isGood) problems[name] = isCounted ? "A whole number above 0" : "A number above 0";
  }
  return problems;
}

/** The request of a form without problems; what was left empty is not said. */
export function requestOf(form: Form, taskIds: string[]): RolloutRequest {
  const request: RolloutRequest = { task_ids: taskIds, attempts: Number(form.attempts) };
  for (const name of ["agent", "model", "environment"] as const) {
    const text = form[name].trim();
    if (text) request[name] = text;
  }
  if (Number(form.priority) !== 0) request.priority = Number(form.priority);
  const limits: Limits = {};
  for (const name of LIMITS) {
    const value = form.limits[name];
    if (typeof value === "number") limits[name] = value;
  }
  if (Object.keys(limits).length > 0) request.limits = limits;
  if (form.reuse) request.reuse = true;
  return request;
}
