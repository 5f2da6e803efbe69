/** Launch a run: where, with what, and the task as SkyPilot is given it, to read before. */
import { Alert, Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { previewJob, requestJob } from "@/api/jobs.ts";
import { Copy, plain } from "@/components/agent_text.tsx";
import { WriteButton } from "@/components/queue/write_button.tsx";
import { refresher, useLive } from "@/live/query.ts";
import classes from "./jobs.module.css";
import { EMPTY_LAUNCH, jobConfigOf, type LaunchForm, launchFormOf } from "./launch_form.ts";
import { LaunchFields } from "./launch_fields.tsx";
import { NoOrchestrator } from "./no_orchestrator.tsx";

interface Props {
  runId: string;
  /** The configuration of an earlier job of the run. */
  before?: unknown;
  onClose: () => void;
}

const TYPING_MS = 300;

export function LaunchDialog({ runId, before, onClose }: Props) {
  return (
    <Modal opened onClose={onClose} title="Launch" size="xl" closeButtonProps={{ "aria-label": "Close" }}>
      <LaunchBody {...{ runId, before, onClose }} />
    </Modal>
  );
}

function LaunchBody({ runId, before, onClose }: Props) {
  const [form, setForm] = useState<LaunchForm>(() => before ? launchFormOf(before) : EMPTY_LAUNCH);
  // Asking again after a lost answer launches nothing twice.
  const jobId = useRef(crypto.randomUUID());
  const config = useMemo(() => jobConfigOf(form), [form]);
  const [settled] = useDebouncedValue(config, TYPING_MS);
  const preview = useLive(runId, ["job preview", runId, settled], (signal) => previewJob(runId, settled, signal), {
    keep: true,
  });
  const launch = useMutation<unknown, Error>({
    mutationFn: () => requestJob(runId, config, jobId.current),
    onSuccess: () => {
      refresher.everything();
      notifications.show({ message: "The job waits for an orchestrator." });
      onClose();
    },
  });
  const problem = launch.error ?? preview.error;
  return (
    <Stack gap="sm">
      <LaunchFields form={form} change={(changes) => setForm((last) => ({ ...last, ...changes }))} />
      {problem && <Alert color="red" role="alert" title="It cannot be launched like this">{problem.message}</Alert>}
      <NoOrchestrator backend={form.backend} />
      <Task yaml={preview.data?.yaml} isLocal={form.backend === "local"} />
      <Group justify="flex-end" gap="xs">
        <Button variant="default" onClick={onClose}>Cancel</Button>
        <WriteButton onClick={() => launch.mutate()} loading={launch.isPending} disabled={preview.error !== null}>
          Launch
        </WriteButton>
      </Group>
    </Stack>
  );
}

export function Task({ yaml, isLocal }: { yaml: string | null | undefined; isLocal: boolean }) {
  if (!yaml) return null;
  return (
    <div>
      <Group justify="space-between" gap="xs">
        <Text size="sm" fw={550}>
          {isLocal ? "The task, as SkyPilot would be given it" : "The task that SkyPilot is given"}
        </Text>
        <Copy text={yaml} what="Copy the YAML" />
      </Group>
      {isLocal && (
        <Text size="xs" c="dimmed">A local job runs the same program with the same variables, without setup.</Text>
      )}
      <pre className={classes.yaml} tabIndex={0} aria-label="YAML of the task">{plain(yaml)}</pre>
    </div>
  );
}
