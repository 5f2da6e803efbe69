/** One rollout: how it went, how it was judged, and every turn of it. */
import { Button, Tabs } from "@mantine/core";
import { IconArrowsDiff } from "@tabler/icons-react";
import { useState } from "react";
import { useParams } from "react-router";
import type { Media, Rollout } from "@/api/rollout.ts";
import { Boundary, Found } from "@/components/states.tsx";
import { useView } from "@/view/url_state.ts";
import { CompareWith } from "./compare_with.tsx";
import { RolloutHead } from "./head.tsx";
import { Rewards, Validations } from "./judgement.tsx";
import { mediaAt, MediaItem } from "./media.tsx";
import styles from "./page.module.css";
import { RawRollout } from "./raw.tsx";
import { TurnsView } from "./turns_view.tsx";
import { useJudgement, useRollout } from "./use_rollout.ts";

export default function RolloutPage() {
  const id = useParams().rolloutId!;
  const { rollout, outline } = useRollout(id);
  return (
    <Found query={rollout} what="Reading the rollout">
      {(row) => <OneRollout key={id} rollout={row} outline={outline} />}
    </Found>
  );
}

const VIEW = { tab: "turns", turn: null as string | null, find: null as string | null, hide: [] as string[] };

function OneRollout({ rollout, outline }: { rollout: Rollout; outline: ReturnType<typeof useRollout>["outline"] }) {
  const [view, change] = useView(VIEW);
  const [isComparing, setComparing] = useState(false);
  const { rewards, validations, overrides, media } = useJudgement(rollout.id, rollout.training_run_id);
  const compare = (
    <Button
      size="compact-sm"
      variant="default"
      leftSection={<IconArrowsDiff size={14} aria-hidden />}
      onClick={() => setComparing(true)}
    >
      Compare with…
    </Button>
  );
  return (
    <>
      <RolloutHead rollout={rollout} turns={outline.data?.turns} overrides={overrides.data} aside={compare} />
      <Tabs value={view.tab} onChange={(tab) => change({ tab: tab ?? "turns" })} keepMounted={false}>
        <Tabs.List mb="sm">
          <Tabs.Tab value="turns">Turns</Tabs.Tab>
          <Tabs.Tab value="raw">Raw JSON</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="turns">
          <WholeVideo rollout={rollout} media={media.data ?? []} />
          <div className={styles.columns}>
            <div className={styles.aside} role="region" aria-label="Judgement" tabIndex={0}>
              <Found query={rewards}>{(components) => <Rewards components={components} />}</Found>
              <Found query={validations}>
                {(found) => <Validations rollout={rollout} validations={found} overrides={overrides.data ?? []} />}
              </Found>
            </div>
            <div style={{ minWidth: 0 }}>
              <Boundary>
                <Found query={outline} what="Reading the turns">
                  {(found) => <TurnsView rollout={rollout} outline={found} view={view} change={change} />}
                </Found>
              </Boundary>
            </div>
          </div>
        </Tabs.Panel>
        <Tabs.Panel value="raw">
          <RawRollout rollout={rollout} turns={outline.data?.turns ?? rollout.step_count ?? 0} />
        </Tabs.Panel>
      </Tabs>
      {isComparing && <CompareWith rollout={rollout} onClose={() => setComparing(false)} />}
    </>
  );
}

/** What shows the rollout as a whole lies above its turns. */
function WholeVideo({ rollout, media }: { rollout: Rollout; media: Media[] }) {
  const path = rollout.video_path;
  const known = path && !media.some((one) => one.path === path) ? [mediaAt(path, "video"), ...media] : media;
  if (!known.length) return null;
  return (
    <div style={{ display: "flex", flexWrap: "wrap", gap: 10, marginBottom: 12 }}>
      {known.map((one) => <MediaItem key={one.id} media={one} label={`${one.kind} of the whole rollout`} />)}
    </div>
  );
}
