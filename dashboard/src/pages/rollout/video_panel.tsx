import { Skeleton, Switch, Text } from "@mantine/core";
import { useState } from "react";
import { Section } from "@/components/page.tsx";
import { useAddress } from "./media.tsx";
import styles from "./page.module.css";
import type { Player } from "./use_film.ts";

interface Props {
  bucket: string;
  path: string;
  player: Player;
  follows: boolean;
  onFollow: (follows: boolean) => void;
}

/** The video beside the turns: a turn that is chosen is shown in it, and the turn that it shows is marked. */
export function VideoPanel({ bucket, path, player, follows, onFollow }: Props) {
  const { data: address, error } = useAddress(bucket, path);
  const [isBroken, setBroken] = useState(false);
  return (
    <Section
      title="Video"
      aside={player.hasTimes && (
        <Switch
          size="xs"
          label="Turns follow"
          checked={follows}
          onChange={({ currentTarget }) => onFollow(currentTarget.checked)}
        />
      )}
    >
      {error && <Text size="sm" c="dimmed">The video is not in storage, or you may not see it.</Text>}
      {!error && !address && <Skeleton height={180} animate={false} />}
      {address && (
        <video
          ref={player.video}
          className={styles.film}
          src={address}
          controls
          muted
          playsInline
          preload="metadata"
          aria-label="Video of the rollout"
          onError={() => setBroken(true)}
          {...player.events}
        />
      )}
      {isBroken && <Text size="sm" role="alert">This browser cannot play the video.</Text>}
      <Text size="xs" c="dimmed" mt={4} role="status">
        {!player.hasTimes
          ? "Its turns do not say when they began."
          : player.shown === null
          ? "A click on a turn shows it here."
          : `Turn ${player.shown}`}
      </Text>
    </Section>
  );
}
