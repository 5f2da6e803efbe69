/** What is asked of a paper, and the draft of an environment from what was found in it. */
import { isObject } from "../_shared/json.ts";
import { type Page, unprocessable } from "./firecrawl.ts";

export const PROMPT =
  "The page is a paper or documentation about reinforcement learning. Describe the one environment that it is mainly " +
  "about. If it is registered in Gymnasium or a library for it (such as CartPole-v1 or ALE/Breakout-v5), kind is " +
  "gymnasium, with its id. If it is a grid world, kind is grid: give its width and height, and if the layout is shown " +
  "or described, its map: rows of equal length with # for walls, . for free cells, A for where the agent starts, G for " +
  "goals, o for items to collect, T for traps, B for blocks. Otherwise kind is other. If the page has no environment, " +
  "kind is none. Give rewards and the limit of steps only if the page states them.";

const number = { type: "number" };
export const SCHEMA = {
  type: "object",
  properties: {
    kind: { type: "string", enum: ["gymnasium", "grid", "other", "none"] },
    name: { type: "string", description: "A short name, such as four-rooms." },
    description: {
      type: "string",
      description: "What the agent does in it, in one to three sentences.",
    },
    gymnasium_id: { type: "string" },
    arguments: { type: "object", description: "Arguments of gymnasium.make that the page gives." },
    width: { type: "integer" },
    height: { type: "integer" },
    map: { type: "array", items: { type: "string" } },
    rewards: { type: "object", properties: { step: number, goal: number, item: number, trap: number } },
    max_steps: { type: "integer" },
  },
  required: ["kind", "name", "description"],
};

const MAX_SIDE = 64;
const MAX_REWARD = 1e6;
const MAX_STEPS = 1_000_000;
const MAX_TEXT = 2000;
/** An id alone: one with a module, as in module:Name-v0, would make whoever builds the environment import it. */
const ID = /^([A-Za-z0-9_.-]+\/)?[A-Za-z0-9_.-]{1,100}$/;
const SYMBOLS = /[^#. AGoTB]/g;

export interface Draft {
  name: string;
  kind: "gymnasium" | "grid";
  description: string | null;
  spec: Record<string, unknown>;
  warnings: string[];
}

/** The draft of what a page describes; 422 says what was found where that is no environment that can be described. */
export function draftOf({ json, title }: Page): Draft {
  const warnings: string[] = [];
  const description = textOf(json.description);
  const found = {
    kind: textOf(json.kind),
    name: textOf(json.name),
    description,
    title: textOf(title),
  };
  const spec = json.kind === "gymnasium"
    ? gymnasiumSpec(json, warnings)
    : json.kind === "grid"
    ? gridSpec(json, warnings)
    : null;
  if (spec === null) {
    const what = json.kind === "other" || json.kind === "gymnasium"
      ? `describes ${
        found.name ?? "an environment"
      }, which is neither a registered Gymnasium environment nor a grid world`
      : "describes no environment";
    throw unprocessable(`the page ${what}; write its spec yourself`, { found });
  }
  const name = (found.name ?? found.title ?? "imported").slice(0, 200).trim();
  return {
    name,
    kind: json.kind as Draft["kind"],
    description,
    spec,
    warnings,
  };
}

function gymnasiumSpec(json: Record<string, unknown>, warnings: string[]): Record<string, unknown> | null {
  const id = textOf(json.gymnasium_id);
  if (id === null || !ID.test(id)) return null;
  const given = isObject(json.arguments) ? Object.entries(json.arguments) : [];
  const kept = given.filter(([name, value]) => /^[A-Za-z_]\w{0,63}$/.test(name) && isPlain(value));
  for (const [name] of given.filter((entry) => !kept.includes(entry))) {
    warnings.push(
      `arguments: ${name.slice(0, 64)} was left out; only numbers, booleans and words are taken over`,
    );
  }
  warnings.push(`id: check that ${id} is the environment of the paper, and that its library is installed`);
  return {
    id,
    ...(kept.length > 0 && { arguments: Object.fromEntries(kept) }),
  };
}

function isPlain(value: unknown): boolean {
  return typeof value === "boolean" ||
    (typeof value === "number" && Number.isFinite(value)) ||
    (typeof value === "string" && /^[\w .-]{1,100}$/.test(value));
}

function gridSpec(json: Record<string, unknown>, warnings: string[]): Record<string, unknown> | null {
  const layout = mapOf(json.map, warnings) ?? sizeOf(json, warnings);
  if (layout === null) return null;
  const rewards = rewardsOf(json.rewards, warnings);
  const steps = json.max_steps;
  const hasSteps = Number.isInteger(steps) && (steps as number) >= 1 &&
    (steps as number) <= MAX_STEPS;
  if (steps != null && !hasSteps) {
    warnings.push("ends.max_steps: was left out; it is no number of steps");
  }
  return {
    ...layout,
    ...(Object.keys(rewards).length > 0 && { rewards }),
    ...(hasSteps && { ends: { max_steps: steps } }),
  };
}

function mapOf(value: unknown, warnings: string[]): Record<string, unknown> | null {
  if (!Array.isArray(value)) return null;
  const given = value.filter((row): row is string => typeof row === "string" && row.length > 0);
  if (given.length === 0) return null;
  const width = Math.min(MAX_SIDE, Math.max(...given.map((row) => row.length)));
  let starts = 0;
  const rows = given.slice(0, MAX_SIDE).map((row) =>
    row.slice(0, width).replace(SYMBOLS, ".").replace(/A/g, () => (starts++ === 0 ? "A" : ".")).padEnd(width, "#")
  );
  if (rows.join("\n") !== given.join("\n")) {
    warnings.push(
      "map: it was mended: rows of one length, at most 64 by 64 cells, one A, and no other characters",
    );
  }
  warnings.push("map: compare it with the paper");
  return { map: rows };
}

function sizeOf(json: Record<string, unknown>, warnings: string[]): Record<string, unknown> | null {
  const sides = [json.width, json.height];
  if (!sides.every((side) => Number.isInteger(side) && (side as number) >= 1)) {
    return null;
  }
  const [width, height] = sides.map((side) => Math.min(MAX_SIDE, side as number)) as [number, number];
  if (width !== json.width || height !== json.height) {
    warnings.push(`size: was cut to ${width} by ${height} cells`);
  }
  if (width * height < 2) return null;
  warnings.push("objects: the page gives no map: one goal at a random cell is assumed, and no walls");
  return {
    size: { width, height },
    objects: [{ name: "goal", kind: "goal", random: 1 }],
  };
}

function rewardsOf(value: unknown, warnings: string[]): Record<string, number> {
  const rewards: Record<string, number> = {};
  for (const name of isObject(value) ? ["step", "goal", "item", "trap"] : []) {
    const reward = (value as Record<string, unknown>)[name];
    if (typeof reward === "number" && Math.abs(reward) <= MAX_REWARD) {
      rewards[name] = reward;
    } else if (reward != null) {
      warnings.push(
        `rewards.${name}: was left out; it is no number up to a million`,
      );
    }
  }
  return rewards;
}

function textOf(value: unknown): string | null {
  if (typeof value !== "string") return null;
  // Postgres keeps no NUL, and names of control characters are nobody's.
  // deno-lint-ignore no-control-regex
  const text = value.toWellFormed().replace(/[\u0000-\u001f\u007f]+/g, " ")
    .trim().slice(0, MAX_TEXT);
  return text.toWellFormed() || null;
}
