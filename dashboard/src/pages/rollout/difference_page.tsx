/** Two rollouts next to each other, and where they part. */
import { Anchor, Paper, Stack, Text, Title } from "@mantine/core";
import { useCallback, useMemo, useRef, useState } from "react";
import { Link, useParams } from "react-router";
import { readFingerprints, type Rollout } from "@/api/rollout.ts";
import { plain } from "@/components/agent_text.tsx";
import { Found } from "@/components/states.tsx";
import { PageHead } from "@/components/page.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { useLive } from "@/live/query.ts";
import { shortId } from "@/view/format.ts";
import { DifferenceList } from "./difference_list.tsx";
import { differenceRows } from "./differences.ts";
import { Facts, titleOf } from "./head.tsx";
import styles from "./page.module.css";
import { Result } from "./request.tsx";
import { useRollout } from "./use_rollout.ts";

export default function RolloutDifferencePage() {
  const { rolloutId, otherId } = useParams();
  return <Difference key={`${rolloutId} ${otherId}`} id={rolloutId!} otherId={otherId!} />;
}

function Difference({ id, otherId }: { id: string; otherId: string }) {
  const one = useRollout(id);
  const other = useRollout(otherId);
  const ids = useMemo(() => [id, otherId] as const, [id, otherId]);
  return (
    <>
      <PageHead
        title="Two rollouts next to each other"
        crumbs={[{ label: `Rollout ${shortId(id)}`, to: `/rollouts/${id}` }]}
      >
        <Text size="sm" c="dimmed">
          What only the first has is marked red and dashed, what only the second has green and underlined.{" "}
          <Anchor component={Link} size="sm" underline="always" to={`/rollouts/${otherId}/against/${id}`}>
            Swap them
          </Anchor>
        </Text>
      </PageHead>
      <div className={styles.pair} style={{ marginBottom: 12 }}>
        {[one, other].map(({ rollout, outline }, side) => (
          <Found key={ids[side]} query={rollout}>
            {(row) => <Side rollout={row} side={side} turns={outline.data?.turns} />}
          </Found>
        ))}
      </div>
      {one.rollout.data && other.rollout.data && (
        <Found query={one.outline}>
          {(outline) => (
            <Found query={other.outline}>
              {(otherOutline) => (
                <Turns
                  ids={ids}
                  runIds={[one.rollout.data!.training_run_id, other.rollout.data!.training_run_id]}
                  outlines={[outline, otherOutline]}
                />
              )}
            </Found>
          )}
        </Found>
      )}
    </>
  );
}

function Side({ rollout, side, turns }: { rollout: Rollout; side: number; turns: number | undefined }) {
  const why = rollout.status_message ?? rollout.error;
  return (
    <Paper withBorder p="sm" component="section" aria-label={side ? "Second rollout" : "First rollout"}>
      <Stack gap={6}>
        <Text size="xs" c="dimmed">{side ? "Second" : "First"}</Text>
        <Title order={2} size="h5" dir="auto" ta="left">
          <Anchor component={Link} to={`/rollouts/${rollout.id}`} inherit>{titleOf(rollout)}</Anchor>
        </Title>
        <div>
          <StatusBadge status={rollout.status} />
        </div>
        <Facts rollout={rollout} turns={turns} />
        {why && (
          <Text size="sm" lineClamp={3}>
            <Text span size="sm" c="dimmed">Why</Text> {plain(why)}
          </Text>
        )}
        <Result rollout={rollout} maxHeight={140} />
      </Stack>
    </Paper>
  );
}

type ListProps = Omit<Parameters<typeof DifferenceList>[0], "rows" | "onOpen">;

function Turns(props: ListProps) {
  const { ids, runIds } = props;
  const one = useLive(runIds[0], ["rollout", ids[0], "fingerprints"], (signal) => readFingerprints(ids[0], signal));
  const other = useLive(runIds[1], ["rollout", ids[1], "fingerprints"], (signal) => readFingerprints(ids[1], signal));
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const latest = useRef(opened);
  latest.current = opened;
  const open = useCallback((from: number) => setOpened(new Set([...latest.current, from])), []);
  const rows = useMemo(
    () => one.data && other.data ? differenceRows(one.data, other.data, opened) : null,
    [one.data, other.data, opened],
  );
  if (!rows) return <Found query={one}>{() => <Found query={other}>{() => null}</Found>}</Found>;
  return <DifferenceList {...props} rows={rows} onOpen={open} />;
}
