import { Button, Code, Group, Stack, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { saveFile } from "@/api/files.ts";
import { type Checkpoint, type CheckpointResult, nextCheckpointPage, readCheckpoints, type Run } from "@/api/run.ts";
import { plain } from "@/components/agent_text.tsx";
import { Ago } from "@/components/page.tsx";
import { Failed, Loading } from "@/components/states.tsx";
import { useLivePages } from "@/live/query.ts";
import { bytes, type Double, number, percent, UNKNOWN } from "@/view/format.ts";
import { type Column, Listing, moreOf } from "./listing.tsx";
import { NothingYet } from "./nothing_yet.tsx";
import { told } from "./told.ts";

const BUCKET = "model-checkpoints";
const MOST_METRICS = 6;

export function CheckpointsTab({ run }: { run: Run }) {
  const query = useLivePages(
    run.id,
    ["run checkpoints", run.id],
    (before: number | null, signal) => readCheckpoints(run.id, before, signal),
    nextCheckpointPage,
  );
  if (!query.data) {
    return query.error
      ? <Failed error={query.error} retry={() => void query.refetch()} />
      : <Loading what="Reading the checkpoints" />;
  }
  const checkpoints = query.data.pages.flatMap((page) => page.checkpoints);
  const results = query.data.pages.flatMap((page) => page.results);
  if (!checkpoints.length) {
    return (
      <NothingYet
        runId={run.id}
        title="No checkpoints yet"
        trained="One is saved after each tenth of the training, unless the configuration says otherwise."
      >
        Save one, with its weights if they should be kept here:{" "}
        <Code>run.log_checkpoint(1, step=0, file="checkpoint.pt")</Code>
      </NothingYet>
    );
  }
  return (
    <Listing
      label="Checkpoints"
      columns={columns(results)}
      rows={checkpoints}
      keyOf={(checkpoint) => checkpoint.id}
      more={moreOf(query)}
    />
  );
}

function columns(results: CheckpointResult[]): Column<Checkpoint>[] {
  return [
    { label: "Number", isNumber: true, show: (one) => number(one.checkpoint_number) },
    { label: "Step", isNumber: true, show: (one) => number(one.step) },
    { label: "Size", isNumber: true, show: (one) => bytes(one.size_bytes) },
    { label: "Saved", show: (one) => <Ago time={one.created_at} /> },
    { label: "Metrics", isWide: true, show: (one) => <Metrics metrics={one.metrics} /> },
    {
      label: "Evaluation results",
      isWide: true,
      show: (one) => <Results results={results.filter((result) => result.checkpoint_id === one.id)} />,
    },
    {
      label: "File",
      show: (one) => <Save path={one.storage_path} label={`Download checkpoint ${one.checkpoint_number}`} />,
    },
  ];
}

function Metrics({ metrics }: { metrics: unknown }) {
  const entries = metrics && typeof metrics === "object" ? Object.entries(metrics) : [];
  if (!entries.length) return UNKNOWN;
  return (
    <Group gap="2px 12px">
      {entries.slice(0, MOST_METRICS).map(([name, value]) => (
        <Text key={name} size="sm" span>
          <Text span c="dimmed" size="sm">{plain(name)}</Text>{" "}
          {typeof value === "number" ? number(value) : plain(JSON.stringify(value)).slice(0, 60)}
        </Text>
      ))}
      {entries.length > MOST_METRICS && <Text size="sm" c="dimmed" span>and {entries.length - MOST_METRICS} more</Text>}
    </Group>
  );
}

function Results({ results }: { results: CheckpointResult[] }) {
  if (!results.length) return UNKNOWN;
  return (
    <Stack gap={0}>
      {results.map((result) => (
        <Text key={result.id} size="sm">
          <Text span c="dimmed" size="sm">{plain(result.environment)}</Text> {percent(result.success_rate)}
          {result.mean_reward !== null && `, reward ${number(result.mean_reward as Double)}`}
          {result.episode_count !== null && ` (${number(result.episode_count)} episodes)`}
        </Text>
      ))}
    </Stack>
  );
}

function Save({ path, label }: { path: string | null; label: string }) {
  if (!path) return <Text size="sm" c="dimmed">not kept here</Text>;
  return (
    <Button
      size="compact-xs"
      variant="default"
      leftSection={<IconDownload size={14} aria-hidden />}
      aria-label={label}
      onClick={() => void told(saveFile(BUCKET, path))}
    >
      Download
    </Button>
  );
}
