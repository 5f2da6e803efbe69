/** Cancel, retry and delete: one rollout, or all that are selected. */
import { Alert, Button, type ButtonProps, Group, Modal, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { cancelRollouts, deleteRollouts, isRetryable, isUnfinished, retryRollouts } from "@/api/queue.ts";
import { useAccess } from "@/auth/session.tsx";
import { refresher } from "@/live/query.ts";
import { WriteButton } from "./write_button.tsx";

/** What has to be known of a rollout to tell what can be done with it. */
export interface Actionable {
  id: string;
  status: string;
  cancelling: boolean;
  owner_id: string | null;
}

type Action = "cancel" | "retry" | "delete";

const DONE: Record<Action, (count: string) => string> = {
  cancel: (count) => `${count} cancelled. What runs is stopped by its worker within seconds.`,
  retry: (count) => `${count} put back into the queue.`,
  delete: (count) => `${count} deleted. What runs is stopped first.`,
};
const CALLS: Record<Action, (ids: string[]) => Promise<unknown>> = {
  cancel: cancelRollouts,
  retry: retryRollouts,
  delete: deleteRollouts,
};

function counted(count: number): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? "rollout" : "rollouts"}`;
}

/** What can be done with these, of those that the person may change. */
export function possible(rollouts: Actionable[]): Record<Action, string[]> {
  const ids = (of: (rollout: Actionable) => boolean) => rollouts.filter(of).map(({ id }) => id);
  return {
    cancel: ids(({ status, cancelling }) => isUnfinished(status) && !cancelling),
    retry: ids(({ status }) => isRetryable(status)),
    delete: ids(() => true),
  };
}

interface Props extends ButtonProps {
  rollouts: Actionable[];
  onDone?: (action: Action) => void;
  /** Offer these alone. */
  only?: Action[];
}

/** The buttons for what can be done; where nothing is selected there are none. */
export function RolloutActions({ rollouts, onDone, only, ...style }: Props) {
  const { person } = useAccess();
  const [deleting, setDeleting] = useState(false);
  const run = useMutation<void, Error, { action: Action; ids: string[] }>({
    mutationFn: async ({ action, ids }) => void await CALLS[action](ids),
    onSuccess: (_nothing, { action, ids }) => {
      refresher.everything();
      notifications.show({ message: DONE[action](counted(ids.length)) });
      setDeleting(false);
      onDone?.(action);
    },
    onError: (error, { action }) => {
      if (action !== "delete") {
        notifications.show({ color: "red", title: `Could not ${action}`, message: error.message });
      }
    },
  });
  const mine = rollouts.filter(({ owner_id }) => person?.role === "admin" || owner_id === person?.id);
  const can = possible(mine);
  const wanted = possible(rollouts);
  const whyNot = mine.length === 0 ? "Only who asked for it, or an admin, may do this." : null;
  const label = (verb: string, ids: string[]) =>
    rollouts.length === 1 ? verb : `${verb} ${ids.length.toLocaleString("en-US")}`;
  const button = (action: Action, verb: string, press: (ids: string[]) => void) =>
    wanted[action].length > 0 && (only?.includes(action) ?? true) && (
      <WriteButton
        key={action}
        variant="default"
        size="compact-sm"
        {...style}
        whyNot={whyNot}
        loading={run.isPending && run.variables.action === action}
        onClick={() => press(can[action])}
      >
        {label(verb, whyNot ? wanted[action] : can[action])}
      </WriteButton>
    );
  return (
    <>
      {button("cancel", "Cancel", (ids) => run.mutate({ action: "cancel", ids }))}
      {button("retry", "Retry", (ids) => run.mutate({ action: "retry", ids }))}
      {button("delete", "Delete", () => setDeleting(true))}
      {deleting && (
        <ConfirmDelete
          count={can.delete.length}
          error={run.error}
          isBusy={run.isPending}
          onClose={() => setDeleting(false)}
          onConfirm={() => run.mutate({ action: "delete", ids: can.delete })}
        />
      )}
    </>
  );
}

function ConfirmDelete({ count, error, isBusy, onClose, onConfirm }: {
  count: number;
  error: Error | null;
  isBusy: boolean;
  onClose: () => void;
  onConfirm: () => void;
}) {
  return (
    <Modal opened onClose={onClose} title={`Delete ${counted(count)}?`} closeButtonProps={{ "aria-label": "Close" }}>
      <Stack>
        <Text size="sm">
          Turns, rewards and verdicts go with{" "}
          {count === 1 ? "it" : "them"}, and success rates change. This cannot be undone.
        </Text>
        {error && <Alert color="red" role="alert">{error.message}</Alert>}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} data-autofocus>Keep</Button>
          <Button color="red" loading={isBusy} onClick={onConfirm}>Delete</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
