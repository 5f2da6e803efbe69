/** What a page shows when there is nothing, not yet, or no way. Each says what to do next. */
import { Alert, Button, Center, Code, Group, Loader, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { IconAlertTriangle, IconDatabaseOff } from "@tabler/icons-react";
import type { InfiniteData, UseInfiniteQueryResult, UseQueryResult } from "@tanstack/react-query";
import { Component, type ReactNode, useEffect, useState } from "react";
import { Link } from "react-router";
import { RequestError } from "@/supabase.ts";
import { CodeMissing, isReachable, reloadOnce } from "./lazy_page.ts";

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Center py="xl" px="md">
      <Stack align="center" gap="xs" maw={560} ta="center">
        <IconDatabaseOff size={36} stroke={1.4} aria-hidden />
        <Text fw={600}>{title}</Text>
        <Text component="div" c="dimmed" size="sm">{children}</Text>
      </Stack>
    </Center>
  );
}

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <Center py="xl" role="status" aria-label={what}>
      <Loader size="sm" />
    </Center>
  );
}

export function Failed({ error, retry }: { error: Error; retry?: () => void }) {
  const isOffline = error instanceof RequestError && error.isOffline;
  const isUnknown = error instanceof RequestError && error.isUnknown;
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle aria-hidden />}
      role="alert"
      my="md"
      title={isUnknown ? "Nothing here" : isOffline ? "The server does not answer" : "This could not be read"}
    >
      <Text size="sm">
        {isUnknown
          ? "There is nothing by this id, or you may not see it. Sign in, or ask its owner."
          : isOffline
          ? "It is read again as soon as the server answers."
          : error.message}
      </Text>
      {isOffline && (
        <Text size="sm" mt={4}>
          On the machine where it runs, <Code>openmanus-rl status</Code> says how it is.
        </Text>
      )}
      {retry && !isUnknown && <Button size="xs" mt="sm" color="red" variant="light" onClick={retry}>Try again</Button>}
    </Alert>
  );
}

/** Show what a query found, or what stands in the way. Old data stays while new data is read or fails. */
export function Found<T>({ query, children, what }: {
  query: UseQueryResult<T, Error>;
  children: (data: T) => ReactNode;
  what?: string;
}) {
  if (query.data !== undefined) return children(query.data);
  if (query.error) return <Failed error={query.error} retry={() => void query.refetch()} />;
  return <Loading what={what} />;
}

/** Show what was found of a list that is read page by page, with the way to more of it. */
export function FoundPages<Row>({ query, children, what }: {
  query: UseInfiniteQueryResult<InfiniteData<Row[]>, Error>;
  children: (rows: Row[]) => ReactNode;
  what?: string;
}) {
  if (!query.data) {
    return query.error ? <Failed error={query.error} retry={() => void query.refetch()} /> : <Loading what={what} />;
  }
  return (
    <>
      {children(query.data.pages.flat())}
      {query.hasNextPage && (
        <Group justify="center" my="md">
          <Button variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
    </>
  );
}

export function NotFound() {
  useDocumentTitle("No such page · OpenManus-RL");
  return (
    <Empty title="There is no such page">
      The address may be incomplete. <Link to="/runs">All runs</Link>
    </Empty>
  );
}

export function StartupError({ error }: { error: Error }) {
  return (
    <Center p="xl">
      <Stack maw={560}>
        <Title order={1} size="h3">The dashboard could not start</Title>
        <Alert color="red" role="alert">{error.message}</Alert>
        <Button onClick={() => location.reload()}>Try again</Button>
      </Stack>
    </Center>
  );
}

const ASK_AGAIN_MS = 2_000;

/** A page whose code did not come: it is loaded as soon as the server answers. */
function NotLoaded({ error }: { error: CodeMissing }) {
  const [isAway, setAway] = useState(true);
  useEffect(() => {
    const look = async () => {
      if (await isReachable() && !reloadOnce()) setAway(false);
    };
    void look();
    const timer = setInterval(() => void look(), ASK_AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return <Failed error={isAway ? RequestError.offline() : error} retry={() => location.reload()} />;
}

/** A mistake in one part of a page leaves the rest of it standing. */
export class Boundary extends Component<{ children: ReactNode; resetKey?: string }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override componentDidUpdate(before: { resetKey?: string }) {
    if (before.resetKey !== this.props.resetKey && this.state.error) this.setState({ error: null });
  }

  override render() {
    if (!this.state.error) return this.props.children;
    if (this.state.error instanceof CodeMissing) return <NotLoaded error={this.state.error} />;
    return <Failed error={this.state.error} retry={() => this.setState({ error: null })} />;
  }
}
