/** Archived runs: how they are marked, and how what is in the archive is read. */
import { Alert, Badge, Button, Center, Code, Stack, Text } from "@mantine/core";
import { IconArchive } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { loadArchive, type Loaded } from "@/api/archives.ts";
import { useAccess } from "@/auth/session.tsx";

export function ArchivedBadge({ status }: { status: string | null }) {
  if (status === null) return null;
  const [label, hint] = status === "archived"
    ? ["archived", "Its turns and metric points are in Parquet files in storage"]
    : ["archiving", "Its turns and metric points are being copied to storage; it takes no new ones"];
  return (
    <Badge
      size="xs"
      variant="light"
      color="gray"
      c="dimmed"
      style={{ flexShrink: 0 }}
      leftSection={<IconArchive size={11} aria-hidden />}
      title={hint}
    >
      {label}
    </Badge>
  );
}

interface Props {
  title: string;
  what: Parameters<typeof loadArchive>[0];
  /** Called when it was loaded, to read it. */
  onLoaded: () => void;
  /** What is said where the archive holds nothing either. */
  nothing: ReactNode;
  children: ReactNode;
}

/** In place of what is in the archive, with a button that loads it. */
export function LoadFromArchive({ title, what, onLoaded, nothing, children }: Props) {
  const { person } = useAccess();
  const loading = useMutation<Loaded, Error>({ mutationFn: () => loadArchive(what), onSuccess: onLoaded });
  if (loading.data && Object.values(loading.data).every((rows) => rows === 0)) return nothing;
  return (
    <Center py="xl" px="md">
      <Stack align="center" gap="xs" maw={560} ta="center">
        <IconArchive size={36} stroke={1.4} aria-hidden />
        <Text fw={600}>{title}</Text>
        <Text component="div" c="dimmed" size="sm">{children}</Text>
        {person?.role
          ? <Button size="sm" onClick={() => loading.mutate()} loading={loading.isPending}>Load from archive</Button>
          : <Text size="sm">Members can load it: sign in.</Text>}
        {loading.error && (
          <Alert color="red" role="alert" title="It could not be loaded">
            {loading.error.message}
          </Alert>
        )}
        <Text c="dimmed" size="xs">
          What is loaded stays for about a day; <Code>openmanus-rl archive restore</Code> brings all of the run back.
        </Text>
      </Stack>
    </Center>
  );
}
