/** What can be asked of a launch, as it is typed, and the configuration that it becomes. The database checks it. */
import type { JobConfig } from "@/api/jobs.ts";
import { typedNumber } from "@/view/typed.ts";

export interface LaunchForm {
  backend: "local" | "skypilot";
  /** Texts and numbers by their names in the configuration; the empty text is the default. */
  options: Record<string, string>;
  use_spot: boolean;
  /** NAME=value, one on each line. */
  env: string;
  /** Names of variables, whose values the orchestrator has. */
  secrets: string;
}

export const EMPTY_LAUNCH: LaunchForm = { backend: "local", options: {}, use_spot: false, env: "", secrets: "" };

export interface Option {
  name: string;
  label: string;
  hint?: string;
  placeholder?: string;
  isNumber?: boolean;
  isLong?: boolean;
}

export const COMMON: Option[] = [
  {
    name: "max_restarts",
    label: "Restarts",
    hint: "How often a lost attempt is begun again",
    placeholder: "3",
    isNumber: true,
  },
  { name: "metrics_interval", label: "Metrics every", hint: "Steps", placeholder: "100", isNumber: true },
  { name: "frame_interval", label: "Frames every", hint: "Steps; 0 for none", placeholder: "1000", isNumber: true },
  { name: "timeout_minutes", label: "Time limit", hint: "Minutes", placeholder: "None", isNumber: true },
];

export const REMOTE: Option[] = [
  { name: "infra", label: "Infrastructure", hint: "Such as aws, k8s, slurm/cluster", placeholder: "The cheapest" },
  { name: "accelerator", label: "Accelerator", hint: "Name and number, such as A10:1", placeholder: "None" },
];

export const FURTHER: Option[] = [
  { name: "cpus", label: "CPUs", hint: "4, or 4+ for at least 4", placeholder: "SkyPilot’s choice" },
  { name: "memory", label: "Memory in GB", hint: "16, or 16+", placeholder: "SkyPilot’s choice" },
  { name: "disk_size_gb", label: "Disk in GB", placeholder: "SkyPilot’s choice", isNumber: true },
  { name: "image", label: "Image", placeholder: "SkyPilot’s choice" },
  {
    name: "autostop_minutes",
    label: "Stop the machine after",
    hint: "Minutes without a job",
    placeholder: "5",
    isNumber: true,
  },
  { name: "package", label: "Package to install", placeholder: "openmanus-rl[training]" },
  { name: "setup", label: "Setup commands", hint: "Run on the machine before training", isLong: true },
];

const OPTIONS = [...COMMON, ...REMOTE, ...FURTHER];

/** The configuration; what is not a number is sent as it is, so that the database says what is wrong with it. */
export function jobConfigOf(form: LaunchForm): JobConfig {
  const isRemote = form.backend === "skypilot";
  const config: JobConfig = { backend: form.backend };
  for (const { name, isNumber } of isRemote ? OPTIONS : COMMON) {
    const text = (form.options[name] ?? "").trim();
    if (!text) continue;
    config[name] = isNumber ? typedNumber(text) ?? text : text;
  }
  const env = variablesOf(form.env);
  if (Object.keys(env).length) config.env = env;
  if (!isRemote) return config;
  if (form.use_spot) config.use_spot = true;
  const secrets = form.secrets.split(/[\s,]+/).filter(Boolean);
  if (secrets.length) config.secrets = secrets;
  return config;
}

function variablesOf(text: string): Record<string, string> {
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(lines.map((line) => {
    const [name = "", ...value] = line.split("=");
    return [name.trim(), value.join("=")];
  }));
}

/** The form that an earlier configuration would have been made by. */
export function launchFormOf(config: unknown): LaunchForm {
  const given = (typeof config === "object" && config !== null ? config : {}) as JobConfig;
  const text = (value: unknown) => value === undefined || value === null ? "" : String(value);
  const env = Object.entries((given.env ?? {}) as Record<string, string>).map(([name, value]) => `${name}=${value}`);
  return {
    backend: given.backend === "skypilot" ? "skypilot" : "local",
    options: Object.fromEntries(
      OPTIONS.filter(({ name }) => name in given).map(({ name }) => [name, text(given[name])]),
    ),
    use_spot: given.use_spot === true,
    env: env.join("\n"),
    secrets: Array.isArray(given.secrets) ? given.secrets.join(", ") : "",
  };
}
