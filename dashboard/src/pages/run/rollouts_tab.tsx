import { Anchor, Code, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { Link } from "react-router";
import { findRollouts, type FoundRollout } from "@/api/rollouts.ts";
import { nextStepPage, readSteps, type Run, type TrainingStep } from "@/api/run.ts";
import { plain } from "@/components/agent_text.tsx";
import { Ago, Section } from "@/components/page.tsx";
import { Empty, Failed, Found, Loading } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { useLive, useLivePages } from "@/live/query.ts";
import { between, duration, number, shortId, UNKNOWN } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { type Column, Listing, moreOf } from "./listing.tsx";

const NEWEST = 50;

const LISTS = [
  { value: "rollouts", label: "Newest rollouts" },
  { value: "steps", label: "Steps" },
];

export function RolloutsTab({ run }: { run: Run }) {
  const [view, change] = useView({ list: "rollouts" });
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <SegmentedControl
          size="xs"
          aria-label="What is listed"
          data={LISTS}
          value={view.list === "steps" ? "steps" : "rollouts"}
          onChange={(list) => change({ list })}
        />
        <Anchor component={Link} to={`/rollouts?run=${run.id}`} size="sm">Search all rollouts</Anchor>
      </Group>
      {view.list === "steps" ? <Steps run={run} /> : <Newest run={run} />}
    </Stack>
  );
}

function Steps({ run }: { run: Run }) {
  const query = useLivePages(
    run.id,
    ["run steps", run.id],
    (before: number | null, signal) => readSteps(run.id, before, signal),
    nextStepPage,
  );
  const steps = query.data?.pages.flat();
  return (
    <Section title="Steps">
      {steps === undefined
        ? query.error
          ? <Failed error={query.error} retry={() => void query.refetch()} />
          : <Loading what="Reading the steps" />
        : steps.length === 0
        ? (
          <Empty title="No steps yet">
            Say where a step begins and ends: <Code>with run.step(n) as step: …</Code>
          </Empty>
        )
        : (
          <Listing
            label="Steps of the run"
            columns={stepColumns(run.id, steps)}
            rows={steps}
            keyOf={(step) => step.id}
            more={moreOf(query)}
          />
        )}
    </Section>
  );
}

const FIGURES = [
  { name: "reward_mean", label: "Reward" },
  { name: "reward_std", label: "± std" },
  { name: "loss", label: "Loss" },
  { name: "kl", label: "KL" },
  { name: "grad_norm", label: "Grad norm" },
  { name: "tokens", label: "Tokens" },
] as const;

function stepColumns(runId: string, steps: TrainingStep[]): Column<TrainingStep>[] {
  // What no step recorded has no column.
  const figures = FIGURES.filter(({ name }) => steps.some((step) => step[name] !== null));
  return [
    {
      label: "Step",
      show: (step) => (
        <Anchor component={Link} to={`/runs/${runId}/steps/${step.step}`} size="sm">Step {number(step.step)}</Anchor>
      ),
    },
    {
      label: "Status",
      show: (step) => (
        <span title={step.status_message ? plain(step.status_message) : undefined}>
          <StatusBadge status={step.status} />
        </span>
      ),
    },
    ...figures.map(({ name, label }) => ({ label, isNumber: true, show: (step: TrainingStep) => number(step[name]) })),
    { label: "Time", isNumber: true, show: (step) => duration(between(step.started_at, step.finished_at)) },
    { label: "Started", show: (step) => <Ago time={step.started_at} /> },
  ];
}

function Newest({ run }: { run: Run }) {
  const query = useLive(
    run.id,
    ["newest rollouts", run.id],
    (signal) => findRollouts({ training_run_id: run.id }, null, { pageSize: NEWEST, budgetMs: 300 }, signal),
  );
  return (
    <Section title="Newest rollouts">
      <Found query={query} what="Reading the rollouts">
        {({ rollouts }) =>
          rollouts.length
            ? (
              <Listing
                label="Newest rollouts"
                columns={ROLLOUT_COLUMNS}
                rows={rollouts}
                keyOf={(rollout) => rollout.id}
              />
            )
            : (
              <Empty title="No rollouts yet">
                Record one: <Code>with group.rollout(task_description="…") as rollout: rollout.log_turn(…)</Code>
              </Empty>
            )}
      </Found>
    </Section>
  );
}

const ROLLOUT_COLUMNS: Column<FoundRollout>[] = [
  {
    label: "Rollout",
    isWide: true,
    show: (rollout) => (
      <Anchor component={Link} to={`/rollouts/${rollout.id}`} size="sm" lineClamp={2}>
        {rollout.task_description ? plain(rollout.task_description) : `Rollout ${shortId(rollout.id)}`}
      </Anchor>
    ),
  },
  { label: "Status", show: (rollout) => <StatusBadge status={rollout.status} /> },
  { label: "Reward", isNumber: true, show: (rollout) => number(rollout.total_reward) },
  { label: "Turns", isNumber: true, show: (rollout) => number(rollout.step_count) },
  { label: "Step", isNumber: true, show: (rollout) => number(rollout.step) },
  { label: "Source", show: (rollout) => rollout.source },
  { label: "Time", isNumber: true, show: (rollout) => duration(between(rollout.started_at, rollout.finished_at)) },
  { label: "Recorded", show: (rollout) => <Ago time={rollout.created_at} /> },
  {
    label: "Error",
    isWide: true,
    show: (rollout) => <Text size="sm" lineClamp={1}>{rollout.error ? plain(rollout.error) : UNKNOWN}</Text>,
  },
];
