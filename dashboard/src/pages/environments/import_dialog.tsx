/** Make a draft of an environment from a page, such as a paper. */
import { Alert, Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useNavigate } from "react-router";
import { type Imported, importEnvironment } from "@/api/environments.ts";
import { plain } from "@/components/agent_text.tsx";
import { refresher } from "@/live/query.ts";

export function ImportDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [url, setUrl] = useState("");
  const isAddress = /^https?:\/\/\S+$/.test(url.trim());
  const read = useMutation<Imported, Error>({
    mutationFn: () => importEnvironment(url.trim()),
    onSuccess: ({ environment, warnings }) => {
      refresher.everything();
      if (warnings.length > 0) {
        notifications.show({ title: "Check the draft", message: plain(warnings.join("; ")), autoClose: false });
      }
      void navigate(`/environments/${environment.id}`);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isAddress) read.mutate();
  };
  return (
    <Modal opened onClose={onClose} title="Import an environment" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={submit} noValidate>
        <Stack gap="sm">
          <Text size="sm">
            The page is read with Firecrawl, and a draft is made of what it describes. You confirm the draft before runs
            can train in it.
          </Text>
          <TextInput
            label="Address of a paper or page"
            placeholder="https://arxiv.org/abs/…"
            type="url"
            value={url}
            onChange={({ currentTarget }) => setUrl(currentTarget.value)}
            error={url && !isAddress ? "an http or https address is expected" : null}
            data-autofocus
          />
          {read.error && <Alert color="red" role="alert" title="Nothing was imported">{read.error.message}</Alert>}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={read.isPending} disabled={!isAddress}>Import</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
