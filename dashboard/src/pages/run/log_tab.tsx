/** The end of a log file of the run, kept up to date while the run goes on. */
import { Button, Code, Group, Select, Switch, Text } from "@mantine/core";
import { useInterval } from "@mantine/hooks";
import { IconDownload } from "@tabler/icons-react";
import { useEffect, useRef } from "react";
import { listFiles, readTail, saveFile, type StoredFile } from "@/api/files.ts";
import type { Run } from "@/api/run.ts";
import { plain } from "@/components/agent_text.tsx";
import { Ago } from "@/components/page.tsx";
import { Empty, Failed, Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { bytes } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { terminalLines } from "./job/log_window.ts";
import { NothingYet } from "./nothing_yet.tsx";
import classes from "./page.module.css";
import { told } from "./told.ts";

const BUCKET = "logs";
const TAIL_BYTES = 64 * 1024;
/** An upload marks no change of the run: look now and then. */
const LOOK_AGAIN_MS = 4_000;

export function LogTab({ run }: { run: Run }) {
  const query = useLive(run.id, ["log files", run.id], () => listFiles(BUCKET, run.id, { newestFirst: true }));
  const isRunning = run.shown_status === "running" || run.shown_status === "stalled";
  useInterval(
    () => {
      if (isRunning && !document.hidden) void query.refetch();
    },
    LOOK_AGAIN_MS,
    { autoInvoke: true },
  );
  return (
    <Found query={query} what="Reading the logs">
      {(found) => {
        const files = found.filter((file) => !file.isFolder);
        if (files.length) return <Logs run={run} files={files} isRunning={isRunning} />;
        return (
          <NothingYet runId={run.id} title="No logs yet" trained="What a job prints is on the tab Job.">
            Upload one, again and again while it grows:{" "}
            <Code>StorageManager.upload_log("{run.id}", "train", "train.log")</Code>
          </NothingYet>
        );
      }}
    </Found>
  );
}

function Logs({ run, files, isRunning }: { run: Run; files: StoredFile[]; isRunning: boolean }) {
  const [view, change] = useView({ file: null as string | null, follow: true as boolean });
  const file = files.find(({ name }) => name === view.file) ?? files[0]!;
  return (
    <>
      <Group mb="xs" gap="8px 16px">
        <Select
          size="xs"
          w={280}
          aria-label="Log file"
          allowDeselect={false}
          searchable={files.length > 10}
          data={files.map(({ name }) => ({ value: name, label: plain(name) }))}
          value={file.name}
          onChange={(name) => change({ file: name })}
        />
        <Switch
          label="Follow"
          checked={view.follow}
          onChange={(event) => change({ follow: event.currentTarget.checked })}
        />
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconDownload size={14} aria-hidden />}
          onClick={() => void told(saveFile(BUCKET, `${run.id}/${file.name}`))}
        >
          Download
        </Button>
        <Text size="sm" c="dimmed">
          {(file.size ?? 0) > TAIL_BYTES ? `The last ${bytes(TAIL_BYTES)} of ${bytes(file.size)}` : bytes(file.size)},
          changed <Ago time={file.updatedAt} />
          {isRunning && ", looked at again every few seconds"}
        </Text>
      </Group>
      <Tail key={file.name} path={`${run.id}/${file.name}`} file={file} follow={view.follow} runId={run.id} />
    </>
  );
}

const PACKED = /\.(gz|zip|zst|bz2|xz)$/i;

function Tail({ path, file, follow, runId }: { path: string; file: StoredFile; follow: boolean; runId: string }) {
  const isPacked = PACKED.test(file.name);
  const query = useLive(
    runId,
    ["log tail", path, file.size, file.updatedAt],
    (signal) => readTail(BUCKET, path, file.size ?? 0, TAIL_BYTES, signal),
    { keep: true, enabled: !isPacked },
  );
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (follow && place.current) place.current.scrollTop = place.current.scrollHeight;
  }, [query.data, follow]);
  if (isPacked) return <Empty title="This log is compressed">Download it to read it.</Empty>;
  if (query.error && query.data === undefined) return <Failed error={query.error} retry={() => void query.refetch()} />;
  return (
    <div ref={place} className={classes.log} role="region" aria-label="End of the log" tabIndex={0}>
      <pre className="om-agent-text" data-agent-text>{plain(terminalLines(query.data ?? "").join("\n"))}</pre>
      {query.data === "" && <Text size="sm" c="dimmed">The file is empty.</Text>}
    </div>
  );
}
