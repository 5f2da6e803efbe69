/** What lies in storage for the run, folder by folder. */
import { ActionIcon, Anchor, Breadcrumbs, Button, Code, Group, SegmentedControl, Text } from "@mantine/core";
import { IconDownload, IconFile, IconFolder } from "@tabler/icons-react";
import { FILES_PER_PAGE, listFiles, saveFile, type StoredFile } from "@/api/files.ts";
import type { Run } from "@/api/run.ts";
import { plain } from "@/components/agent_text.tsx";
import { Ago } from "@/components/page.tsx";
import { Empty, Failed, Loading } from "@/components/states.tsx";
import { useLivePages } from "@/live/query.ts";
import { bytes, UNKNOWN } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { type Column, Listing, moreOf } from "./listing.tsx";
import { told } from "./told.ts";

const BUCKETS = [
  { value: "logs", label: "Logs" },
  { value: "model-checkpoints", label: "Checkpoints" },
  { value: "media", label: "Media" },
];

export function FilesTab({ run }: { run: Run }) {
  const [view, change] = useView({ bucket: "logs", folder: "" });
  const bucket = BUCKETS.some(({ value }) => value === view.bucket) ? view.bucket : "logs";
  const parts = view.folder.split("/").filter(Boolean);
  const place = [run.id, ...parts].join("/");
  const query = useLivePages(
    run.id,
    ["run files", bucket, place],
    async (offset: number | null) => ({
      offset: offset ?? 0,
      files: await listFiles(bucket, place, { offset: offset ?? 0 }),
    }),
    (page) => (page.files.length < FILES_PER_PAGE ? null : page.offset + FILES_PER_PAGE),
    { keep: true },
  );
  const files = query.data?.pages.flatMap((page) => page.files);
  const open = (folder: string[]) => change({ folder: folder.join("/") }, { push: true });
  return (
    <>
      <Group mb="xs" gap="md">
        <SegmentedControl
          size="xs"
          aria-label="Kind of files"
          data={BUCKETS}
          value={bucket}
          onChange={(value) => change({ bucket: value, folder: "" })}
        />
        {parts.length > 0 && (
          <Breadcrumbs component="nav" aria-label="Folder" separatorMargin={4}>
            <Anchor component="button" type="button" size="sm" onClick={() => open([])}>All</Anchor>
            {parts.map((part, depth) => (
              <Anchor
                key={depth}
                component="button"
                type="button"
                size="sm"
                onClick={() => open(parts.slice(0, depth + 1))}
              >
                {plain(part)}
              </Anchor>
            ))}
          </Breadcrumbs>
        )}
      </Group>
      {!files && (query.error
        ? <Failed error={query.error} retry={() => void query.refetch()} />
        : <Loading what="Reading the files" />)}
      {files?.length === 0 && <NoFiles bucket={bucket} runId={run.id} />}
      {files && files.length > 0 && (
        <Listing
          label="Files"
          columns={columns(bucket, place, (name) => open([...parts, name]))}
          rows={files}
          keyOf={(file) => `${file.isFolder} ${file.name}`}
          more={moreOf(query)}
        />
      )}
    </>
  );
}

function NoFiles({ bucket, runId }: { bucket: string; runId: string }) {
  if (bucket === "logs") {
    return (
      <Empty title="No logs here">
        Upload one: <Code>StorageManager.upload_log("{runId}", "train", "train.log")</Code>
      </Empty>
    );
  }
  if (bucket === "media") {
    return (
      <Empty title="No media here">
        Pictures and videos of turns land here: <Code>rollout.log_turn(…, images=[…])</Code>
      </Empty>
    );
  }
  return (
    <Empty title="No weights here">
      Keep some: <Code>run.log_checkpoint(1, step=0, file="checkpoint.pt")</Code>
    </Empty>
  );
}

function columns(bucket: string, place: string, open: (folder: string) => void): Column<StoredFile>[] {
  return [
    { label: "Name", isWide: true, show: (file) => <Name file={file} open={() => open(file.name)} /> },
    { label: "Size", isNumber: true, show: (file) => (file.isFolder ? UNKNOWN : bytes(file.size)) },
    { label: "Type", show: (file) => (file.isFolder ? "folder" : plain(file.contentType ?? UNKNOWN)) },
    { label: "Changed", show: (file) => <Ago time={file.updatedAt} /> },
    {
      label: "Download",
      show: (file) =>
        !file.isFolder && (
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            aria-label={`Download ${plain(file.name)}`}
            onClick={() => void told(saveFile(bucket, `${place}/${file.name}`))}
          >
            <IconDownload size={15} />
          </ActionIcon>
        ),
    },
  ];
}

function Name({ file, open }: { file: StoredFile; open: () => void }) {
  if (!file.isFolder) {
    return (
      <Group gap={6} wrap="nowrap">
        <IconFile size={15} aria-hidden style={{ flex: "none" }} />
        <Text size="sm" className="om-mono">{plain(file.name)}</Text>
      </Group>
    );
  }
  return (
    <Button variant="subtle" size="compact-sm" leftSection={<IconFolder size={15} aria-hidden />} onClick={open}>
      {plain(file.name)}
    </Button>
  );
}
