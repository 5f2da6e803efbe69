/** The algorithms of Stable-Baselines3 and their parameters; the file is written by scripts/generate_algorithms.py. */
import type { Json } from "@/database.ts";
import { typedNumber } from "@/view/typed.ts";
import written from "./algorithms.json" with { type: "json" };

export type Kind = "whole" | "number" | "schedule" | "flag" | "word" | "frequency" | "json" | "noise";

export interface Parameter {
  name: string;
  kind: Kind;
  nullable: boolean;
  default: Json;
  common: boolean;
  meaning: string;
}

export interface Algorithm {
  title: string;
  /** Which actions it can choose. */
  actions: "any" | "discrete" | "continuous";
  policies: string[];
  parameters: Parameter[];
}

export const ALGORITHMS = written as Record<string, Algorithm>;

/** How a kind of value is written. */
export const FORMS: Record<Kind, string> = {
  whole: "a whole number",
  number: "a number",
  schedule: 'a number, or from one to another, such as {"start": 0.001, "end": 0}',
  flag: "true or false",
  word: "a number, or a word such as auto",
  frequency: 'a whole number, or with its unit, such as [2, "episode"]',
  json: "a JSON object",
  noise: 'such as {"kind": "normal", "sigma": 0.1}',
};

interface Range {
  low: number;
  high?: number;
  /** Whether the bounds themselves are out. */
  above?: boolean;
}

/** What makes no sense, whatever the environment is. */
const RANGES: Record<string, Range> = {
  learning_rate: { low: 0, above: true },
  n_steps: { low: 1 },
  batch_size: { low: 1 },
  n_epochs: { low: 1 },
  gamma: { low: 0, high: 1 },
  gae_lambda: { low: 0, high: 1 },
  tau: { low: 0, high: 1 },
  clip_range: { low: 0, above: true },
  buffer_size: { low: 1 },
  learning_starts: { low: 0 },
  exploration_fraction: { low: 0, high: 1 },
  exploration_initial_eps: { low: 0, high: 1 },
  exploration_final_eps: { low: 0, high: 1 },
  policy_delay: { low: 1 },
  target_update_interval: { low: 1 },
  stats_window_size: { low: 1 },
  total_timesteps: { low: 1 },
  n_envs: { low: 1, high: 1024 },
  seed: { low: 0, high: 2 ** 31 - 1 },
};

/** The highest value that makes sense. */
export function highest({ name }: Parameter): number {
  return RANGES[name]?.high ?? Infinity;
}

export type Parsed = { value: Json; problem: null } | { value: null; problem: string };

/** The value that a text stands for; the empty text is the default and not asked here. */
export function parseParameter({ name, kind, nullable }: Parameter, text: string): Parsed {
  const value = valueOf(text, kind);
  const wrong = (problem: string): Parsed => ({ value: null, problem });
  if (value === null) return nullable ? { value, problem: null } : wrong(`${FORMS[kind]} is expected`);
  if (!fits(kind, value)) return wrong(`${FORMS[kind]} is expected${nullable ? ", or null" : ""}`);
  const range = RANGES[name];
  if (range && typeof value === "number") {
    const isLow = range.above ? value <= range.low : value < range.low;
    if (isLow) return wrong(`it must be ${range.above ? "above" : "at least"} ${range.low}`);
    if (range.high !== undefined && value > range.high) return wrong(`it must be at most ${range.high}`);
  }
  return { value, problem: null };
}

function valueOf(text: string, kind: Kind): Json {
  const number = typedNumber(text);
  if (number !== null) return number;
  try {
    const value = JSON.parse(text) as Json;
    // Of a number that cannot be stored as it is typed, such as 1e-400, JSON makes another.
    return typeof value === "number" ? text : value;
  } catch {
    return kind === "word" || kind === "json" ? text.trim() : text;
  }
}

function fits(kind: Kind, value: Json): boolean {
  const isObject = typeof value === "object" && !Array.isArray(value) && value !== null;
  switch (kind) {
    case "whole":
      return Number.isInteger(value);
    case "number":
      return typeof value === "number" && Number.isFinite(value);
    case "schedule":
      return (typeof value === "number" && Number.isFinite(value)) ||
        (isObject && Object.keys(value).sort().join() === "end,start" &&
          Object.values(value).every((each) => typeof each === "number"));
    case "flag":
      return typeof value === "boolean";
    case "word":
      return typeof value === "number" || (typeof value === "string" && /^[\w.]+$/.test(value));
    case "frequency":
      return Number.isInteger(value) ||
        (Array.isArray(value) && value.length === 2 && Number.isInteger(value[0]) &&
          (value[1] === "step" || value[1] === "episode"));
    case "json":
      return isObject;
    case "noise":
      return isObject && Object.keys(value).sort().join() === "kind,sigma" && typeof value.sigma === "number" &&
        (value.kind === "normal" || value.kind === "ornstein-uhlenbeck");
  }
}
