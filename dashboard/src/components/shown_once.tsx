/** A secret that is shown once: a key, or a link. */
import { Alert, Button, Code, CopyButton, Group, Modal, Stack, Text } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import type { ReactNode } from "react";

export interface Secret {
  title: string;
  text: string;
  children: ReactNode;
}

export function ShownOnce({ secret, onClose }: { secret: Secret; onClose: () => void }) {
  return (
    <Modal
      opened
      onClose={onClose}
      title={secret.title}
      size="lg"
      // It is gone when this closes: a click beside it must not.
      closeOnClickOutside={false}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Stack>
        <Text size="sm" component="div">{secret.children}</Text>
        <Code block className="om-secret" aria-label={secret.title}>{secret.text}</Code>
        <Alert color="orange" variant="light" py="xs">It is shown only now. Copy it before you close this.</Alert>
        <Group justify="flex-end">
          <CopyButton value={secret.text}>
            {({ copied, copy }) => (
              <Button
                variant="default"
                leftSection={copied ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />}
                onClick={copy}
              >
                {copied ? "Copied" : "Copy"}
              </Button>
            )}
          </CopyButton>
          <Button onClick={onClose}>Done</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
