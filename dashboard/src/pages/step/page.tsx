/** One step of training: what it says of itself, and the rollouts that were made at it. */
import { Anchor, Button, Group, Stack, Text, Tooltip } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { Link, useNavigate, useParams } from "react-router";
import { hasRollouts, type Neighbours, neighboursOf, stepOf } from "@/api/groups.ts";
import { runName } from "@/api/rollouts.ts";
import { plain } from "@/components/agent_text.tsx";
import { PageHead } from "@/components/page.tsx";
import { Empty, Found, NotFound } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { number, shortId } from "@/view/format.ts";
import { isId } from "@/pages/rollouts/view.ts";
import { StepFigures } from "./figures.tsx";
import { StepGroups } from "./groups.tsx";
import { LooseRollouts, StepEvaluations } from "./loose.tsx";

export default function StepPage() {
  const { runId = "", step = "" } = useParams();
  if (!/^\d{1,15}$/.test(step) || !isId(runId)) return <NotFound />;
  // Anew for each step, so that nothing of another one is shown.
  return <OneStep key={`${runId}/${step}`} runId={runId} step={Number(step)} />;
}

interface Props {
  runId: string;
  step: number;
}

function OneStep({ runId, step }: Props) {
  const query = useLive(runId, ["step", runId, step], async (signal) => {
    const [name, row, isUsed] = await Promise.all([
      runName(runId, signal),
      stepOf(runId, step, signal),
      hasRollouts(runId, step, signal),
    ]);
    return { name, row, isUsed };
  });
  const { data: near } = useLive(runId, ["steps-near", runId, step], (signal) => neighboursOf(runId, step, signal));
  const name = plain(query.data?.name ?? `Run ${shortId(runId)}`);
  return (
    <>
      <PageHead
        title={`Step ${number(step)}`}
        crumbs={[{ label: "Runs", to: "/runs" }, { label: name, to: `/runs/${runId}` }]}
        aside={near && <StepNavigation runId={runId} near={near} />}
      />
      <Found query={query} what="Reading the step">
        {({ row, isUsed }) => {
          if (!row && !isUsed) return <NoStep runId={runId} step={step} near={near} />;
          return (
            <Stack gap="md">
              {row
                ? <StepFigures step={row} />
                : <Text size="sm" c="dimmed">Nothing but rollouts is recorded of this step.</Text>}
              {row && <StepGroups runId={runId} stepId={row.id} />}
              <LooseRollouts runId={runId} step={step} />
              <StepEvaluations runId={runId} step={step} />
              <Anchor component={Link} to={`/rollouts?run=${runId}&step_from=${step}&step_to=${step}`} size="sm">
                Search all rollouts of this step
              </Anchor>
            </Stack>
          );
        }}
      </Found>
    </>
  );
}

function StepNavigation({ runId, near }: { runId: string; near: Neighbours }) {
  const navigate = useNavigate();
  const address = (step: number) => `/runs/${runId}/steps/${step}`;
  const go = (step: number | null) => step !== null && void navigate(address(step));
  useHotkeys([["[", () => go(near.previous)], ["]", () => go(near.next)]]);
  const button = (step: number | null, label: string, key: string, icon: React.ReactNode, isNext: boolean) =>
    step !== null && (
      <Tooltip label={`Key ${key}`}>
        <Button
          component={Link}
          to={address(step)}
          size="xs"
          variant="default"
          leftSection={isNext ? undefined : icon}
          rightSection={isNext ? icon : undefined}
        >
          {`${label} ${number(step)}`}
        </Button>
      </Tooltip>
    );
  return (
    <Group component="nav" gap="xs" aria-label="Other steps">
      {button(near.previous, "Step", "[", <IconChevronLeft size={14} aria-hidden />, false)}
      {button(near.next, "Step", "]", <IconChevronRight size={14} aria-hidden />, true)}
    </Group>
  );
}

function NoStep({ runId, step, near }: Props & { near: Neighbours | undefined }) {
  const others = [near?.previous, near?.next].filter((other) => other !== null && other !== undefined);
  return (
    <Empty title={`Nothing is recorded of step ${number(step)}`}>
      {others.length > 0
        ? (
          <>
            The nearest are {others.map((other, index) => (
              <span key={other}>
                {index > 0 && " and "}
                <Link to={`/runs/${runId}/steps/${other}`}>step {number(other)}</Link>
              </span>
            ))}.
          </>
        )
        : (
          <>
            The run has no steps that you may see. <Link to={`/runs/${runId}`}>To the run</Link>
          </>
        )}
    </Empty>
  );
}
