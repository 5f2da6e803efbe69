/** Pictures, sounds and videos, which lie in a private bucket: each is shown by an address that is valid for a while. */
import { Anchor, Group, Modal, Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type FurtherObservation, type Media, readFurtherText, type Turn } from "@/api/rollout.ts";
import { plain } from "@/components/agent_text.tsx";
import { supabase } from "@/supabase.ts";
import { duration } from "@/view/format.ts";
import styles from "./page.module.css";
import { LongText, Part } from "./part.tsx";

const VALID_SECONDS = 6 * 3600;

/** Not a live query: a new address for the same bytes would only make the picture blink. */
export function useAddress(bucket: string, path: string) {
  return useQuery({
    queryKey: ["signed", bucket, path],
    queryFn: async () => {
      const { data, error } = await supabase().storage.from(bucket).createSignedUrl(path, VALID_SECONDS);
      if (error) throw error;
      return data.signedUrl;
    },
    staleTime: VALID_SECONDS * 500,
    retry: false,
  });
}

export function isVideo({ kind, content_type }: Media): boolean {
  return kind === "video" || content_type?.startsWith("video/") === true;
}

function isPicture({ kind, content_type }: Media): boolean {
  return content_type ? content_type.startsWith("image/") : ["frame", "screenshot", "image"].includes(kind);
}

export function MediaItem({ media, label, isLarge }: { media: Media; label: string; isLarge?: boolean }) {
  const { data: address, error } = useAddress(media.bucket, media.path);
  if (error) return <Text size="sm" c="dimmed">This {media.kind} is not in storage, or you may not see it.</Text>;
  if (isPicture(media)) return <Picture media={media} address={address} label={label} />;
  if (!address) return <Skeleton height={28} width={220} animate={false} />;
  if (isVideo(media)) {
    const style = isLarge ? styles.film : styles.picture;
    return <video className={style} src={address} controls preload="metadata" aria-label={label} />;
  }
  if (media.kind === "audio" || media.content_type?.startsWith("audio/")) {
    return <audio src={address} controls preload="none" aria-label={label} />;
  }
  return <Anchor href={address} download rel="noopener" size="sm">Download {label}</Anchor>;
}

function Picture({ media, address, label }: { media: Media; address: string | undefined; label: string }) {
  const [isLarge, setLarge] = useState(false);
  const { width, height } = media;
  // Its place is kept free, so that nothing moves when it arrives.
  const shown = width && height ? Math.min(1, 420 / width, 280 / height) : null;
  const box = shown ? { width: width! * shown, aspectRatio: `${width} / ${height}` } : { minHeight: 120 };
  if (!address) return <div className={styles.picture} style={box} />;
  return (
    <>
      <button
        type="button"
        aria-label={`Enlarge ${label}`}
        onClick={() => setLarge(true)}
        style={{ padding: 0, border: 0, background: "none", cursor: "zoom-in", maxWidth: "100%" }}
      >
        <img className={styles.picture} src={address} alt={label} loading="lazy" decoding="async" style={box} />
      </button>
      <Modal
        opened={isLarge}
        onClose={() => setLarge(false)}
        title={label}
        size="auto"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <img src={address} alt={label} style={{ maxWidth: "100%", maxHeight: "80vh", display: "block" }} />
      </Modal>
    </>
  );
}

function labelOf(media: Media, of: string, index: number, count: number): string {
  const long = media.duration_ms === null ? "" : `, ${duration(media.duration_ms)}`;
  return `${media.kind}${count > 1 ? ` ${index + 1} of ${count}` : ""} of ${of}${long}`;
}

export function Pictures({ media, of, label = "Media" }: { media: Media[]; of: string; label?: string }) {
  if (!media.length) return null;
  return (
    <Part label={label} kind="media">
      <Group gap="xs" align="flex-start">
        {media.map((one, index) => (
          <MediaItem
            key={one.id}
            media={one}
            label={labelOf(one, of, index, media.length)}
          />
        ))}
      </Group>
    </Part>
  );
}

/** A file that only its path tells of. */
export function mediaAt(path: string, kind: string): Media {
  const isImage = /\.(png|jpe?g|gif|webp|bmp|avif)$/i.test(path);
  const isVideo = /\.(mp4|webm|mov|mkv)$/i.test(path);
  const shown = isImage ? "image" : isVideo ? "video" : kind;
  return {
    id: path,
    kind: shown,
    bucket: "media",
    path,
    content_type: null,
    width: null,
    height: null,
    duration_ms: null,
  };
}

export function FurtherObservations({ turn, find }: { turn: Turn; find: string | null }) {
  const shownAlready = new Set(turn.media.map(({ path }) => path));
  return turn.observations.map((observation) => (
    <Further key={observation.position} turn={turn} observation={observation} find={find} shownAlready={shownAlready} />
  ));
}

function Further({ turn, observation, find, shownAlready }: {
  turn: Turn;
  observation: FurtherObservation;
  find: string | null;
  shownAlready: Set<string>;
}) {
  const { kind, text, text_chars, media_path, position } = observation;
  const media = media_path && !shownAlready.has(media_path) ? mediaAt(media_path, kind) : null;
  return (
    <Part label={plain(kind)} kind="observation">
      {text !== null && (
        <LongText
          name={`${turn.id}:observation:${position}`}
          label={kind}
          text={text}
          chars={text_chars}
          find={find}
          readAll={() => readFurtherText(turn.id, position)}
        />
      )}
      {media && <MediaItem media={media} label={`${plain(kind)} of turn ${turn.step_number}`} />}
    </Part>
  );
}
