/** The form of a new run: what is typed, what is wrong with it, and the configuration that it becomes. */
import type { Json } from "@/database.ts";
import { typedWhole, written } from "@/view/typed.ts";
import { ALGORITHMS, parseParameter } from "./algorithms.ts";

export type Config = Record<string, Json>;

export const PROGRAMS = ["module", "git", "archive"] as const;
export type Program = (typeof PROGRAMS)[number];

/** Everything as it is typed; the empty text is the default. */
export interface Form {
  name: string;
  environment: string;
  /** Null: an entry point of one's own. */
  algorithm: string | null;
  total_timesteps: string;
  n_envs: string;
  seed: string;
  policy: string;
  normalize: boolean;
  device: string;
  evaluation_interval: string;
  evaluation_episodes: string;
  checkpoint_interval: string;
  hyperparameters: Record<string, string>;
  program: Program;
  module: string;
  script: string;
  url: string;
  ref: string;
  archive: string;
  /** One on each line. */
  arguments: string;
  requirements: string;
  /** What else the program finds in its configuration, as JSON. */
  extra: string;
  /** How many runs with seeds of their own; one is a run. */
  seeds: string;
}

export const EMPTY: Form = {
  name: "",
  environment: "CartPole-v1",
  algorithm: "ppo",
  total_timesteps: "100000",
  n_envs: "",
  seed: "",
  policy: "",
  normalize: false,
  device: "",
  evaluation_interval: "",
  evaluation_episodes: "",
  checkpoint_interval: "",
  hyperparameters: {},
  program: "module",
  module: "",
  script: "",
  url: "",
  ref: "",
  archive: "",
  arguments: "",
  requirements: "",
  extra: "",
  seeds: "1",
};

export type Problems = Partial<Record<string, string>>;

export const MOST_SEEDS = 100;
const LARGEST_SEED = 2 ** 31 - 1;

interface Written {
  config: Config;
  problems: Problems;
}

/** The configuration of the run, and what is wrong, by the field of the form. */
export function configOf(form: Form): Written {
  const written: Written = form.algorithm === null ? programConfig(form) : trainerConfig(form, form.algorithm);
  const { problems } = written;
  if (!form.name.trim()) problems.name = "a name is expected";
  else if (form.name.length > 500) problems.name = "at most 500 characters";
  if (form.algorithm !== null && !form.environment.trim()) problems.environment = "an environment is expected";
  wholeOf(form.seeds, 1, MOST_SEEDS, (problem) => problems.seeds = problem);
  return written;
}

function wholeOf(text: string, low: number, high: number, wrong: (problem: string) => void): number | null {
  const value = typedWhole(text);
  if (value !== null && value >= low && value <= high) return value;
  wrong(
    high === Number.MAX_SAFE_INTEGER
      ? `a whole number from ${low} is expected`
      : `a whole number from ${low} to ${high.toLocaleString("en-US")} is expected`,
  );
  return null;
}

function trainerConfig(form: Form, algorithm: string): Written {
  const problems: Problems = {};
  const config: Config = {};
  const whole = (field: keyof Form & string, low: number, high: number, isRequired = false): number | null => {
    const text = form[field] as string;
    if (!isRequired && !text.trim()) return null;
    return wholeOf(text, low, high, (problem) => problems[field] = problem);
  };
  const put = (name: string, value: Json) => {
    if (value !== null && value !== "") config[name] = value;
  };
  put("total_timesteps", whole("total_timesteps", 1, Number.MAX_SAFE_INTEGER, true));
  put("n_envs", whole("n_envs", 1, 1024));
  put("seed", whole("seed", 0, LARGEST_SEED));
  put("policy", form.policy);
  const hyperparameters = parsedParameters(form, algorithm, problems);
  if (Object.keys(hyperparameters).length) config.hyperparameters = hyperparameters;
  if (form.normalize) config.normalize = true;
  const interval = whole("evaluation_interval", 0, Number.MAX_SAFE_INTEGER);
  const episodes = whole("evaluation_episodes", 1, 100_000);
  const evaluation: Config = {};
  if (interval !== null) evaluation.interval_timesteps = interval;
  if (episodes !== null) evaluation.episodes = episodes;
  if (Object.keys(evaluation).length) config.evaluation = evaluation;
  put("checkpoint_interval_timesteps", whole("checkpoint_interval", 0, Number.MAX_SAFE_INTEGER));
  put("device", form.device.trim());
  return { config, problems };
}

/** What differs from the algorithm's defaults. */
function parsedParameters(form: Form, algorithm: string, problems: Problems): Config {
  const parsed: Config = {};
  for (const parameter of ALGORITHMS[algorithm]?.parameters ?? []) {
    const text = form.hyperparameters[parameter.name] ?? "";
    if (!text.trim()) continue;
    const { value, problem } = parseParameter(parameter, text);
    if (problem !== null) problems[`hyperparameters.${parameter.name}`] = problem;
    else if (JSON.stringify(value) !== JSON.stringify(parameter.default)) parsed[parameter.name] = value;
  }
  return parsed;
}

const INSIDE = /^(?![/-])(?!.*(^|\/)\.\.(\/|$)).+$/;

function programConfig(form: Form): Written {
  const problems: Problems = {};
  const entry: Config = {};
  if (form.program === "module") {
    entry.module = form.module.trim();
    if (!/^[A-Za-z_][\w.]*:[A-Za-z_]\w*$/.test(form.module.trim())) {
      problems.module = "such as package.module:function";
    }
  } else {
    entry.script = form.script.trim();
    if (!INSIDE.test(form.script.trim())) problems.script = "a path inside the code, such as train.py";
    if (form.program === "git") {
      entry.git = { url: form.url.trim(), ...(form.ref.trim() ? { ref: form.ref.trim() } : {}) };
      if (!/^(https?|ssh|file):\/\/\S+$|^[^\s-]\S*@\S+:\S+$/.test(form.url.trim())) {
        problems.url = "an address of a git repository is expected";
      }
      if (/[\s:~^?*[\\]|^-/.test(form.ref.trim())) problems.ref = "a branch, tag or commit is expected";
    } else {
      entry.archive = form.archive.trim();
      if (!INSIDE.test(form.archive.trim())) problems.archive = "the path of a tar.gz in the bucket task-files";
    }
  }
  const config: Config = { entry_point: entry };
  for (const field of ["arguments", "requirements"] as const) {
    const lines = form[field].split("\n").filter((line) => line.trim());
    if (lines.length) config[field] = lines;
  }
  if (form.requirements.split("\n").some((line) => line.trim().startsWith("-"))) {
    problems.requirements = "requirements are expected, such as trl>=1.0, not options";
  }
  return { config: { ...extraOf(form, problems), ...config }, problems };
}

function extraOf(form: Form, problems: Problems): Config {
  if (!form.extra.trim()) return {};
  try {
    const given = JSON.parse(form.extra) as Json;
    if (typeof given === "object" && given !== null && !Array.isArray(given)) return given as Config;
    problems.extra = "a JSON object is expected";
  } catch (error) {
    problems.extra = (error as Error).message;
  }
  return {};
}

interface CopiedRun {
  name: string;
  algorithm: string | null;
  environment: string | null;
  config: unknown;
}

/** The form that an existing run would have been made by. */
export function formOf(run: CopiedRun): Form {
  const config = (typeof run.config === "object" && run.config !== null ? run.config : {}) as Config;
  const common = { ...EMPTY, name: copyName(run.name), environment: run.environment ?? "" };
  if (config.entry_point !== undefined) return { ...common, algorithm: null, ...programForm(config) };
  const algorithm = run.algorithm?.toLowerCase() ?? "";
  const evaluation = (config.evaluation ?? {}) as Config;
  const text = (value: Json | undefined) => value === undefined || value === null ? "" : written(value);
  return {
    ...common,
    algorithm: algorithm in ALGORITHMS ? algorithm : "ppo",
    total_timesteps: text(config.total_timesteps),
    n_envs: text(config.n_envs),
    seed: text(config.seed),
    policy: text(config.policy),
    normalize: config.normalize === true,
    device: text(config.device),
    evaluation_interval: text(evaluation.interval_timesteps),
    evaluation_episodes: text(evaluation.episodes),
    checkpoint_interval: text(config.checkpoint_interval_timesteps),
    hyperparameters: Object.fromEntries(
      Object.entries((config.hyperparameters ?? {}) as Config).map(([name, value]) => [name, written(value)]),
    ),
  };
}

function programForm(config: Config): Partial<Form> {
  const { entry_point, arguments: given, requirements, ...extra } = config;
  const entry = entry_point as Config;
  const git = entry.git as Config | undefined;
  const lines = (value: Json | undefined) => Array.isArray(value) ? value.join("\n") : "";
  return {
    program: entry.module ? "module" : git ? "git" : "archive",
    module: String(entry.module ?? ""),
    script: String(entry.script ?? ""),
    url: String(git?.url ?? ""),
    ref: String(git?.ref ?? ""),
    archive: String(entry.archive ?? ""),
    arguments: lines(given),
    requirements: lines(requirements),
    extra: Object.keys(extra).length ? JSON.stringify(extra, null, 2) : "",
  };
}

/** "maze" becomes "maze (copy)", and that "maze (copy 2)". */
export function copyName(name: string): string {
  const [, base = name, number] = /^(.*) \(copy(?: (\d+))?\)$/.exec(name) ?? [];
  if (base === name) return `${name.slice(0, 490)} (copy)`;
  return `${base} (copy ${Number(number ?? 1) + 1})`;
}

/** How many runs the form makes. */
export function countOf(form: Form): number {
  return typedWhole(form.seeds) ?? 1;
}

/** The seeds of several runs, from the one that is given on. */
export function seedsOf(form: Form): number[] {
  const first = typedWhole(form.seed) ?? 0;
  return Array.from({ length: countOf(form) }, (_, place) => first + place);
}
