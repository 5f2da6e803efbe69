/** Make a draft of an environment from a page, such as a paper. */
import { Alert, Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useNavigate } from "react-router";
import { importEnvironment } from "@/api/environments.ts";
import { refresher } from "@/live/query.ts";

export function ImportDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [url, setUrl] = useState("");
  const isAddress = /^https?:\/\/\S+$/.test(url.trim());
  const read = useMutation<string, Error>({
    mutationFn: () => importEnvironment(url.trim()),
    onSuccess: (id) => {
      refresher.everything();
      void navigate(`/environments/${id}`);
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
