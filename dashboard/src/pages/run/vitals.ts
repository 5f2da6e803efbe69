/** Which figures say how the newest rollouts of a run fare, and which of them are alarming. */
import type { RunHealth } from "@/api/run.ts";
import { compact, number, percent, share } from "@/view/format.ts";

type Tone = "warn" | "bad" | undefined;

export interface Vital {
  label: string;
  value: string;
  tone?: Tone;
  /** What it is, and what to do about it. */
  help: string;
}

function toned(value: number | null, warn: number, bad: number): Tone {
  if (value === null) return undefined;
  return value >= bad ? "bad" : value >= warn ? "warn" : undefined;
}

/**
 * Of what is known; a run without groups has no share of flat ones.
 *
 * Episodes of an environment are judged by their reward alone, and the environment's limit may be as far as one can get:
 * nobody says of them that they succeeded, and to be cut off is no fault.
 */
export function vitalsOf(health: RunHealth, isEpisodic: boolean): Vital[] {
  const flat = share(health.flat_groups, health.groups);
  const toolErrors = share(health.tool_errors, health.tool_calls);
  const truncated = share(health.truncated, health.completed);
  const errors = share(health.errors, health.completed);
  const newest = `of the newest ${number(health.completed)} finished rollouts`;
  const vitals: (Vital | false)[] = [
    health.completed > 0 && (!isEpisodic || health.solved > 0) && {
      label: "Success, newest",
      value: percent(share(health.solved, health.completed)),
      help: `Share ${newest} that were solved.`,
    },
    flat !== null && {
      label: "No-variance groups",
      value: percent(flat, 0),
      tone: toned(flat, 0.5, 0.8),
      help:
        `In ${number(health.flat_groups)} of ${number(health.groups)} groups all rollouts got the same reward: with ` +
        "group-relative advantages they teach nothing. If it is high, mix easier and harder tasks, sample more rollouts a group, or grade more finely.",
    },
    toolErrors !== null && {
      label: "Tool errors",
      value: percent(toolErrors),
      tone: toned(toolErrors, 0.1, 0.3),
      help:
        `${number(health.tool_errors)} of ${number(health.tool_calls)} tool calls failed. If it is high, look at the ` +
        "rollouts with failed tools: malformed calls want format rewards, failing services want fixing.",
    },
    truncated !== null && {
      label: "Truncated",
      value: percent(truncated),
      tone: isEpisodic ? undefined : toned(truncated, 0.1, 0.3),
      help: isEpisodic
        ? `Share ${newest} that went on until the environment's limit of steps: good where it is to go on, as in CartPole; where there is a goal, they missed it.`
        : `Share ${newest} cut off by a turn, token or time limit. If it is high, raise the limit or reward shorter ways.`,
    },
    errors !== null && {
      label: "Errors",
      value: percent(errors),
      tone: toned(errors, 0.02, 0.1),
      help:
        `Share ${newest} that ended with an error of the environment or the harness. Their rewards say nothing of the policy: fix the cause.`,
    },
    health.mean_staleness !== null && {
      label: "Staleness",
      value: `${number(health.mean_staleness, 3)} steps`,
      tone: toned(health.mean_staleness, 4, 16),
      help: `How many steps older than the step it trains the policy of a rollout is, on average; at most ${
        number(health.max_staleness)
      }. If it grows, rollouts wait too long: shorten the queue or correct for it.`,
    },
    health.rollouts_per_minute !== null && {
      label: "Rollouts / min",
      value: number(health.rollouts_per_minute, 3),
      help: `Finished rollouts a minute, ${newest}.`,
    },
    health.tokens_per_second !== null && {
      label: "Tokens / s",
      value: compact(health.tokens_per_second),
      help: "Tokens a second over the last 50 training steps that recorded them.",
    },
    health.seconds_per_step !== null && {
      label: "Seconds / step",
      value: number(health.seconds_per_step, 3),
      help: "How long a training step takes, over the last 50 completed ones.",
    },
  ];
  return vitals.filter((vital) => vital !== false);
}
