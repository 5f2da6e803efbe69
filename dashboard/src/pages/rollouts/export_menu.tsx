import { Alert, Button, Group, Menu, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useEffect, useRef, useState } from "react";
import type { FoundRollout, RolloutFilters } from "@/api/rollouts.ts";
import { number } from "@/view/format.ts";
import { type Exported, type Format, MOST_ROWS, saveAll, saveRows } from "./export.ts";

type State =
  | { kind: "working" | "done"; exported: Exported }
  | { kind: "failed"; message: string }
  | null;

/** Exports of one list: at most one at a time; another list cancels it. */
export function useExport(filters: RolloutFilters) {
  const [state, setState] = useState<State>(null);
  const abort = useRef<AbortController | null>(null);
  const key = JSON.stringify(filters);
  useEffect(() => () => {
    abort.current?.abort();
    setState(null);
  }, [key]);

  const start = async (format: Format) => {
    abort.current?.abort();
    const { signal } = abort.current = new AbortController();
    const onProgress = (exported: Exported) => setState({ kind: "working", exported });
    onProgress({ rows: 0, searched: 0, isCut: false });
    try {
      const exported = await saveAll(filters, format, onProgress, signal);
      setState({ kind: "done", exported });
    } catch (error) {
      setState(signal.aborted ? null : { kind: "failed", message: (error as Error).message });
    }
  };
  return { state, start, cancel: () => abort.current?.abort(), close: () => setState(null) };
}

export type Exporting = ReturnType<typeof useExport>;

export function ExportMenu({ rows, exporting }: { rows: FoundRollout[]; exporting: Exporting }) {
  const isBusy = exporting.state?.kind === "working";
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button size="xs" variant="default" leftSection={<IconDownload size={14} aria-hidden />}>Export</Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>The {number(rows.length)} shown</Menu.Label>
        <Menu.Item onClick={() => saveRows(rows, "csv")}>Shown as CSV</Menu.Item>
        <Menu.Item onClick={() => saveRows(rows, "json")}>Shown as JSON</Menu.Item>
        <Menu.Divider />
        <Menu.Label>All that match, up to {number(MOST_ROWS)}</Menu.Label>
        <Menu.Item disabled={isBusy} onClick={() => void exporting.start("csv")}>All as CSV</Menu.Item>
        <Menu.Item disabled={isBusy} onClick={() => void exporting.start("json")}>All as JSON</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

export function ExportProgress({ exporting: { state, cancel, close } }: { exporting: Exporting }) {
  if (state === null) return null;
  if (state.kind === "failed") {
    return (
      <Alert color="red" role="alert" my="xs" withCloseButton closeButtonLabel="Close" onClose={close}>
        The export did not finish and nothing was saved: {state.message}
      </Alert>
    );
  }
  const { rows, searched, isCut } = state.exported;
  const isDone = state.kind === "done";
  return (
    <Group className="om-tile" gap="sm" my="xs" role="status">
      <Text size="sm">
        {isDone ? `Saved ${number(rows)} rollouts.` : `Exporting: ${number(rows)} of ${number(searched)} searched…`}
        {isDone && isCut &&
          ` There are more than fit into one file: narrow the filters, for example by time, for the rest.`}
      </Text>
      <Button size="compact-xs" variant="default" onClick={isDone ? close : cancel}>
        {isDone ? "Close" : "Cancel"}
      </Button>
    </Group>
  );
}
