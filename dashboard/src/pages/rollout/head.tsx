/** Which rollout this is, and how it went. */
import { Alert, Anchor, Badge, Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "react-router";
import type { Override, Rollout } from "@/api/rollout.ts";
import { Copy, plain } from "@/components/agent_text.tsx";
import { Ago, type Crumb, PageHead } from "@/components/page.tsx";
import { statusText } from "@/components/queue/phase.ts";
import { StatusBadge } from "@/components/status.tsx";
import { between, duration, number, shortId } from "@/view/format.ts";
import { KnownText } from "./behind.tsx";
import { AttemptOf, limitsOf, Progress, RequestLink, tokensOf, WorkerName } from "./request.tsx";

const TITLE_CHARS = 140;

export function taskOf(rollout: Rollout): string | null {
  return rollout.task_description ?? rollout.rollout_groups?.task_description ?? rollout.tasks?.description ??
    rollout.tasks?.name ?? null;
}

export function titleOf(rollout: Rollout): string {
  const task = taskOf(rollout)?.trim();
  if (!task) return `Rollout ${shortId(rollout.id)}`;
  const line = plain(task.slice(0, TITLE_CHARS * 2)).replace(/\s+/g, " ");
  return line.length > TITLE_CHARS ? `${line.slice(0, TITLE_CHARS)}…` : line;
}

export function isOverridden(overrides: Override[] | undefined): boolean {
  return (overrides?.[0]?.verdict ?? null) !== null;
}

function crumbsOf({ training_runs: run, rollout_groups: group, step, group_id }: Rollout): Crumb[] {
  const crumbs: Crumb[] = run
    ? [{ label: plain(run.name), to: `/runs/${run.id}` }]
    : [{ label: "Rollouts", to: "/rollouts" }];
  if (run && step !== null) crumbs.push({ label: `Step ${step}`, to: `/runs/${run.id}/steps/${step}` });
  if (group_id) crumbs.push({ label: group ? `Group ${group.number}` : "Group", to: `/groups/${group_id}` });
  return crumbs;
}

export function RolloutHead({ rollout, turns, overrides, aside }: {
  rollout: Rollout;
  turns: number | undefined;
  overrides: Override[] | undefined;
  aside?: ReactNode;
}) {
  return (
    <PageHead title={titleOf(rollout)} crumbs={crumbsOf(rollout)} aside={aside}>
      <Group gap="xs">
        <StatusBadge status={statusText({ ...rollout, cancelling: rollout.cancel_requested_at !== null })} />
        {isOverridden(overrides) && <Badge variant="outline">overridden by hand</Badge>}
        {rollout.rewound_at && <Badge variant="outline">hidden by a rewind</Badge>}
        {rollout.source !== "training" && <Badge variant="default">{rollout.source}</Badge>}
      </Group>
      <Facts rollout={rollout} turns={turns} />
      <AttemptOf rollout={rollout} />
      <Progress rollout={rollout} />
      <Explanations rollout={rollout} isByHand={isOverridden(overrides)} />
    </PageHead>
  );
}

export function Facts({ rollout: r, turns }: { rollout: Rollout; turns: number | undefined }) {
  const facts: [string, ReactNode][] = [
    ["Reward", number(r.total_reward)],
    ["Turns", number(turns ?? r.step_count)],
    ["Duration", duration(between(r.started_at, r.finished_at))],
    ["Environment", plain(r.environment)],
    ["Agent", r.agent && plain(r.agent)],
    ["Model", r.model && plain(r.model)],
    ["Limits", limitsOf(r.request)],
    ["Tokens", tokensOf(r)],
    ["Cost", r.cost_usd === null ? null : `$${number(r.cost_usd)}`],
    ["Policy version", r.policy_version],
    ["Seed", r.seed],
    ["Episode", r.episode_number],
    ["Worker", r.worker_id && <WorkerName key="worker" id={r.worker_id} />],
    ["Attempt", r.request === null ? (r.attempt > 1 ? r.attempt : null) : `${r.attempt} of ${r.max_attempts}`],
    ["Priority", r.priority === 0 ? null : r.priority],
    ["Task", r.task_id && <Anchor key="task" component={Link} to={`/tasks/${r.task_id}`} size="sm">open</Anchor>],
    r.request === null
      ? ["Recorded", <Ago key="ago" time={r.created_at} />]
      : ["Requested", <RequestLink key="ago" at={r.created_at} />],
  ];
  return (
    <Group gap="4px 18px" fz="sm" style={{ fontVariantNumeric: "tabular-nums" }}>
      {facts.filter(([, value]) => value !== null && value !== "").map(([name, value]) => (
        <span key={name}>
          <Text span size="sm" c="dimmed">{name}</Text> {value}
        </span>
      ))}
      <Group gap={2} component="span" wrap="nowrap">
        <Text span size="sm" c="dimmed">Id</Text>
        <span className="om-mono">{shortId(r.id)}</span>
        <Copy text={r.id} what="Copy the id" />
      </Group>
    </Group>
  );
}

function Explanations({ rollout, isByHand }: { rollout: Rollout; isByHand: boolean }) {
  const task = taskOf(rollout);
  const hasLongTask = task !== null && (task.length > TITLE_CHARS || task.includes("\n"));
  return (
    <>
      {hasLongTask && (
        <details>
          <summary style={{ cursor: "pointer", fontSize: "0.875rem" }}>The whole task</summary>
          <KnownText text={task} label="task" />
        </details>
      )}
      {rollout.status_message && rollout.status_message !== rollout.error && !isByHand && (
        <Text size="sm">
          <Text span size="sm" c="dimmed">Why</Text> {plain(rollout.status_message.slice(0, 2_000))}
        </Text>
      )}
      {rollout.error && (
        <Alert color="red" variant="outline" p="xs" title="Error">
          <KnownText text={rollout.error} label="error" />
        </Alert>
      )}
    </>
  );
}
