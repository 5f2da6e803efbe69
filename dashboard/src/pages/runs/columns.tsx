/** The columns that the list of runs can have. */
import { Badge, Group, Progress, Text } from "@mantine/core";
import { useInterval } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import { Link } from "react-router";
import type { ListedRun } from "@/api/runs.ts";
import { plain } from "@/components/agent_text.tsx";
import { ArchivedBadge } from "@/components/archived.tsx";
import { Ago } from "@/components/page.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { duration, number, percent, shortId, UNKNOWN } from "@/view/format.ts";
import { durationOf, timeLeft } from "./progress.ts";

export interface Column {
  name: string;
  label: string;
  /** The column of the database to sort by, where it can. */
  sort?: string;
  isNumber?: boolean;
  width?: number;
  show: (run: ListedRun) => ReactNode;
}

export const COLUMNS: Column[] = [
  { name: "name", label: "Name", sort: "name", width: 200, show: (run) => <NameCell run={run} /> },
  { name: "status", label: "Status", sort: "shown_status", width: 100, show: (run) => <StatusCell run={run} /> },
  { name: "progress", label: "Progress", sort: "progress", width: 120, show: (run) => <ProgressCell run={run} /> },
  { name: "step", label: "Step", sort: "current_step", isNumber: true, show: stepOf },
  { name: "algorithm", label: "Algorithm", sort: "algorithm", show: (run) => text(run.algorithm) },
  { name: "environment", label: "Environment", sort: "environment", show: (run) => text(run.environment) },
  {
    name: "rollouts",
    label: "Rollouts",
    sort: "rollout_count",
    isNumber: true,
    show: (run) => number(run.rollout_count),
  },
  { name: "success", label: "Success", sort: "success_rate", isNumber: true, show: (run) => percent(run.success_rate) },
  {
    name: "reward",
    label: "Reward",
    sort: "average_reward",
    isNumber: true,
    show: (run) => number(run.average_reward, 3),
  },
  { name: "turns", label: "Turns", sort: "average_turns", isNumber: true, show: (run) => number(run.average_turns, 3) },
  { name: "owner", label: "Owner", show: (run) => text(run.owner_id && ownerName(run.owner_id, run.owner_name)) },
  { name: "tags", label: "Tags", width: 160, show: (run) => <Tags tags={run.tags ?? []} /> },
  { name: "created", label: "Created", sort: "created_at", width: 85, show: (run) => <Ago time={run.created_at} /> },
  { name: "started", label: "Started", sort: "started_at", width: 85, show: (run) => <Ago time={run.started_at} /> },
  { name: "duration", label: "Duration", isNumber: true, width: 85, show: (run) => <DurationCell run={run} /> },
  { name: "updated", label: "Updated", sort: "updated_at", width: 85, show: (run) => <Ago time={run.updated_at} /> },
];

export const DEFAULT_COLUMNS = [
  "status",
  "progress",
  "algorithm",
  "environment",
  "rollouts",
  "success",
  "reward",
  "created",
  "duration",
];

/** The chosen columns in their own order; the name, by which a run is opened, is always among them. */
export function columnsOf(chosen: string[]): Column[] {
  return COLUMNS.filter((column) => column.name === "name" || chosen.includes(column.name));
}

export function ownerName(id: string | null, name: string | null): string {
  if (!id) return UNKNOWN;
  return name ? plain(name) : `member ${shortId(id)}`;
}

function text(value: string | null): ReactNode {
  return value ? <Text size="sm" truncate maw={120} title={plain(value)}>{plain(value)}</Text> : UNKNOWN;
}

function stepOf({ current_step, steps_done, total_steps }: ListedRun): string {
  if (current_step === null) return UNKNOWN;
  return total_steps === null ? number(current_step) : `${number(steps_done ?? 0)} / ${number(total_steps)}`;
}

function NameCell({ run }: { run: ListedRun }) {
  const second = [run.run_name !== run.name && run.run_name, run.description].filter(Boolean).join(" · ");
  return (
    <div>
      <Group gap={6} wrap="nowrap">
        <Text component={Link} to={`/runs/${run.id}`} size="sm" fw={550} truncate title={plain(run.name)}>
          {plain(run.name)}
        </Text>
        <ArchivedBadge status={run.archive_status} />
        {run.visibility === "public" && <Badge size="xs" variant="outline" color="gray" c="dimmed">public</Badge>}
      </Group>
      {second && <Text size="xs" c="dimmed" truncate title={plain(second)}>{plain(second)}</Text>}
    </div>
  );
}

function StatusCell({ run }: { run: ListedRun }) {
  const isAlive = run.shown_status === "running" || run.shown_status === "stalled";
  return (
    <div title={run.status_message ? plain(run.status_message) : undefined}>
      <StatusBadge status={run.shown_status} />
      {isAlive && run.heartbeat_at && (
        <Text size="xs" c="dimmed" title="Last heartbeat">
          ♥ <Ago time={run.heartbeat_at} />
        </Text>
      )}
    </div>
  );
}

/** The time, looked at again every few seconds. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useInterval(() => setNow(Date.now()), 5_000, { autoInvoke: true });
  return Math.max(now, Date.now() - 5_000);
}

export function ProgressCell({ run }: { run: ListedRun }) {
  const now = useNow();
  const { progress } = run;
  if (progress === null) return UNKNOWN;
  const left = timeLeft(run, now);
  return (
    <div>
      <Progress value={progress * 100} size="sm" aria-label={`Progress of ${plain(run.name)}`} />
      <Text size="xs" c="dimmed" mt={3} style={{ whiteSpace: "nowrap" }}>
        {percent(progress, 0)}
        {run.shown_status === "running" && ` · ${left === null ? UNKNOWN : roughly(left)} left`}
      </Text>
    </div>
  );
}

/** An estimate, without the seconds that it does not know. */
function roughly(milliseconds: number): string {
  const minutes = Math.round(milliseconds / 60_000);
  return minutes >= 1 && minutes < 60 ? `${minutes} min` : duration(Math.max(1_000, milliseconds));
}

export function DurationCell({ run }: { run: ListedRun }) {
  return duration(durationOf(run, useNow()));
}

function Tags({ tags }: { tags: string[] }) {
  if (!tags.length) return UNKNOWN;
  return (
    <Group gap={4}>
      {tags.slice(0, 4).map((tag) => (
        <Badge key={tag} size="sm" variant="default" maw={140} title={plain(tag)}>{plain(tag)}</Badge>
      ))}
      {tags.length > 4 && <Text size="xs" c="dimmed" title={tags.map(plain).join(", ")}>+{tags.length - 4}</Text>}
    </Group>
  );
}
