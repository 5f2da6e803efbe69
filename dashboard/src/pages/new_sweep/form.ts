/** The form of a new sweep: what is typed, and the request that it becomes. The database checks the request. */
import type { Sweep, SweepRequest } from "@/api/sweeps.ts";
import type { Json } from "@/database.ts";
import { parts, typedNumber, typedValue, written, writtenPart } from "@/view/typed.ts";
import { type Parameter, parseParameter } from "../new_run/algorithms.ts";
import { isWhole, type Offered, type Template, unknownAt } from "./parameters.ts";

export const METHODS = ["grid", "random", "bayesian"] as const;
export type Method = (typeof METHODS)[number];

/** A parameter and its values, as they are typed. */
export interface Varied {
  path: string;
  as: "values" | "range";
  /** Between commas. */
  values: string;
  min: string;
  max: string;
  step: string;
  log: boolean;
  integer: boolean;
}

/** The empty text is the default. */
export interface Form {
  name: string;
  method: Method;
  varied: Varied[];
  metric: string;
  direction: Sweep["direction"];
  max_trials: string;
  max_concurrent: string;
  seed: string;
  stopsEarly: boolean;
  after_steps: string;
  min_trials: string;
  percentile: string;
}

/** What is wrong, by the field of the request. */
export type Problems = Record<string, string>;

/** The training service records it for every algorithm. */
const USUAL_METRIC = "rollout/ep_rew_mean";
const TRIALS = "20";
const LONGEST_NAME = 490;

export function emptyForm(template: Template): Form {
  return {
    name: `Sweep of ${template.name}`.slice(0, LONGEST_NAME),
    method: "random",
    varied: [],
    metric: template.config.entry_point === undefined ? USUAL_METRIC : "",
    direction: "maximize",
    max_trials: TRIALS,
    max_concurrent: "",
    seed: "",
    stopsEarly: false,
    after_steps: "",
    min_trials: "",
    percentile: "",
  };
}

/** The form that an existing sweep would have been asked for by. */
export function formOf(sweep: Sweep): Form {
  const stopping = (sweep.early_stopping ?? {}) as Record<string, Json>;
  const text = (value: Json | undefined) => value === undefined || value === null ? "" : written(value);
  return {
    name: sweep.name,
    // Seeds are a grid of one parameter.
    method: sweep.method === "seeds" ? "grid" : sweep.method,
    varied: Object.entries((sweep.space ?? {}) as Record<string, Json>).map(([path, given]) => variedOf(path, given)),
    metric: sweep.metric,
    direction: sweep.direction,
    max_trials: text(sweep.max_trials),
    max_concurrent: text(sweep.max_concurrent),
    seed: sweep.seed ? text(sweep.seed) : "",
    stopsEarly: sweep.early_stopping !== null,
    after_steps: text(stopping.after_steps),
    min_trials: text(stopping.min_trials),
    percentile: text(stopping.percentile),
  };
}

function variedOf(path: string, given: Json): Varied {
  const { values, min, max, step, log, integer } = given as Record<string, Json | undefined>;
  const text = (value: Json | undefined) => value === undefined ? "" : written(value);
  return {
    path,
    as: values === undefined ? "range" : "values",
    values: Array.isArray(values) ? values.map(writtenPart).join(", ") : "",
    min: text(min),
    max: text(max),
    step: text(step),
    log: log === true,
    integer: integer === true,
  };
}

/** A number, or what is none as it is, so that the database says what is wrong with it. */
function sent(text: string): Json {
  return typedNumber(text) ?? text.trim();
}

/** Those fields that something is typed in. */
function given(fields: Record<string, string>): Record<string, Json> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, text]) => text.trim()).map(([name, text]) => [name, sent(text)]),
  );
}

type Asked = Omit<SweepRequest, "id" | "job_config">;

/** The request, and what of the form cannot be read; the rest is the database's to judge. */
export function requestOf(form: Form, template: Template, offered: Offered[]): { request: Asked; problems: Problems } {
  const problems: Problems = {};
  const space = form.varied.map((varied) => {
    const known = offered.find(({ path }) => path === varied.path) ?? unknownAt(varied.path);
    return [varied.path, varied.as === "range" ? range(varied, known, problems) : list(varied, known, problems)];
  });
  return {
    request: {
      name: form.name.trim(),
      method: form.method,
      template: { ...template, name: template.name.slice(0, LONGEST_NAME) },
      space: Object.fromEntries(space) as Record<string, Json>,
      metric: form.metric.trim(),
      direction: form.direction,
      ...given({ max_trials: form.max_trials, max_concurrent: form.max_concurrent, seed: form.seed }),
      ...(form.stopsEarly
        ? {
          early_stopping: given({
            after_steps: form.after_steps,
            min_trials: form.min_trials,
            percentile: form.percentile,
          }),
        }
        : {}),
    },
    problems,
  };
}

function list({ path, values }: Varied, { parameter }: Offered, problems: Problems): Json {
  return {
    values: parts(values).map((part) => {
      const value = typedValue(part);
      const problem = value === undefined
        ? "it cannot be stored as it is typed; a text goes in quotes"
        : parameter && parseParameter(parameter, part).problem;
      if (problem) problems[`space.${path}.values`] ??= `${part}: ${problem}`;
      return value === undefined ? part : value;
    }),
  };
}

function range(varied: Varied, known: Offered, problems: Problems): Json {
  const found: Record<string, Json> = {};
  for (const end of ["min", "max", "step"] as const) {
    if (varied[end].trim()) found[end] = sent(varied[end]);
  }
  const { parameter } = known;
  for (const end of ["min", "max"] as const) {
    // What the algorithm cannot be given is no end of a range either.
    const problem = parameter && typeof found[end] === "number"
      ? parseParameter(numeric(parameter, known), varied[end]).problem
      : null;
    if (problem) problems[`space.${varied.path}.${end}`] = problem;
  }
  if (varied.log) found.log = true;
  if (isWhole(known) ?? varied.integer) found.integer = true;
  return found;
}

function numeric(parameter: Parameter, known: Offered): Parameter {
  return { ...parameter, kind: isWhole(known) ? "whole" : "number", nullable: false };
}
