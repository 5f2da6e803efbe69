/** What the URL of the page says, and the filters it stands for. */
import { type RolloutFilters, type Sort, SORTS } from "@/api/rollouts.ts";

export const DEFAULTS = {
  run: null as string | null,
  task: null as string | null,
  group: null as string | null,
  env: null as string | null,
  status: [] as string[],
  source: [] as string[],
  model: null as string | null,
  tool: null as string | null,
  tool_failed: false,
  text: null as string | null,
  reward_from: null as string | null,
  reward_to: null as string | null,
  turns_from: null as string | null,
  turns_to: null as string | null,
  step_from: null as string | null,
  step_to: null as string | null,
  from: null as string | null,
  to: null as string | null,
  sort: "newest",
  selected: [] as string[],
};

export type View = typeof DEFAULTS;
export type Change = (changes: Partial<View>) => void;

/** Filters that are not always in sight. */
export const MORE = [
  "env",
  "source",
  "model",
  "tool",
  "tool_failed",
  "reward_from",
  "reward_to",
  "turns_from",
  "turns_to",
  "step_from",
  "step_to",
  "from",
  "to",
] as const;
const ALL = [...MORE, "run", "task", "group", "status", "text"] as const;

/** How many of these filters are set. */
export function countSet(view: View, names: readonly (keyof View)[] = ALL): number {
  return names.filter((name) => JSON.stringify(view[name]) !== JSON.stringify(DEFAULTS[name])).length;
}

export const CLEARED: Partial<View> = Object.fromEntries(ALL.map((name) => [name, DEFAULTS[name]]));

export function isId(text: string | null): text is string {
  return text !== null && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}

function someNumber(text: string | null, isWhole = false): number | undefined {
  if (text === null || text.trim() === "") return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) return undefined;
  return isWhole ? Math.trunc(value) : value;
}

/** As the database writes times: to the microsecond, of which a Date keeps the milliseconds. */
const EXACT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

function someTime(text: string | null): string | undefined {
  const time = text ? new Date(text) : null;
  if (!time || !Number.isFinite(time.getTime())) return undefined;
  return EXACT.test(text!) ? text! : time.toISOString();
}

/** By reward there is an order within a run only. */
export function sortOf(view: View): Sort {
  const sort = SORTS.find((known) => known === view.sort) ?? "newest";
  return view.run === null && sort.startsWith("reward") ? "newest" : sort;
}

export function filtersOf(view: View): RolloutFilters {
  const filters: RolloutFilters = {
    training_run_id: view.run ?? undefined,
    task_id: view.task ?? undefined,
    group_id: view.group ?? undefined,
    environment: view.env ?? undefined,
    status: view.status.length ? [...view.status].sort() : undefined,
    source: view.source.length ? [...view.source].sort() : undefined,
    model: view.model ?? undefined,
    tool: view.tool ?? undefined,
    tool_failed: view.tool_failed || undefined,
    text: view.text || undefined,
    reward_from: someNumber(view.reward_from),
    reward_to: someNumber(view.reward_to),
    turns_from: someNumber(view.turns_from, true),
    turns_to: someNumber(view.turns_to, true),
    step_from: someNumber(view.step_from, true),
    step_to: someNumber(view.step_to, true),
    created_from: someTime(view.from),
    created_to: someTime(view.to),
    sort: sortOf(view),
  };
  // Without what is not set, so that equal filters are equal texts.
  return JSON.parse(JSON.stringify(filters));
}
