/** Evaluations of the run, against the baseline. */
import { Anchor, Button, Code, Group, Stack, Text } from "@mantine/core";
import { type ReactNode, useMemo } from "react";
import type { Place } from "@/api/paging.ts";
import type { Run } from "@/api/run.ts";
import {
  type Baseline,
  type Evaluation,
  nextEvaluationPage,
  pinBaseline,
  readBaseline,
  readEvaluations,
} from "@/api/run_evaluations.ts";
import { useMayChange } from "@/auth/session.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Ago, Section } from "@/components/page.tsx";
import { Failed, Loading } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { queryClient, useLive, useLivePages } from "@/live/query.ts";
import { number, percent, shortId, UNKNOWN } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { type Column, Listing, moreOf } from "../listing.tsx";
import { NothingYet } from "../nothing_yet.tsx";
import { told } from "../told.ts";
import { ComparisonSection } from "./comparison.tsx";
import { SuccessChart } from "./success_chart.tsx";

export function EvaluationsTab({ run }: { run: Run }) {
  const query = useLivePages(
    run.id,
    ["run evaluations", run.id],
    (from: Place | null, signal) => readEvaluations(run.id, from, signal),
    nextEvaluationPage,
  );
  const baseline = useLive(run.id, ["run baseline", run.id, run.baseline_id], (signal) => readBaseline(run, signal), {
    keep: true,
  });
  const [view, change] = useView({ evaluation: null as string | null });
  const evaluations = useMemo(() => query.data?.pages.flat(), [query.data]);
  if (!evaluations) {
    return query.error
      ? <Failed error={query.error} retry={() => void query.refetch()} />
      : <Loading what="Reading the evaluations" />;
  }
  if (!evaluations.length && !baseline.data) return <NoEvaluations runId={run.id} />;
  const base = baseline.data ?? null;
  const chosen = view.evaluation ??
    evaluations.find((one) => one.kind === "eval" && one.status === "completed" && one.id !== base?.evaluation.id)
      ?.id ??
    null;
  const pick = (id: string) => change({ evaluation: id });
  return (
    <Stack gap="sm">
      <BaselineLine run={run} baseline={base} />
      <SuccessChart evaluations={evaluations} baseline={base?.evaluation ?? null} onPick={pick} />
      {chosen && base && chosen !== base.evaluation.id && (
        <ComparisonSection runId={run.id} evaluationId={chosen} baseline={base.evaluation} />
      )}
      <Section title="All evaluations">
        {evaluations.length
          ? <EvaluationList {...{ run, evaluations, chosen, pick }} baseline={base} more={moreOf(query)} />
          : <Text size="sm" c="dimmed">This run has none yet.</Text>}
      </Section>
    </Stack>
  );
}

function NoEvaluations({ runId }: { runId: string }) {
  return (
    <NothingYet
      runId={runId}
      title="No evaluations yet"
      trained="The policy is evaluated after each tenth of the training, unless the configuration says otherwise."
    >
      Measure a model on a set of tasks:{" "}
      <Code>with run.evaluation(step=n) as evaluation: …</Code>; the untrained one first, with{" "}
      <Code>kind="baseline"</Code>, so that there is something to beat.
    </NothingYet>
  );
}

export function titleOf(evaluation: { name: string | null; kind: string; step: number | null; id: string }): string {
  const name = evaluation.name ? plain(evaluation.name) : evaluation.kind === "baseline" ? "Baseline" : "Evaluation";
  if (evaluation.step !== null) return `${name} at step ${number(evaluation.step)}`;
  return evaluation.name || evaluation.kind === "baseline" ? name : `${name} ${shortId(evaluation.id)}`;
}

async function pin(run: Run, evaluationId: string | null): Promise<void> {
  await told(pinBaseline(run.id, evaluationId));
  await queryClient.invalidateQueries({ queryKey: ["run", run.id] });
}

function BaselineLine({ run, baseline }: { run: Run; baseline: Baseline | null }) {
  const mayChange = useMayChange(run.owner_id);
  if (!baseline) {
    return (
      <Text size="sm" c="dimmed">
        There is no baseline to compare with. Pin one of the evaluations, or record one with{" "}
        <Code>kind="baseline"</Code>.
      </Text>
    );
  }
  const { evaluation, isPinned } = baseline;
  return (
    <Group gap="sm" aria-label="Baseline" role="group">
      <Text size="sm">
        Baseline: <b>{titleOf(evaluation)}</b>
        {evaluation.model && <>{" "}({plain(evaluation.model)})</>}, success rate {percent(evaluation.success_rate)}
        <Text span c="dimmed" size="sm">
          {isPinned
            ? " · pinned"
            : evaluation.training_run_id === run.id
            ? " · not pinned: the newest of this run"
            : " · not pinned: the newest of this environment"}
        </Text>
      </Text>
      {mayChange && (
        <Button
          size="compact-xs"
          variant="default"
          onClick={() => void pin(run, isPinned ? null : evaluation.id)}
        >
          {isPinned ? "Unpin" : "Pin it"}
        </Button>
      )}
    </Group>
  );
}

interface ListProps {
  run: Run;
  evaluations: Evaluation[];
  baseline: Baseline | null;
  chosen: string | null;
  pick: (id: string) => void;
  more: ReturnType<typeof moreOf>;
}

function EvaluationList({ run, evaluations, baseline, chosen, pick, more }: ListProps) {
  const mayChange = useMayChange(run.owner_id);
  const base = baseline?.evaluation;
  const columns: Column<Evaluation>[] = [
    {
      label: "Evaluation",
      isWide: true,
      show: (one) => (
        <Choice
          evaluation={one}
          isChosen={one.id === chosen}
          isBaseline={one.id === base?.id}
          pick={() => pick(one.id)}
        />
      ),
    },
    { label: "Status", show: (one) => <StatusBadge status={one.status} /> },
    { label: "Success", isNumber: true, show: (one) => percent(one.success_rate) },
    {
      label: "Against baseline",
      isNumber: true,
      show: (one) => (one.id === base?.id ? UNKNOWN : points(one.success_rate, base?.success_rate)),
    },
    { label: "Reward", isNumber: true, show: (one) => number(one.mean_reward) },
    { label: "Turns", isNumber: true, show: (one) => number(one.mean_turns, 3) },
    { label: "Model", show: (one) => (one.model ? plain(one.model) : UNKNOWN) },
    { label: "Made", show: (one) => <Ago time={one.created_at} /> },
  ];
  if (mayChange) {
    columns.push({
      label: "Pin",
      show: (one) => <PinButton run={run} evaluation={one} isPinned={one.id === run.baseline_id} />,
    });
  }
  return <Listing label="Evaluations" columns={columns} rows={evaluations} keyOf={(one) => one.id} more={more} />;
}

/** A difference of rates in percentage points. */
export function points(value: number | null | undefined, base: number | null | undefined): string {
  if (value === null || value === undefined || base === null || base === undefined) return UNKNOWN;
  const difference = (value - base) * 100;
  return `${difference > 0 ? "+" : difference < 0 ? "−" : "±"}${Math.abs(difference).toFixed(1)} pp`;
}

function Choice({ evaluation, isChosen, isBaseline, pick }: {
  evaluation: Evaluation;
  isChosen: boolean;
  isBaseline: boolean;
  pick: () => void;
}): ReactNode {
  if (isBaseline) {
    return (
      <>
        {titleOf(evaluation)} <Text span size="sm" c="dimmed">(the baseline)</Text>
      </>
    );
  }
  return (
    <Anchor
      component="button"
      type="button"
      size="sm"
      ta="left"
      fw={isChosen ? 650 : undefined}
      aria-pressed={isChosen}
      onClick={pick}
    >
      {titleOf(evaluation)}
    </Anchor>
  );
}

function PinButton({ run, evaluation, isPinned }: { run: Run; evaluation: Evaluation; isPinned: boolean }) {
  return (
    <Button
      size="compact-xs"
      variant="subtle"
      aria-label={isPinned ? `Unpin ${titleOf(evaluation)}` : `Pin ${titleOf(evaluation)} as baseline`}
      onClick={() => void pin(run, isPinned ? null : evaluation.id)}
    >
      {isPinned ? "Unpin" : "Pin"}
    </Button>
  );
}
