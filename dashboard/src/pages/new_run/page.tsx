/** A new run: what is trained, where, with which parameters. */
import {
  Alert,
  Anchor,
  Autocomplete,
  Button,
  Group,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  TextInput,
} from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useMemo, useRef, useState } from "react";
import { Link, useNavigate } from "react-router";
import { trainingEnvironments } from "@/api/environments.ts";
import { requestSweep } from "@/api/sweeps.ts";
import { addRun, readTraining, type Training } from "@/api/training.ts";
import { useAccess, useWhyNot } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { AsJson } from "@/components/as_json.tsx";
import { LaunchFields } from "@/components/jobs/launch_fields.tsx";
import { EMPTY_LAUNCH, jobConfigOf } from "@/components/jobs/launch_form.ts";
import { NoOrchestrator } from "@/components/jobs/no_orchestrator.tsx";
import { PageHead, Section } from "@/components/page.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { refresher, useLive } from "@/live/query.ts";
import { number } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { GYMNASIUM_IDS } from "../environment/editor.tsx";
import { ALGORITHMS } from "./algorithms.ts";
import { type FieldsProps, Hyperparameters, ProgramFields } from "./fields.tsx";
import { configOf, countOf, EMPTY, type Form, formOf, seedsOf } from "./form.ts";

/** What decides between trials with different seeds; the training service records it for every algorithm. */
const METRIC = "rollout/ep_rew_mean";

export default function NewRunPage() {
  const { person } = useAccess();
  const [view] = useView({ from: null as string | null, environment: null as string | null });
  const copied = useLive(view.from, ["training", view.from], (signal) => readTraining(view.from!, signal), {
    enabled: view.from !== null && person !== null,
  });
  if (!person) {
    return (
      <Empty title="New runs are for members">
        <SignInLink /> to make one.
      </Empty>
    );
  }
  if (view.from === null) return <NewRun start={{ ...EMPTY, environment: view.environment ?? EMPTY.environment }} />;
  return (
    <Found query={copied} what="Reading the run">
      {(run) => <NewRun key={view.from} start={formOf(run)} copied={{ ...run, id: view.from! }} />}
    </Found>
  );
}

function NewRun({ start, copied }: { start: Form; copied?: Training & { id: string } }) {
  const navigate = useNavigate();
  const byRole = useWhyNot();
  const [form, setForm] = useState(start);
  const [launch, setLaunch] = useState(EMPTY_LAUNCH);
  const [isTried, setTried] = useState(false);
  // Asking again after a lost answer makes nothing twice; another form is another run.
  const id = useRef(crypto.randomUUID());
  const change = (changes: Partial<Form>) => {
    id.current = crypto.randomUUID();
    setForm((before) => ({ ...before, ...changes }));
  };
  const { config, problems } = useMemo(() => configOf(form), [form]);
  const hasProblems = Object.keys(problems).length > 0;
  const count = countOf(form);
  const isSweep = count > 1;
  const make = useMutation<string, Error>({
    mutationFn: async () => {
      // The form may be changed while the answer is on its way.
      const madeId = id.current;
      const environment = form.environment.trim() || null;
      const run = { name: form.name.trim(), algorithm: form.algorithm, environment, config };
      if (!isSweep) {
        await addRun(madeId, run);
        return `/runs/${madeId}?launch=true`;
      }
      await requestSweep({
        id: madeId,
        name: `${run.name}, ${count} seeds`,
        method: "seeds",
        template: run,
        space: { seed: { values: seedsOf(form) } },
        metric: METRIC,
        direction: "maximize",
        max_trials: count,
        max_concurrent: count,
        job_config: jobConfigOf(launch),
      });
      return `/sweeps/${madeId}`;
    },
    onSuccess: (place) => {
      refresher.everything();
      void navigate(place);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (!hasProblems && !byRole) make.mutate();
  };
  // What is missing is told when one is done, what is wrong at once.
  const told = isTried || form.name ? problems : { ...problems, name: undefined };
  const props = { form, change, problems: told };
  return (
    <form onSubmit={submit} noValidate>
      <PageHead
        title={copied ? `Clone ${plain(copied.name)}` : "New run"}
        crumbs={[
          { label: "Runs", to: "/runs" },
          ...copied ? [{ label: plain(copied.name), to: `/runs/${copied.id}` }] : [],
        ]}
      />
      <Stack gap="md">
        {byRole && <Alert color="gray" variant="light" role="note" py="xs">{byRole}</Alert>}
        {copied && <NotCopied copied={copied} />}
        <What {...props} />
        {form.algorithm === null
          ? (
            <Section title="Program">
              <ProgramFields {...props} />
            </Section>
          )
          : (
            <>
              <Section title="Training">
                <TrainingFields {...props} />
              </Section>
              <Section
                title={`Parameters of ${ALGORITHMS[form.algorithm]!.title}`}
                aside={<Text size="xs" c="dimmed">Empty is the default</Text>}
              >
                <Hyperparameters {...props} />
              </Section>
            </>
          )}
        {isSweep && (
          <Section title={`Launch of the ${number(count)} runs`}>
            <Stack gap="sm">
              <LaunchFields form={launch} change={(changes) => setLaunch((last) => ({ ...last, ...changes }))} />
              <NoOrchestrator backend={launch.backend} />
            </Stack>
          </Section>
        )}
        <AsJson title="Configuration" value={config} />
        {make.error && <Alert color="red" role="alert" title="Nothing was made">{make.error.message}</Alert>}
        <Group gap="sm">
          <Button type="submit" loading={make.isPending} disabled={byRole !== null}>
            {isSweep ? `Start ${number(count)} runs` : "Create the run"}
          </Button>
          <Text size="sm" c="dimmed" role="status">
            {byRole ?? (isTried && hasProblems
              ? `Mend first: ${Object.keys(problems).join(", ")}`
              : isSweep
              ? "They are one sweep, shown as one curve with a band."
              : "It is launched on its page, where you read the task first.")}
          </Text>
        </Group>
      </Stack>
    </form>
  );
}

/** What the form has no place for. */
function NotCopied({ copied: { config, algorithm, isTrainable } }: { copied: Training }) {
  const known = ALGORITHMS[algorithm?.toLowerCase() ?? ""]?.parameters.map(({ name }) => name);
  const given = config.hyperparameters;
  const unknown = typeof given === "object" && given !== null && known
    ? Object.keys(given).filter((name) => !known.includes(name))
    : [];
  if (isTrainable && unknown.length === 0) return null;
  return (
    <Alert color="orange" role="note">
      {isTrainable
        ? `Not copied, because ${algorithm} has no such parameters: ${plain(unknown.join(", "))}.`
        : "This run was recorded by a program of its own, not by the training service: only its name and environment are copied."}
    </Alert>
  );
}

function What({ form, change, problems }: FieldsProps) {
  return (
    <Section title="What">
      <Stack gap="sm">
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
          <TextInput
            label="Name"
            value={form.name}
            onChange={({ currentTarget }) => change({ name: currentTarget.value })}
            error={problems.name}
            maxLength={500}
            data-autofocus
          />
          <EnvironmentInput form={form} change={change} problems={problems} />
        </SimpleGrid>
        <div>
          <SegmentedControl
            aria-label="Algorithm"
            data={[
              ...Object.keys(ALGORITHMS).map((value) => ({ value, label: value.toUpperCase() })),
              { value: "", label: "Own program" },
            ]}
            value={form.algorithm ?? ""}
            onChange={(algorithm) => change({ algorithm: algorithm || null })}
            style={{ maxWidth: "100%", overflowX: "auto" }}
          />
          <Text size="xs" c="dimmed" mt={4}>{explained(form.algorithm)}</Text>
        </div>
      </Stack>
    </Section>
  );
}

function explained(algorithm: string | null): string {
  if (algorithm === null) {
    return "TRL, verl, CleanRL or a loop of your own: it is launched, followed, stopped and resumed the same way.";
  }
  const { title, actions } = ALGORITHMS[algorithm]!;
  return `${title}, for ${actions === "any" ? "discrete and continuous" : actions} actions.`;
}

function EnvironmentInput({ form, change, problems }: FieldsProps) {
  const [search] = useDebouncedValue(form.environment, 250);
  const saved = useLive(null, ["training environments", search], (signal) => trainingEnvironments(search, signal), {
    keep: true,
  }).data ?? [];
  const names = new Set(saved.map(({ name }) => name));
  const chosen = saved.find(({ name }) => name === form.environment);
  return (
    <Autocomplete
      label="Environment"
      description={chosen
        ? (
          <>
            A saved {chosen.kind} environment,{" "}
            <Anchor component={Link} to={`/environments/${chosen.id}`} size="xs">version {chosen.version}</Anchor>
          </>
        )
        : "A saved one, or any id of Gymnasium"}
      inputWrapperOrder={["label", "input", "error", "description"]}
      data={[
        ...(names.size ? [{ group: "Saved", items: [...names] }] : []),
        { group: "Gymnasium", items: GYMNASIUM_IDS.filter((id) => !names.has(id)) },
      ]}
      limit={30}
      value={form.environment}
      onChange={(environment) => change({ environment })}
      error={problems.environment}
    />
  );
}

function TrainingFields({ form, change, problems }: FieldsProps) {
  const field = (
    name:
      | "total_timesteps"
      | "n_envs"
      | "seed"
      | "device"
      | "evaluation_interval"
      | "evaluation_episodes"
      | "checkpoint_interval"
      | "seeds",
    label: string,
    placeholder: string,
    description?: string,
  ) => (
    <TextInput
      label={label}
      description={description}
      inputWrapperOrder={["label", "input", "error", "description"]}
      placeholder={placeholder}
      inputMode={name === "device" ? undefined : "numeric"}
      value={form[name]}
      onChange={({ currentTarget }) => change({ [name]: currentTarget.value })}
      error={problems[name]}
      autoComplete="off"
    />
  );
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, lg: 3 }} spacing="sm">
      {field("total_timesteps", "Timesteps", "100000", "Of all environments together")}
      {field("n_envs", "Environments at once", "1")}
      {field("seed", "Seed", "None", "The same seed trains the same, on the same machine")}
      {field("seeds", "Runs with seeds of their own", "1", "More than one is a sweep, from this seed on")}
      {field("evaluation_interval", "Evaluate every", "A tenth of the run", "Timesteps; 0 is only at the end")}
      {field("evaluation_episodes", "Episodes of an evaluation", "10")}
      {field("checkpoint_interval", "Checkpoint every", "A tenth of the run", "Timesteps; 0 is only at the end")}
      <Select
        label="Policy"
        placeholder="The one that fits the observations"
        data={ALGORITHMS[form.algorithm!]!.policies}
        value={form.policy || null}
        onChange={(policy) => change({ policy: policy ?? "" })}
        clearable
        clearButtonProps={{ "aria-label": "The policy that fits" }}
      />
      {field("device", "Device", "auto", "cpu, cuda, cuda:1, …")}
      <Switch
        label="Normalize observations and rewards"
        description="With VecNormalize"
        checked={form.normalize}
        onChange={({ currentTarget }) => change({ normalize: currentTarget.checked })}
      />
    </SimpleGrid>
  );
}
