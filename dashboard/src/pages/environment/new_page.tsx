/** A new environment. */
import { Button, Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { addEnvironment, type Spec } from "@/api/environments.ts";
import { useWhyNot } from "@/auth/session.tsx";
import { PageHead, Section } from "@/components/page.tsx";
import { refresher } from "@/live/query.ts";
import { useView } from "@/view/url_state.ts";
import { problemsOf, SpecEditor } from "./editor.tsx";
import { parseSpec, specText, STARTS } from "./spec_text.ts";

export default function NewEnvironmentPage() {
  const navigate = useNavigate();
  const byRole = useWhyNot();
  const [view, change] = useView({ kind: "grid" });
  const kind = view.kind in STARTS ? view.kind : "grid";
  const [name, setName] = useState("");
  const [texts, setTexts] = useState<Record<string, string>>({});
  const text = texts[kind] ?? specText(STARTS[kind]);
  const { spec, error } = parseSpec(text);
  const problem = problemsOf(kind, spec)[0];
  const whyNot = byRole ??
    (!name.trim()
      ? "Give it a name."
      : error
      ? "The spec is not JSON."
      : problem
      ? `Mend ${problem.field} first.`
      : null);
  const save = useMutation<string, Error>({
    mutationFn: () => addEnvironment({ name: name.trim(), kind, spec: spec as Spec }),
    onSuccess: (id) => {
      refresher.everything();
      void navigate(`/environments/${id}`);
    },
    onError: (failure) => notifications.show({ color: "red", title: "Not saved", message: failure.message }),
  });
  return (
    <>
      <PageHead title="New environment" crumbs={[{ label: "Environments", to: "/environments" }]} />
      <Section title="What it is">
        <Stack gap="sm">
          <Group gap="sm" align="flex-end">
            <TextInput
              label="Name"
              description="Runs name it by this."
              style={{ flex: "1 1 220px" }}
              value={name}
              onChange={({ currentTarget }) => setName(currentTarget.value)}
              maxLength={500}
              data-autofocus
            />
            <SegmentedControl
              aria-label="Kind"
              data={[{ value: "grid", label: "Grid world" }, { value: "gymnasium", label: "Gymnasium" }]}
              value={kind}
              onChange={(value) => change({ kind: value })}
            />
          </Group>
          <SpecEditor kind={kind} text={text} change={(value) => setTexts((before) => ({ ...before, [kind]: value }))}>
            <Text size="sm" c="dimmed">A picture is made by an orchestrator after it is saved.</Text>
          </SpecEditor>
        </Stack>
        <Group gap="sm" mt="md">
          <Button onClick={() => save.mutate()} loading={save.isPending} disabled={whyNot !== null}>Save</Button>
          {whyNot && <Text size="sm" c="dimmed">{whyNot}</Text>}
        </Group>
      </Section>
    </>
  );
}
