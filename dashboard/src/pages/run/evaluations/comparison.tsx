/** One evaluation beside the baseline, down to the tasks. */
import { Anchor, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import { Link } from "react-router";
import { type ComparedTask, compareEvaluations, type Comparison, type Evaluation } from "@/api/run_evaluations.ts";
import { plain } from "@/components/agent_text.tsx";
import { Figure, Section } from "@/components/page.tsx";
import { Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { type Double, number, percent, UNKNOWN } from "@/view/format.ts";
import { type Column, Listing } from "../listing.tsx";
import { points, titleOf } from "./tab.tsx";

export function ComparisonSection(
  { runId, evaluationId, baseline }: { runId: string; evaluationId: string; baseline: Evaluation },
) {
  const query = useLive(
    runId,
    ["compared evaluations", evaluationId, baseline.id],
    (signal) => compareEvaluations(evaluationId, baseline.id, signal),
    { keep: true },
  );
  const title = query.data ? `${titleOf(query.data.evaluation)} against the baseline` : "Against the baseline";
  return (
    <Section title={title}>
      <Found query={query} what="Comparing">{(comparison) => <Compared runId={runId} comparison={comparison} />}</Found>
    </Section>
  );
}

function Compared({ runId, comparison }: { runId: string; comparison: Comparison }) {
  const { evaluation, baseline, tasks, newly_solved, newly_broken } = comparison;
  const of = (change: ComparedTask["change"]) => tasks.filter((task) => task.change === change);
  const before = (text: string) => `baseline ${text}`;
  return (
    <Stack gap="md">
      <div className="om-tiles">
        <Figure
          label="Success rate"
          value={percent(evaluation.success_rate)}
          hint={`${before(percent(baseline.success_rate))} · ${points(evaluation.success_rate, baseline.success_rate)}`}
        />
        <Figure
          label="Mean reward"
          value={number(evaluation.mean_reward)}
          hint={`${before(number(baseline.mean_reward))} · ${difference(evaluation.mean_reward, baseline.mean_reward)}`}
        />
        <Figure
          label="Mean turns"
          value={number(evaluation.mean_turns, 3)}
          hint={`${before(number(baseline.mean_turns, 3))} · ${difference(evaluation.mean_turns, baseline.mean_turns)}`}
        />
        <Figure label="Newly solved tasks" value={number(newly_solved)} />
        <Figure label="Newly broken tasks" value={number(newly_broken)} tone={newly_broken > 0 ? "warn" : undefined} />
      </div>
      <Tasks title="Newly broken" runId={runId} tasks={of("broken")} total={newly_broken} />
      <Tasks title="Newly solved" runId={runId} tasks={of("solved")} total={newly_solved} />
      <Text size="sm" c="dimmed">
        {others(of("same").length, of("new").length, of("missing").length, tasks.length)}
      </Text>
    </Stack>
  );
}

function difference(value: Double | null, base: Double | null): string {
  if (value === null || base === null || !Number.isFinite(Number(value)) || !Number.isFinite(Number(base))) {
    return UNKNOWN;
  }
  const by = Number(value) - Number(base);
  return `${by > 0 ? "+" : by < 0 ? "−" : "±"}${number(Math.abs(by), 3)}`;
}

function others(same: number, added: number, missing: number, total: number): string {
  if (!total) return "Neither evaluation has rollouts or results by task.";
  const parts = [`${number(same)} tasks as before`];
  if (added) parts.push(`${number(added)} only in this evaluation`);
  if (missing) parts.push(`${number(missing)} only in the baseline`);
  return `${parts.join(", ")}. A task counts as solved where at least half of its rollouts succeeded.`;
}

const FIRST = 20;

function Tasks({ title, runId, tasks, total }: { title: string; runId: string; tasks: ComparedTask[]; total: number }) {
  const [shown, setShown] = useState(FIRST);
  if (!tasks.length) return null;
  const columns: Column<ComparedTask>[] = [
    { label: "Task", isWide: true, show: (task) => <TaskLink runId={runId} task={task} /> },
    { label: "Baseline", isNumber: true, show: (task) => rate(task.baseline_rate, task.baseline_rollouts) },
    { label: "Now", isNumber: true, show: (task) => rate(task.rate, task.rollouts) },
  ];
  return (
    <div>
      <Title order={3} size="h6" mb={4}>{title} ({number(total)})</Title>
      <Listing
        label={title}
        columns={columns}
        rows={tasks.slice(0, shown)}
        keyOf={(task) => task.task_id ?? task.task ?? ""}
        more={{ hasMore: tasks.length > shown, isReading: false, read: () => setShown((before) => before + 100) }}
      />
    </div>
  );
}

function rate(value: number | null, rollouts: number): string {
  return `${percent(value, 0)} of ${number(rollouts)}`;
}

/** To the rollouts of the task in this run. */
function TaskLink({ runId, task }: { runId: string; task: ComparedTask }) {
  const by = task.task_id ? `task=${task.task_id}` : `source=evaluation&text=${encodeURIComponent(task.task ?? "")}`;
  return (
    <Anchor component={Link} to={`/rollouts?run=${runId}&${by}`} size="sm" lineClamp={2}>
      {plain(task.task ?? "A task without a name")}
    </Anchor>
  );
}
