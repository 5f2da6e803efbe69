/** What a rollout left in storage besides its turns: its video, and the logs of its environment. */
import { Anchor, Group, Modal, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { readEnd, saveFile } from "@/api/files.ts";
import { AgentText } from "@/components/agent_text.tsx";
import { Found } from "@/components/states.tsx";
import { mediaAt, MediaItem } from "@/pages/rollout/media.tsx";
import { bytes } from "@/view/format.ts";

/** Workers store logs as they store videos: by the recorder, as media of the rollout. */
const BUCKET = "media";
const SHOWN_BYTES = 256 * 1024;

/** The end of the logs, where the reason usually is. */
export function EnvironmentLogs({ path }: { path: string }) {
  const query = useQuery<{ text: string; isCut: boolean }, Error>({
    queryKey: ["logs", path],
    queryFn: ({ signal }) => readEnd(BUCKET, path, SHOWN_BYTES, signal),
  });
  return (
    <Found query={query} what="Reading the logs">
      {({ text, isCut }) => (
        <>
          <Group gap="md" mb={4}>
            {isCut && <Text size="sm" c="dimmed">The last {bytes(SHOWN_BYTES)} are shown.</Text>}
            <Anchor component="button" type="button" size="sm" onClick={() => void saveFile(BUCKET, path)}>
              Download
            </Anchor>
          </Group>
          {text === "" ? <Text size="sm" c="dimmed">The environment logged nothing.</Text> : <LogText text={text} />}
        </>
      )}
    </Found>
  );
}

function LogText({ text }: { text: string }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // The end is what one wants to see first.
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <div ref={box} style={{ maxHeight: "60vh", overflow: "auto" }} role="region" aria-label="Log text" tabIndex={0}>
      <AgentText text={text} />
    </div>
  );
}

/** A video or logs in front of the page that lists the rollout. */
export function FileDialog({ kind, path, title, onClose }: {
  kind: "video" | "logs";
  path: string;
  title: string;
  onClose: () => void;
}) {
  return (
    <Modal opened onClose={onClose} title={title} size="xl" closeButtonProps={{ "aria-label": "Close" }}>
      {kind === "logs"
        ? <EnvironmentLogs path={path} />
        : <MediaItem media={mediaAt(path, "video")} label={title} isLarge />}
    </Modal>
  );
}
