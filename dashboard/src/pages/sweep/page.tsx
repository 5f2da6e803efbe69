/** The page of a sweep: how far it is, which trials it has, and which parameters mattered. */
import { Alert, Anchor, Button, Group, Progress, Stack, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { Link, useParams } from "react-router";
import { readSweep, stopSweep, type Sweep, type SweepOverview, type Trial } from "@/api/sweeps.ts";
import { useAccess, useMayChange } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { NoOrchestrator } from "@/components/jobs/no_orchestrator.tsx";
import { Figure, PageHead, Section } from "@/components/page.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { useLive } from "@/live/query.ts";
import { number, percent, UNKNOWN } from "@/view/format.ts";
import { ActionButton } from "../run/job/bar.tsx";
import { Curves, MOST_CURVES } from "./curves.tsx";
import { type Line, ParallelCoordinates } from "./parallel.tsx";
import { bestOf, valueOf } from "./results.ts";
import { axesOf, type Brushes, passes, placesOf, RESULT, shortName } from "./scales.ts";
import { TrialTable } from "./trials.tsx";

export default function SweepPage() {
  const { sweepId = "" } = useParams();
  const { person } = useAccess();
  const query = useLive("*", ["sweep", sweepId], (signal) => readSweep(sweepId, signal), { enabled: person !== null });
  if (!person) {
    return (
      <Empty title="Sweeps are for members">
        <SignInLink /> to see them.
      </Empty>
    );
  }
  return <Found query={query} what="Reading the sweep">{(found) => <OneSweep key={found.sweep.id} {...found} />}
  </Found>;
}

export function isOpen(status: string): boolean {
  return status === "pending" || status === "running";
}

function OneSweep({ sweep, trials }: SweepOverview) {
  const best = useMemo(() => bestOf(trials, sweep.direction), [trials, sweep.direction]);
  return (
    <>
      <Head sweep={sweep} />
      <Stack gap="md">
        {sweep.status === "pending" && <NoOrchestrator backend={backendOf(sweep)} />}
        {sweep.status_message && (
          <Alert color={sweep.status === "failed" ? "red" : "gray"} py={6} role="note">
            {plain(sweep.status_message)}
          </Alert>
        )}
        <Figures sweep={sweep} trials={trials} best={best} />
        {trials.length > 0 ? <Trials sweep={sweep} trials={trials} best={best} /> : (
          <Empty title="No trial yet">
            {isOpen(sweep.status)
              ? "An orchestrator makes them; they appear here by themselves."
              : "It ended before the first one."}
          </Empty>
        )}
      </Stack>
    </>
  );
}

function backendOf(sweep: Sweep): string {
  const config = sweep.job_config as { backend?: string } | null;
  return config?.backend ?? "local";
}

function Head({ sweep }: { sweep: Sweep }) {
  const mine = useMayChange(sweep.owner_id);
  const template = sweep.template as { algorithm?: string | null; environment?: string | null };
  const facts = [sweep.method, template.algorithm, template.environment, `${sweep.direction} ${sweep.metric}`];
  return (
    <PageHead
      title={plain(sweep.name)}
      crumbs={[{ label: "Sweeps", to: "/sweeps" }]}
      aside={
        <>
          <StatusBadge status={sweep.status} />
          {isOpen(sweep.status) && (
            <ActionButton
              label="Stop"
              whyNot={mine ? null : "Only its owner, or an admin, may do this."}
              act={() => stopSweep(sweep.id)}
              done="The sweep has ended; trials that run end after their current step."
            />
          )}
          <Button component={Link} to={`/sweeps/new?from=${sweep.id}`} size="compact-sm" variant="default">
            Clone
          </Button>
        </>
      }
    >
      <Text size="sm" c="dimmed" lineClamp={2} style={{ overflowWrap: "anywhere" }}>
        {plain(facts.filter(Boolean).join(" · "))}
      </Text>
    </PageHead>
  );
}

function Figures({ sweep, trials, best }: { sweep: Sweep; trials: Trial[]; best: Trial | null }) {
  const ended = trials.filter(({ finished_at }) => finished_at !== null).length;
  const running = trials.filter(({ status }) => status === "running").length;
  return (
    <div className="om-tiles">
      <Figure
        label="Trials that ended"
        value={`${number(ended)} of ${number(sweep.max_trials)}`}
        hint={
          <Progress
            value={100 * ended / sweep.max_trials}
            size="sm"
            mt={4}
            aria-label={`${ended} of ${sweep.max_trials} trials ended`}
          />
        }
      />
      <Figure label="Running now" value={number(running)} hint={`at most ${number(sweep.max_concurrent)} at once`} />
      <Figure label="Stopped early" value={number(trials.filter(({ is_pruned }) => is_pruned).length)} />
      <Figure
        label={`Best ${shortName(plain(sweep.metric))}`}
        value={best ? number(best.value) : UNKNOWN}
        hint={best && (
          <Anchor component={Link} to={`/runs/${best.training_run_id}`} size="xs">trial {best.trial}</Anchor>
        )}
      />
      <Figure label="Time so far" value={<Elapsed from={sweep.started_at} to={sweep.finished_at} />} />
    </div>
  );
}

function Trials({ sweep, trials, best }: { sweep: Sweep; trials: Trial[]; best: Trial | null }) {
  const [hovered, setHovered] = useState<number | null>(null);
  const [brushes, setBrushes] = useState<Brushes>({});
  const [chosen, choose] = useState<number[]>([]);
  const isSeeds = sweep.method === "seeds";
  const points = useMemo(
    () => trials.map((trial) => ({ parameters: trial.parameters as Record<string, unknown>, value: valueOf(trial) })),
    [trials],
  );
  const axes = useMemo(
    () => axesOf(points, sweep.space as Record<string, unknown>, sweep.metric),
    [points, sweep.space, sweep.metric],
  );
  const lines = useMemo(
    (): Line[] => points.map((point, place) => ({ trial: trials[place]!.trial, places: placesOf(axes, point) })),
    [axes, points, trials],
  );
  const kept = useMemo(
    () => trials.filter((_, place) => passes(axes, lines[place]!.places, brushes)),
    [axes, brushes, lines, trials],
  );
  const drawn = chosen.length > 0 ? trials.filter(({ trial }) => chosen.includes(trial)) : isSeeds ? kept : [];
  return (
    <>
      {!isSeeds && (
        <Section title="Parameters and result">
          <ParallelCoordinates {...{ axes, lines, brushes, setBrushes, hovered, setHovered }} />
        </Section>
      )}
      {!isSeeds && <Importances importances={sweep.importances} />}
      <Section
        title={isSeeds && chosen.length === 0 ? "All seeds as one curve" : "Selected trials as one curve"}
        aside={chosen.length > 0 && (
          <Button size="compact-xs" variant="default" onClick={() => choose([])}>Clear the selection</Button>
        )}
      >
        {drawn.length > 0 ? <Curves trials={drawn} metric={sweep.metric} /> : (
          <Group gap="sm">
            <Text size="sm" c="dimmed">Select trials in the table, or</Text>
            <Button
              size="compact-xs"
              variant="default"
              onClick={() => choose(kept.slice(0, MOST_CURVES).map(({ trial }) => trial))}
            >
              {kept.length > MOST_CURVES ? `the first ${MOST_CURVES}` : `all ${kept.length}`}
            </Button>
          </Group>
        )}
      </Section>
      <Section title="Trials">
        <TrialTable
          trials={kept}
          parameters={axes.flatMap(({ name }) => name === RESULT ? [] : name)}
          metric={sweep.metric}
          best={best?.trial ?? null}
          {...{ hovered, setHovered, chosen, choose }}
        />
      </Section>
    </>
  );
}

const MOST_IMPORTANCES = 12;

/** Which parameters mattered, the most first. */
function Importances({ importances }: { importances: unknown }) {
  const found = Object.entries((importances ?? {}) as Record<string, unknown>)
    .filter((entry): entry is [string, number] => typeof entry[1] === "number")
    .sort(([, a], [, b]) => b - a);
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? found : found.slice(0, MOST_IMPORTANCES);
  return (
    <Section title="Which parameters mattered">
      {found.length === 0
        ? <Text size="sm" c="dimmed">This is known once a few trials have ended with different results.</Text>
        : (
          <Stack gap={6}>
            {shown.map(([path, share]) => (
              <Group key={path} gap="sm" wrap="nowrap">
                <Text size="sm" w={180} truncate title={plain(path)} style={{ flex: "none", maxWidth: "45%" }}>
                  {plain(shortName(path))}
                </Text>
                <Progress
                  value={100 * share}
                  size="md"
                  style={{ flex: 1 }}
                  aria-label={`${plain(path)}: ${percent(share, 0)}`}
                />
                <Text size="sm" w={48} ta="right">{percent(share, 0)}</Text>
              </Group>
            ))}
            {found.length > shown.length && (
              <Anchor
                component="button"
                type="button"
                size="sm"
                ta="left"
                onClick={() => setWhole(true)}
              >
                Show all {number(found.length)}
              </Anchor>
            )}
          </Stack>
        )}
    </Section>
  );
}
