import { Alert, Badge, Group, Progress, Spoiler, Text } from "@mantine/core";
import { useInterval } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import { Link } from "react-router";
import type { Run } from "@/api/run.ts";
import { Copy, plain } from "@/components/agent_text.tsx";
import { ArchivedBadge } from "@/components/archived.tsx";
import { Ago, PageHead } from "@/components/page.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { duration, number, percent, shortId } from "@/view/format.ts";
import { durationOf, timeLeft } from "../runs/progress.ts";
import { useTraining } from "./nothing_yet.tsx";
import classes from "./page.module.css";
import { Visibility } from "./visibility.tsx";

/** What the run is, and how it is doing. */
export function RunHead({ run }: { run: Run }) {
  const training = useTraining(run.id).data;
  // Nobody says of the episodes of an environment that they succeeded: that none did would be a wrong figure.
  const isJudged = training !== undefined && (!training.isEpisodic || run.success_rate !== 0);
  return (
    <PageHead
      title={plain(run.name)}
      crumbs={[{ label: "Runs", to: "/runs" }]}
      aside={
        <>
          <StatusBadge status={run.shown_status} />
          <ArchivedBadge status={run.archive_status} />
          <Visibility run={run} />
          <Copy text={run.id} what="Copy the run's id" />
        </>
      }
    >
      <Group gap="4px 18px" component="dl" m={0} fz="sm">
        {run.run_name && run.run_name !== run.name && <Fact name="Run name">{plain(run.run_name)}</Fact>}
        <Fact name="Algorithm">{run.algorithm && plain(run.algorithm)}</Fact>
        <Fact name="Environment">{run.environment && plain(run.environment)}</Fact>
        <Fact name="Owner">
          {run.owner_id && (run.owner_name ? plain(run.owner_name) : `member ${shortId(run.owner_id)}`)}
        </Fact>
        <Fact name="Started">{run.started_at && <Ago time={run.started_at} />}</Fact>
        <Fact name="Rollouts">{number(run.rollout_count)}</Fact>
        <Fact name="Success">{isJudged && run.success_rate !== null && percent(run.success_rate)}</Fact>
        <Fact name="Reward">{run.average_reward !== null && number(run.average_reward, 3)}</Fact>
      </Group>
      <HowFar run={run} />
      {run.description && (
        <Spoiler maxHeight={44} showLabel="Show all of the description" hideLabel="Show less">
          <Text size="sm" style={{ whiteSpace: "pre-wrap" }}>{plain(run.description)}</Text>
        </Spoiler>
      )}
      {run.status_message && <StatusMessage run={run} text={run.status_message} />}
      {run.timeline > 0 && (
        <Text size="sm" c="dimmed">
          Rewound {run.timeline === 1 ? "once" : `${run.timeline} times`}: what came after is hidden, not deleted.{" "}
          <Link to="?tab=history">See when and to which step</Link>
        </Text>
      )}
    </PageHead>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (!children) return null;
  return (
    <div className={classes.fact}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function StatusMessage({ run, text }: { run: Run; text: string }) {
  const isBad = ["failed", "stalled", "interrupted"].includes(run.shown_status);
  return (
    <Alert color={isBad ? "red" : "gray"} variant="light" py={6} mt={4} role={isBad ? "alert" : "note"}>
      <Text size="sm" style={{ whiteSpace: "pre-wrap", maxHeight: 160, overflow: "auto" }}>{plain(text)}</Text>
    </Alert>
  );
}

/** Where steps are counted from 0, or the last one still runs, its number does not say how many are done. */
function stepText(step: number, done: number | null, total: number | null): string {
  if (total === null) return `step ${number(step)}`;
  return done === null || done === step
    ? `step ${number(step)} of ${number(total)}`
    : `step ${number(step)}, ${number(done)} of ${number(total)} done`;
}

function HowFar({ run }: { run: Run }) {
  const [now, setNow] = useState(Date.now);
  useInterval(() => setNow(Date.now()), 5_000, { autoInvoke: true });
  const { progress } = run;
  const left = timeLeft(run, now);
  const took = durationOf(run, now);
  const isOpen = run.shown_status === "running" || run.shown_status === "stalled";
  const parts = [
    run.current_step !== null && stepText(run.current_step, run.steps_done, run.total_steps),
    progress !== null && percent(progress, 0),
    took !== null && (isOpen ? `for ${duration(took)}` : `took ${duration(took)}`),
    left !== null && `about ${duration(left)} left`,
  ].filter(Boolean);
  return (
    <Group gap="sm" mt={2}>
      {progress !== null && (
        <Progress value={progress * 100} w={180} size="sm" aria-label={`Progress: ${percent(progress, 0)}`} />
      )}
      <Text size="sm">{parts.join(" · ")}</Text>
      {run.tags?.map((tag) => <Badge key={tag} variant="default" size="sm">{plain(tag)}</Badge>)}
      {isOpen && run.heartbeat_at && (
        <Text size="sm" c="dimmed" span>
          last heartbeat <Ago time={run.heartbeat_at} />
        </Text>
      )}
    </Group>
  );
}
