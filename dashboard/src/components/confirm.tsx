/** A question before something that cannot be undone. */
import { Alert, Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";

export interface Question {
  title: string;
  text: ReactNode;
  action: string;
  run: () => Promise<void>;
}

export function Confirm({ question, onClose }: { question: Question; onClose: () => void }) {
  const { mutate, isPending, error } = useMutation<void, Error>({ mutationFn: question.run, onSuccess: onClose });
  return (
    <Modal opened onClose={onClose} title={question.title} closeButtonProps={{ "aria-label": "Close" }}>
      <Stack>
        <Text size="sm">{question.text}</Text>
        {error && <Alert color="red" role="alert">{error.message}</Alert>}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} data-autofocus>Cancel</Button>
          <Button color="red" loading={isPending} onClick={() => mutate()}>{question.action}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
