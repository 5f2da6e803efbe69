/** What of a run can be varied: the parameters of its algorithm, and whatever else its configuration has. */
import type { Json } from "@/database.ts";
import { written, writtenPart } from "@/view/typed.ts";
import { ALGORITHMS, highest, type Kind, type Parameter } from "../new_run/algorithms.ts";
import type { Method, Varied } from "./form.ts";

/** The run that is varied. */
export interface Template {
  name: string;
  algorithm: string | null;
  environment: string | null;
  config: Record<string, Json>;
}

export interface Offered {
  /** Its place in the configuration, with dots. */
  path: string;
  group: string;
  /** What is known of it; null where it is a value of one's own. */
  parameter: Parameter | null;
  /** Its value in the run; undefined where the run has none. */
  current: Json | undefined;
}

const OF_TRAINING: Omit<Parameter, "common">[] = [
  { name: "seed", kind: "whole", nullable: true, default: null, meaning: "The same seed trains the same" },
  {
    name: "total_timesteps",
    kind: "whole",
    nullable: false,
    default: null,
    meaning: "Timesteps of all environments together",
  },
  { name: "n_envs", kind: "whole", nullable: false, default: 1, meaning: "Environments at once" },
  { name: "policy", kind: "word", nullable: true, default: null, meaning: "The kind of network" },
  { name: "normalize", kind: "flag", nullable: false, default: false, meaning: "Normalize observations and rewards" },
];
/** Which program is run is no parameter of it. */
const NOT_VARIED = ["entry_point", "arguments", "requirements"];
const INSIDE = "hyperparameters";

export function offeredBy({ algorithm, config }: Template): Offered[] {
  const known = config.entry_point === undefined ? ALGORITHMS[algorithm?.toLowerCase() ?? ""] : undefined;
  const hyperparameters = asObject(config[INSIDE]);
  const offered: Offered[] = (known?.parameters ?? []).map((parameter) => ({
    path: `${INSIDE}.${parameter.name}`,
    group: parameter.common ? `Parameters of ${known!.title}` : "Further parameters of it",
    parameter,
    current: hyperparameters?.[parameter.name],
  }));
  for (const parameter of known ? OF_TRAINING : []) {
    offered.push({
      path: parameter.name,
      group: "Training",
      parameter: { ...parameter, common: true },
      current: config[parameter.name],
    });
  }
  const paths = new Set(offered.map(({ path }) => path));
  const others = leaves(config).filter(({ path }) => !paths.has(path) && !NOT_VARIED.includes(path.split(".")[0]!));
  return [...offered, ...others.map((other) => ({ ...other, group: "In the configuration", parameter: null }))];
}

function asObject(value: Json | undefined): Record<string, Json> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Record<string, Json> : null;
}

/** Every value of a configuration; one whose name has a dot has no path. */
function leaves(config: Record<string, Json>, inside = ""): { path: string; current: Json }[] {
  return Object.entries(config).filter(([name]) => name !== "" && !name.includes(".")).flatMap(([name, current]) => {
    const object = asObject(current);
    return object && Object.keys(object).length
      ? leaves(object, `${inside}${name}.`)
      : { path: `${inside}${name}`, current };
  });
}

/** One that is asked for by its path alone. */
export function unknownAt(path: string): Offered {
  return { path, group: "In the configuration", parameter: null, current: undefined };
}

/** Kinds that have numbers among their values. */
const COUNTED: Kind[] = ["whole", "number", "schedule", "word", "frequency"];

export function hasRange({ parameter }: Offered): boolean {
  return parameter === null || COUNTED.includes(parameter.kind);
}

/** Whether only whole numbers make sense; null where nobody knows. */
export function isWhole({ parameter }: Offered): boolean | null {
  return parameter && (parameter.kind === "whole" || parameter.kind === "frequency");
}

/** Its value in the run, or its default. */
export function valueInRun({ parameter, current }: Offered): Json | undefined {
  return current === undefined ? parameter?.default : current;
}

const NOTHING: Omit<Varied, "path"> = {
  as: "values",
  values: "",
  min: "",
  max: "",
  step: "",
  log: false,
  integer: false,
};

/** Where to begin: around the value in the run. A grid needs single values. */
export function suggested(offered: Offered, method: Method): Varied {
  const start: Varied = { ...NOTHING, path: offered.path, integer: isWhole(offered) ?? false };
  const value = valueInRun(offered);
  if (typeof value === "boolean" || offered.parameter?.kind === "flag") return { ...start, values: "true, false" };
  if (offered.path === "seed") return { ...start, values: "0, 1, 2, 3, 4" };
  if (typeof value !== "number") {
    return { ...start, values: value === undefined || value === null ? "" : writtenPart(value) };
  }
  if (Number.isInteger(value) && isWhole(offered) !== false) {
    const around = [Math.ceil(value / 2), value, value * 2];
    return { ...start, values: [...new Set(value === 0 ? [0, 1] : around)].map(written).join(", ") };
  }
  if (value <= 0) return { ...start, values: [value, 0.01, 0.1].map(written).join(", ") };
  // What is near 1, as discounts are, differs in how far it is from it.
  const isShare = value > 0.5 && value < 1;
  const [low, high] = isShare
    ? [short(1 - Math.min(1, (1 - value) * 5)), short(1 - (1 - value) / 5)]
    : [short(value / 10), Math.min(short(value * 10), offered.parameter ? highest(offered.parameter) : Infinity)];
  if (method === "grid") return { ...start, values: [...new Set([low, value, high])].map(written).join(", ") };
  return { ...start, as: "range", min: written(low), max: written(high), log: !isShare };
}

function short(value: number): number {
  return Number(value.toPrecision(4));
}
