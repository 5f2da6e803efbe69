/** A new sweep: which parameters of a run are varied, how they are searched, and how many runs that makes. */
import { Alert, Button, Code, Group, Stack, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useMemo, useRef, useState } from "react";
import { Link, useNavigate } from "react-router";
import { metricNames } from "@/api/metrics.ts";
import { previewSweep, readSweep, requestSweep } from "@/api/sweeps.ts";
import { readTraining, type Training } from "@/api/training.ts";
import { useAccess, useWhyNot } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { AsJson } from "@/components/as_json.tsx";
import { LaunchFields } from "@/components/jobs/launch_fields.tsx";
import { EMPTY_LAUNCH, jobConfigOf, type LaunchForm, launchFormOf } from "@/components/jobs/launch_form.ts";
import { NoOrchestrator } from "@/components/jobs/no_orchestrator.tsx";
import { type Crumb, PageHead, Section } from "@/components/page.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { refresher, useLive } from "@/live/query.ts";
import { RequestError } from "@/supabase.ts";
import { number } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { RunSelect } from "../run/run_select.tsx";
import { emptyForm, type Form, formOf, type Problems, requestOf } from "./form.ts";
import { offeredBy, type Template } from "./parameters.ts";
import { ParametersSection } from "./parameters_section.tsx";
import { SearchFields } from "./search_section.tsx";

export default function NewSweepPage() {
  const { person } = useAccess();
  const [view] = useView({ run: null as string | null, from: null as string | null });
  if (!person) {
    return (
      <Empty title="Sweeps are for members">
        <SignInLink /> to start one.
      </Empty>
    );
  }
  if (view.from !== null) return <Copied key={view.from} sweepId={view.from} />;
  if (view.run !== null) return <OfRun key={view.run} runId={view.run} />;
  return <Choose />;
}

const CRUMBS: Crumb[] = [{ label: "Sweeps", to: "/sweeps" }];

function Choose() {
  const [, change] = useView({ run: null as string | null });
  return (
    <>
      <PageHead title="New sweep" crumbs={CRUMBS} />
      <Empty title="Which run is varied?">
        <Stack gap="sm" align="center">
          <span>
            A sweep trains a run’s configuration again with other parameters. <Link to="/runs/new">Make a new run</Link>
            {" "}
            if there is none yet: it need not be launched.
          </span>
          <RunSelect label="Choose a run" size="sm" without={[]} onChoose={(run) => change({ run }, { push: true })} />
        </Stack>
      </Empty>
    </>
  );
}

function OfRun({ runId }: { runId: string }) {
  const run = useLive(runId, ["training", runId], (signal) => readTraining(runId, signal));
  const metrics = useLive(runId, ["metric names", runId], (signal) => metricNames(runId, signal)).data ?? [];
  return (
    <Found query={run} what="Reading the run">
      {(found) => {
        const crumbs = [...CRUMBS, { label: plain(found.name), to: `/runs/${runId}` }];
        if (!found.isTrainable) return <NotTrainable crumbs={crumbs} />;
        const template = templateOf(found);
        return <NewSweep {...{ template, metrics, crumbs }} start={emptyForm(template)} startLaunch={EMPTY_LAUNCH} />;
      }}
    </Found>
  );
}

function templateOf({ name, algorithm, environment, config }: Training): Template {
  return { name, algorithm, environment, config: config as Template["config"] };
}

function NotTrainable({ crumbs }: { crumbs: Crumb[] }) {
  return (
    <>
      <PageHead title="New sweep" crumbs={crumbs} />
      <Empty title="This run cannot be varied">
        It was recorded by a program of its own, which the training service cannot launch.{" "}
        <Link to="/runs/new">Make a run</Link> that names that program, and vary it.
      </Empty>
    </>
  );
}

function Copied({ sweepId }: { sweepId: string }) {
  const query = useLive("*", ["sweep", sweepId], (signal) => readSweep(sweepId, signal));
  return (
    <Found query={query} what="Reading the sweep">
      {({ sweep }) => (
        <NewSweep
          template={sweep.template as unknown as Template}
          metrics={[sweep.metric]}
          start={formOf(sweep)}
          startLaunch={launchFormOf(sweep.job_config)}
          crumbs={[...CRUMBS, { label: plain(sweep.name), to: `/sweeps/${sweepId}` }]}
        />
      )}
    </Found>
  );
}

interface Props {
  template: Template;
  metrics: string[];
  start: Form;
  startLaunch: LaunchForm;
  crumbs: Crumb[];
}

const TYPING_MS = 300;

/** What the database says to the form as it is now. */
function usePreview(asked: Parameters<typeof previewSweep>[0], isReadable: boolean) {
  const [settled] = useDebouncedValue(asked, TYPING_MS);
  const isEmpty = Object.keys(asked.space).length === 0;
  const query = useLive(null, ["sweep preview", settled], (signal) => previewSweep(settled, signal), {
    enabled: isReadable && !isEmpty,
    keep: true,
  });
  return { query, isEmpty, isSettled: settled === asked && !query.isFetching };
}

function NewSweep({ template: given, metrics, start, startLaunch, crumbs }: Props) {
  const navigate = useNavigate();
  const byRole = useWhyNot();
  // The run as it was when one began: what is trained meanwhile changes nothing of the form.
  const [template] = useState(given);
  const [form, setForm] = useState(start);
  const [launch, setLaunch] = useState(startLaunch);
  // Asking again after a lost answer makes nothing twice; another form is another sweep.
  const id = useRef(crypto.randomUUID());
  const change = (changes: Partial<Form>) => {
    id.current = crypto.randomUUID();
    setForm((before) => ({ ...before, ...changes }));
  };
  const changeLaunch = (changes: Partial<LaunchForm>) => {
    id.current = crypto.randomUUID();
    setLaunch((before) => ({ ...before, ...changes }));
  };
  const offered = useMemo(() => offeredBy(template), [template]);
  const { request, problems } = useMemo(() => requestOf(form, template, offered), [form, template, offered]);
  const asked = useMemo(() => ({ ...request, job_config: jobConfigOf(launch) }), [request, launch]);
  const isReadable = Object.keys(problems).length === 0;
  const { query, isEmpty, isSettled } = usePreview(asked, isReadable);
  const make = useMutation<string, Error>({
    mutationFn: async () => {
      // The form may be changed while the answer is on its way.
      const sweepId = id.current;
      await requestSweep({ id: sweepId, ...asked });
      return sweepId;
    },
    onSuccess: (sweepId) => {
      refresher.everything();
      void navigate(`/sweeps/${sweepId}`);
    },
  });
  const refused = isReadable && !isEmpty ? query.error : null;
  const told = { ...problems, ...toldOf(refused) };
  const canStart = isReadable && !isEmpty && isSettled && !query.error && query.data !== undefined && !byRole;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (canStart && !make.isPending) make.mutate();
  };
  const count = isReadable && !isEmpty && !query.error ? query.data : undefined;
  return (
    <form onSubmit={submit} noValidate>
      <PageHead title="New sweep" crumbs={crumbs}>
        <Text size="sm" c="dimmed" lineClamp={2} style={{ overflowWrap: "anywhere" }}>
          {plain([template.name, template.algorithm, template.environment].filter(Boolean).join(" · "))}
        </Text>
      </PageHead>
      <Stack gap="md">
        {byRole && <Alert color="gray" variant="light" role="note" py="xs">{byRole}</Alert>}
        <ParametersSection {...{ form, change, offered }} problems={told} counts={count?.values} />
        <Section title="Search">
          <SearchFields {...{ form, change, metrics }} problems={told} />
        </Section>
        <Section title="Launch of the trials">
          <Stack gap="sm">
            <LaunchFields form={launch} change={changeLaunch} />
            {told.job_config && <Alert color="red" role="alert">{told.job_config}</Alert>}
            <NoOrchestrator backend={launch.backend} />
          </Stack>
        </Section>
        <div>
          <AsJson title="Sweep" value={asked} />
          <Text size="xs" c="dimmed">
            <Code>openmanus-rl sweeps new FILE</Code> takes it too.
          </Text>
        </div>
        {told.other && <Alert color="red" role="alert" title="It cannot be started like this">{told.other}</Alert>}
        {make.error && <Alert color="red" role="alert" title="Nothing was started">{make.error.message}</Alert>}
        <Group gap="sm">
          <Button type="submit" loading={make.isPending} disabled={!canStart}>
            {count ? `Start ${runs(count.trials)}` : "Start"}
          </Button>
          <Text size="sm" c="dimmed" role="status">
            {byRole ?? (isEmpty
              ? "Add a parameter to vary first."
              : Object.keys(told).length
              ? `Mend first: ${
                Object.keys(told).filter((field) => field !== "other").map(plain).join(", ") || "see above"
              }`
              : count
              ? summary(count, form)
              : "Counting the runs…")}
          </Text>
        </Group>
      </Stack>
    </form>
  );
}

function runs(count: number): string {
  return count === 1 ? "1 run" : `${number(count)} runs`;
}

function summary({ trials, points }: { trials: number; points: number | null }, form: Form): string {
  const which = points === null
    ? ""
    : trials < points
    ? `: the first ${number(trials)} of ${number(points)} combinations`
    : ": all combinations";
  const atOnce = Math.min(trials, Number(form.max_concurrent || 1));
  return `It makes ${runs(trials)}${which}, at most ${number(atOnce)} at once.`;
}

const FIELDS = ["name", "metric", "max_trials", "max_concurrent", "seed", "space"];

/** What the database refused, at the field that it names; what has no field here is told as it is. */
function toldOf(error: Error | null): Problems {
  if (!error) return {};
  const field = error instanceof RequestError ? error.field : null;
  if (field === null) return { other: error.message };
  const message = error.message.replace(`${field}: `, "");
  if (field.startsWith("job_config")) return { job_config: error.message };
  const hasPlace = FIELDS.includes(field) || field.startsWith("space.") || field.startsWith("early_stopping");
  return hasPlace ? { [field]: message } : { other: error.message };
}
