/** Ask for rollouts of tasks: one, many, or a batch over a selection. */
import {
  Alert,
  Anchor,
  Autocomplete,
  Button,
  Code,
  Collapse,
  Group,
  Modal,
  NumberInput,
  SimpleGrid,
  Stack,
  Switch,
  Text,
} from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";
import { Link, useNavigate } from "react-router";
import { queueOverview, requestChoices, type Requested, requestRollouts } from "@/api/queue.ts";
import { plain } from "@/components/agent_text.tsx";
import { refresher, useLive } from "@/live/query.ts";
import { number, shortId } from "@/view/format.ts";
import { AGENTS, EMPTY, type Form, LIMITS, type Problems, problemsOf, requestOf } from "./request.ts";

export interface RequestedTask {
  id: string;
  label: string;
}

interface Props {
  tasks: RequestedTask[];
  onClose: () => void;
}

const LISTED_REUSED = 20;

export function NewRollouts({ tasks, onClose }: Props) {
  return (
    <Modal
      opened
      onClose={onClose}
      title={tasks.length === 1 ? "New rollout" : `New rollouts of ${number(tasks.length)} tasks`}
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <RequestForm tasks={tasks} onClose={onClose} />
    </Modal>
  );
}

/** Where to watch what was made: one on its own page, several together. */
function placeOf({ rollouts, reused }: Requested): string | null {
  const earlier = new Set(reused);
  const made = rollouts.filter(({ id }) => !earlier.has(id));
  if (made.length === 0) return null;
  if (made.length === 1) return `/rollouts/${made[0]!.id}`;
  return `/queue/watch?${new URLSearchParams({ at: made[0]!.created_at })}`;
}

function RequestForm({ tasks, onClose }: Props) {
  const navigate = useNavigate();
  const [form, setForm] = useState<Form>(EMPTY);
  // Asking again after a lost answer makes nothing twice; another form is another request.
  const requestId = useRef(crypto.randomUUID());
  const change = (changes: Partial<Form>) => {
    requestId.current = crypto.randomUUID();
    setForm((before) => ({ ...before, ...changes }));
  };
  const problems = problemsOf(form, tasks.length);
  const hasProblems = Object.keys(problems).length > 0;
  const request = useMutation<Requested, Error>({
    mutationFn: () => requestRollouts(requestOf(form, tasks.map(({ id }) => id)), requestId.current),
    onSuccess: (made) => {
      refresher.everything();
      const place = placeOf(made);
      if (made.reused.length > 0 || place === null) return;
      const count = made.rollouts.length;
      notifications.show({
        message: `${number(count)} ${count === 1 ? "rollout waits" : "rollouts wait"} in the queue.`,
      });
      onClose();
      void navigate(place);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!hasProblems) request.mutate();
  };
  if (request.data) return <Made made={request.data} onClose={onClose} />;
  const total = tasks.length * Number(form.attempts);
  return (
    <form onSubmit={submit} noValidate>
      <Stack gap="sm">
        <Tasks tasks={tasks} />
        <Fields form={form} change={change} problems={problems} />
        {request.error && <Alert color="red" role="alert" title="Nothing was made">{request.error.message}</Alert>}
        <NoWorker />
        <Group justify="space-between">
          <Text size="sm" c="dimmed" role="status">
            {!problems.attempts && tasks.length > 1 &&
              `${number(tasks.length)} tasks × ${number(Number(form.attempts))} = ${number(total)} rollouts`}
          </Text>
          <Group gap="xs">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={request.isPending} disabled={hasProblems}>
              {hasProblems ? "Start" : `Start ${number(total)} ${total === 1 ? "rollout" : "rollouts"}`}
            </Button>
          </Group>
        </Group>
      </Stack>
    </form>
  );
}

function Tasks({ tasks }: { tasks: RequestedTask[] }) {
  const named = tasks.slice(0, 3).map(({ label }) => plain(label.slice(0, 120))).join("; ");
  return (
    <Text size="sm" lineClamp={3}>
      {named}
      {tasks.length > 3 && ` and ${number(tasks.length - 3)} more`}
    </Text>
  );
}

interface FieldsProps {
  form: Form;
  change: (changes: Partial<Form>) => void;
  problems: Problems;
}

const LIMIT_LABELS: Record<(typeof LIMITS)[number], string> = {
  max_steps: "Steps",
  max_seconds: "Seconds",
  max_tokens: "Tokens",
  max_cost_usd: "Cost in USD",
};

function Fields({ form, change, problems }: FieldsProps) {
  const choices = useLive("*", ["request-choices"], requestChoices).data;
  const [hasLimits, setLimits] = useState(false);
  const agents = [...new Set([...AGENTS, ...(choices?.agents ?? [])])];
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        <Autocomplete
          label="Agent"
          placeholder="As the task says, else chat"
          data={agents}
          value={form.agent}
          onChange={(agent) => change({ agent })}
          error={problems.agent}
        />
        <Autocomplete
          label="Model"
          placeholder="The agent’s default"
          data={choices?.models ?? []}
          value={form.model}
          onChange={(model) => change({ model })}
        />
        <Autocomplete
          label="Environment"
          placeholder="The task’s own"
          data={choices?.environments.map(({ name }) => name) ?? []}
          value={form.environment}
          onChange={(environment) => change({ environment })}
        />
        <SimpleGrid cols={2} spacing="sm">
          <NumberInput
            label="Attempts"
            min={1}
            max={1000}
            clampBehavior="none"
            value={form.attempts}
            onChange={(attempts) => change({ attempts })}
            error={problems.attempts}
            // Not the agent: its suggestions would cover the form.
            data-autofocus
          />
          <NumberInput
            label="Priority"
            min={-1000}
            max={1000}
            clampBehavior="none"
            value={form.priority}
            onChange={(priority) => change({ priority })}
            error={problems.priority}
          />
        </SimpleGrid>
      </SimpleGrid>
      <div>
        <Anchor
          component="button"
          type="button"
          size="sm"
          aria-expanded={hasLimits}
          onClick={() => setLimits(!hasLimits)}
        >
          {hasLimits ? "Limits" : "Limits…"}
        </Anchor>
        <Collapse expanded={hasLimits}>
          <SimpleGrid cols={{ base: 2, xs: 4 }} spacing="sm" mt={6}>
            {LIMITS.map((name) => (
              <NumberInput
                key={name}
                label={LIMIT_LABELS[name]}
                placeholder="None"
                min={0}
                clampBehavior="none"
                value={form.limits[name] ?? ""}
                onChange={(value) => change({ limits: { ...form.limits, [name]: value } })}
                error={problems[name]}
              />
            ))}
          </SimpleGrid>
        </Collapse>
      </div>
      <Switch
        label="Use earlier results"
        description="Rollouts of the same task, environment, agent and model that have ended answer in place of new ones."
        checked={form.reuse}
        onChange={({ currentTarget }) => change({ reuse: currentTarget.checked })}
      />
    </>
  );
}

/** Without a worker they would wait, and nobody would know why. */
function NoWorker() {
  const queue = useLive("*", ["queue", 0], (signal) => queueOverview(0, signal), { everyMs: 5_000 }).data;
  if (!queue || queue.health.active > 0) return null;
  return (
    <Text size="sm" c="dimmed">
      No worker is active now: they wait until someone starts <Code>openmanus-rl worker</Code>.
    </Text>
  );
}

/** Some were answered by earlier ones: which. */
function Made({ made, onClose }: { made: Requested; onClose: () => void }) {
  const fresh = made.rollouts.length - made.reused.length;
  const place = placeOf(made);
  return (
    <Stack gap="sm">
      <Alert color="green" role="status" title={`${number(made.reused.length)} answered by earlier results`}>
        {fresh === 0
          ? "Nothing new has to run."
          : `${number(fresh)} new ${fresh === 1 ? "one waits" : "ones wait"} in the queue.`}
      </Alert>
      <Text size="sm">
        Earlier: {made.reused.slice(0, LISTED_REUSED).map((id) => (
          <span key={id}>
            <Link to={`/rollouts/${id}`} onClick={onClose}>{shortId(id)}</Link>
            {" "}
          </span>
        ))}
        {made.reused.length > LISTED_REUSED && `and ${number(made.reused.length - LISTED_REUSED)} more`}
      </Text>
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>Close</Button>
        {place && <Button component={Link} to={place} onClick={onClose}>Watch the new ones</Button>}
      </Group>
    </Stack>
  );
}
