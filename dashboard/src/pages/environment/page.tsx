/** The page of one environment: what it is, its versions, and the way to change it. */
import { Alert, Badge, Button, Group, Menu, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import {
  changeEnvironment,
  deleteEnvironment,
  type Environment,
  readEnvironment,
  type Spec,
  TRAINING_KINDS,
} from "@/api/environments.ts";
import { useAccess, useMayChange } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Ago, PageHead, Section } from "@/components/page.tsx";
import { WriteButton } from "@/components/queue/write_button.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { refresher, useLive } from "@/live/query.ts";
import { problemsOf, SaveBar, SpecEditor } from "./editor.tsx";
import { Preview } from "./preview.tsx";
import { parseSpec, specText } from "./spec_text.ts";
import { Versions } from "./versions.tsx";

export default function EnvironmentPage() {
  const { environmentId = "" } = useParams();
  const { person } = useAccess();
  const query = useLive(
    null,
    ["environment", environmentId],
    (signal) => readEnvironment(environmentId, signal),
    { enabled: person !== null },
  );
  if (!person) {
    return (
      <Empty title="Environments are for members">
        <SignInLink /> to see them.
      </Empty>
    );
  }
  return (
    <Found query={query} what="Reading the environment">
      {(environment) => <OneEnvironment key={environment.id} environment={environment} />}
    </Found>
  );
}

function isTrainable(kind: string | null): boolean {
  return (TRAINING_KINDS as readonly (string | null)[]).includes(kind);
}

function OneEnvironment({ environment }: { environment: Environment }) {
  const mayChange = useMayChange(environment.owner_id);
  const canTrain = isTrainable(environment.kind) && !environment.is_draft;
  return (
    <>
      <PageHead
        title={plain(environment.name)}
        crumbs={[{ label: "Environments", to: "/environments" }]}
        aside={
          <>
            {environment.is_draft && <Badge color="orange" variant="light">draft</Badge>}
            {canTrain && (
              <Button
                component={Link}
                to={`/runs/new?${new URLSearchParams({ environment: environment.name })}`}
                size="xs"
              >
                Train in it
              </Button>
            )}
            {mayChange && <Delete environment={environment} />}
          </>
        }
      >
        <Text size="sm" c="dimmed">
          {environment.kind ?? "no kind"} · version {environment.version} · changed{" "}
          <Ago time={environment.updated_at} />
          {" · "}
          <Link to={`/runs?${new URLSearchParams({ environment: environment.name })}`}>runs in it</Link>
        </Text>
      </PageHead>
      <Stack gap="md">
        {environment.is_draft && <Draft environment={environment} mayChange={mayChange} />}
        <Edited key={environment.version} environment={environment} mayChange={mayChange} />
      </Stack>
    </>
  );
}

function Draft({ environment, mayChange }: { environment: Environment; mayChange: boolean }) {
  const { spec } = environment;
  const problems = problemsOf(environment.kind, spec as Spec);
  const confirm = useMutation<void, Error>({
    mutationFn: () => changeEnvironment(environment.id, { is_draft: false }),
    onSuccess: () => refresher.everything(),
    onError: (error) => notifications.show({ color: "red", title: "Not confirmed", message: error.message }),
  });
  const whyNot = !mayChange
    ? "Only its owner, or an admin, may do this."
    : problems.length > 0
    ? `First mend ${problems[0]!.field}.`
    : null;
  return (
    <Alert color="orange" title="A draft, to be confirmed by a person" role="note">
      <Group justify="space-between" gap="sm">
        <Text size="sm">
          It was made from{" "}
          {environment.source ? <span className="om-mono">{plain(environment.source)}</span> : "another source"}:
          compare it, change what is wrong, then confirm it. Runs can train in it after that.
        </Text>
        <WriteButton size="xs" loading={confirm.isPending} whyNot={whyNot} onClick={() => confirm.mutate()}>
          Confirm
        </WriteButton>
      </Group>
    </Alert>
  );
}

/** The editor; a new version from elsewhere starts it anew. */
function Edited({ environment, mayChange }: { environment: Environment; mayChange: boolean }) {
  const saved = {
    name: environment.name,
    description: environment.description ?? "",
    text: specText(environment.spec),
  };
  const [form, setForm] = useState(saved);
  const { spec, error } = parseSpec(form.text);
  const problems = problemsOf(environment.kind, spec);
  const isDirty = (Object.keys(saved) as (keyof typeof saved)[]).some((field) => form[field] !== saved[field]);
  const whyNot = error
    ? "The spec is not JSON."
    : problems.length > 0
    ? `Mend ${problems[0]!.field} first.`
    : !form.name.trim()
    ? "Give it a name."
    : null;
  const save = useMutation<void, Error>({
    mutationFn: () =>
      changeEnvironment(environment.id, {
        name: form.name.trim(),
        description: form.description.trim() || null,
        spec: spec as Spec,
      }),
    onSuccess: () => {
      refresher.everything();
      notifications.show({ message: "Saved." });
    },
    onError: (problem) => notifications.show({ color: "red", title: "Not saved", message: problem.message }),
  });
  return (
    <>
      <Section title={mayChange ? "Edit" : "Spec"}>
        <Stack gap="sm">
          {mayChange && (
            <Group gap="sm" grow align="flex-start">
              <TextInput
                label="Name"
                value={form.name}
                onChange={({ currentTarget: { value } }) => setForm((before) => ({ ...before, name: value }))}
                maxLength={500}
                error={form.name.trim() ? null : "a name is expected"}
              />
              <Textarea
                label="Description"
                autosize
                minRows={1}
                maxRows={4}
                value={form.description}
                onChange={({ currentTarget: { value } }) => setForm((before) => ({ ...before, description: value }))}
              />
            </Group>
          )}
          {!mayChange && environment.description && <Text size="sm">{plain(environment.description)}</Text>}
          <SpecEditor
            kind={environment.kind}
            text={form.text}
            change={(text) => setForm((before) => ({ ...before, text }))}
            isReadOnly={!mayChange}
          >
            <Preview of={environment} />
          </SpecEditor>
        </Stack>
        {mayChange && (
          <SaveBar
            {...{ whyNot, isDirty }}
            isSaving={save.isPending}
            save={() => save.mutate()}
            reset={() => setForm(saved)}
            label={form.text === saved.text ? "Save" : `Save as version ${environment.version + 1}`}
          />
        )}
      </Section>
      <Versions
        environment={environment}
        use={mayChange ? (old) => setForm((before) => ({ ...before, text: specText(old) })) : null}
      />
    </>
  );
}

function Delete({ environment }: { environment: Environment }) {
  const navigate = useNavigate();
  const remove = useMutation<void, Error>({
    mutationFn: () => deleteEnvironment(environment.id),
    onSuccess: () => {
      refresher.everything();
      void navigate("/environments");
    },
    onError: (error) => notifications.show({ color: "red", title: "Not deleted", message: error.message }),
  });
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button size="xs" variant="default" loading={remove.isPending}>Delete…</Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item color="red" onClick={() => remove.mutate()}>Delete it and all its versions</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
