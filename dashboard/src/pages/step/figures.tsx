/** What a step says of itself. */
import { Anchor, Stack, Text } from "@mantine/core";
import { useState } from "react";
import type { Step } from "@/api/groups.ts";
import { plain } from "@/components/agent_text.tsx";
import { Figure, Section } from "@/components/page.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { between, duration, number, percent, UNKNOWN } from "@/view/format.ts";
import styles from "./page.module.css";

const FEW_METRICS = 24;

export function StepFigures({ step }: { step: Step }) {
  const progress = step.phase === "training" ? step.training_progress : step.rollout_progress;
  const took = between(step.started_at ?? step.created_at, step.finished_at);
  const phase = [step.phase, progress === null ? null : percent(progress, 0)].filter(Boolean).join(", ");
  return (
    <Stack gap="md">
      <div className="om-tiles">
        <Figure
          label="Status"
          value={<StatusBadge status={step.status} />}
          hint={plain(step.status_message ?? phase)}
        />
        <Figure label="Loss" value={number(step.loss)} />
        <Figure label="KL" value={number(step.kl)} />
        <Figure label="Gradient norm" value={number(step.grad_norm)} />
        <Figure
          label="Reward"
          value={number(step.reward_mean)}
          hint={step.reward_std === null ? undefined : `± ${number(step.reward_std)}`}
        />
        <Figure label="Tokens" value={number(step.tokens)} hint={perSecond(step.tokens, took)} />
        <Figure label="Took" value={duration(took)} />
      </div>
      <Metrics metrics={step.metrics} />
    </Stack>
  );
}

function perSecond(tokens: number | null, milliseconds: number | null): string | undefined {
  return tokens && milliseconds ? `${number(Math.round(tokens / milliseconds * 1000))} a second` : undefined;
}

function Metrics({ metrics }: { metrics: Step["metrics"] }) {
  const [isWhole, setIsWhole] = useState(false);
  const entries = Object.entries(metrics).sort(([a], [b]) => a.localeCompare(b));
  if (entries.length === 0) return null;
  const shown = isWhole ? entries : entries.slice(0, FEW_METRICS);
  return (
    <Section title="Metrics of the step">
      <dl className={styles.metrics}>
        {shown.map(([name, value]) => (
          <div key={name}>
            <dt>{plain(name)}</dt>
            <dd>{written(value)}</dd>
          </div>
        ))}
      </dl>
      {shown.length < entries.length && (
        <Anchor
          component="button"
          type="button"
          size="sm"
          mt="xs"
          onClick={() => setIsWhole(true)}
        >
          Show all {number(entries.length)}
        </Anchor>
      )}
    </Section>
  );
}

function written(value: unknown) {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "number") return number(value);
  return <Text span size="sm" lineClamp={2}>{plain(typeof value === "string" ? value : JSON.stringify(value))}</Text>;
}
