/** What is stored, as it is stored. */
import { Button, Group, Modal, Progress, Stack, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type Json, pretty, readRawRollout, readRawTurn, type Rollout, type Turn } from "@/api/rollout.ts";
import { Copy } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { KnownText } from "./behind.tsx";
import { exportRollout } from "./export.ts";
import styles from "./page.module.css";

function JsonBox({ value, label }: { value: Json; label: string }) {
  return (
    <div className={styles.json} role="region" aria-label={label} tabIndex={0}>
      <KnownText text={pretty(value)} label={label} />
    </div>
  );
}

export function RawTurn({ turn, onClose }: { turn: Turn; onClose: () => void }) {
  const label = `Turn ${turn.step_number} as it is stored`;
  const query = useQuery<Json, Error>({
    queryKey: ["rollout", "part", "raw", turn.id],
    queryFn: () => readRawTurn(turn.id),
  });
  return (
    <Modal opened onClose={onClose} title={label} size="xl" closeButtonProps={{ "aria-label": "Close" }}>
      <Found query={query}>
        {(row) => (
          <Stack gap="xs">
            <Group>
              <Copy text={pretty(row)} what="Copy the JSON" />
            </Group>
            <JsonBox value={row} label={label} />
          </Stack>
        )}
      </Found>
    </Modal>
  );
}

export function RawRollout({ rollout, turns }: { rollout: Rollout; turns: number }) {
  const query = useLive(rollout.training_run_id, ["rollout", rollout.id, "raw"], () => readRawRollout(rollout.id));
  return (
    <Section title="Raw JSON" aside={<Download rollout={rollout} turns={turns} />}>
      <Text size="sm" c="dimmed" mb="xs">
        The row of the rollout as it is stored. Each turn has its own behind the button at its right; the download holds
        all of them with tool calls, tokens and rewards.
      </Text>
      <Found query={query}>{(row) => <JsonBox value={row} label="The rollout as it is stored" />}</Found>
    </Section>
  );
}

function Download({ rollout, turns }: { rollout: Rollout; turns: number }) {
  const [done, setDone] = useState<number | null>(null);
  const [error, setError] = useState<string | null>(null);
  const stop = useRef<AbortController>(null);
  useEffect(() => () => stop.current?.abort(), []);

  const start = async () => {
    stop.current = new AbortController();
    setError(null);
    setDone(0);
    try {
      await exportRollout(rollout, setDone, stop.current.signal);
    } catch (failure) {
      if (!stop.current.signal.aborted) setError((failure as Error).message);
    } finally {
      setDone(null);
    }
  };

  if (done !== null) {
    return (
      <Group gap="xs">
        <Progress
          w={160}
          value={turns ? done / turns * 100 : 100}
          aria-label={`${done} of ${turns} turns are read`}
        />
        <Text size="xs">{done.toLocaleString("en-US")} of {turns.toLocaleString("en-US")} turns</Text>
        <Button size="compact-xs" variant="default" onClick={() => stop.current?.abort()}>Stop</Button>
      </Group>
    );
  }
  return (
    <>
      {error && <Text size="xs" role="alert">{error}</Text>}
      <Button size="compact-sm" variant="default" leftSection={<IconDownload size={14} />} onClick={start}>
        Download the whole rollout
      </Button>
    </>
  );
}
