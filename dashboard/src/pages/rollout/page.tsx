/** One rollout: how it went, how it was judged, and every turn of it. */
import { Button, Tabs } from "@mantine/core";
import { IconArrowsDiff } from "@tabler/icons-react";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import type { Media, Rollout } from "@/api/rollout.ts";
import { RolloutActions } from "@/components/queue/actions.tsx";
import { Boundary, Found } from "@/components/states.tsx";
import { useView } from "@/view/url_state.ts";
import { CompareWith } from "./compare_with.tsx";
import { RolloutHead } from "./head.tsx";
import { Rewards, Validations } from "./judgement.tsx";
import { isVideo, mediaAt, MediaItem } from "./media.tsx";
import styles from "./page.module.css";
import { RawRollout } from "./raw.tsx";
import { EarlierAttempts, Logs, Result } from "./request.tsx";
import { TurnsView } from "./turns_view.tsx";
import { useFilm } from "./use_film.ts";
import { useJudgement, useRollout } from "./use_rollout.ts";
import { VideoPanel } from "./video_panel.tsx";

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
  const navigate = useNavigate();
  const [isComparing, setComparing] = useState(false);
  const leave = (action: string) => void (action === "delete" && navigate("/queue"));
  const { rewards, validations, overrides, media } = useJudgement(rollout.id, rollout.training_run_id);
  const videos = wholeMedia(rollout, media.data ?? []);
  const film = videos.find(isVideo);
  const player = useFilm(rollout.id, rollout.training_run_id, film !== undefined);
  const [follows, setFollows] = useState(true);
  // In the archive of its run, and not loaded from there.
  const isAway = rollout.training_runs?.archive_status === "archived" && outline.data?.turns === 0;
  const aside = (
    <>
      {rollout.request !== null && <RolloutActions rollouts={[actionable(rollout)]} onDone={leave} />}
      <Button
        size="compact-sm"
        variant="default"
        leftSection={<IconArrowsDiff size={14} aria-hidden />}
        onClick={() => setComparing(true)}
      >
        Compare with…
      </Button>
    </>
  );
  return (
    <>
      <RolloutHead
        rollout={rollout}
        turns={(isAway ? rollout.step_count : null) ?? outline.data?.turns}
        overrides={overrides.data}
        aside={aside}
      />
      <Tabs value={view.tab} onChange={(tab) => change({ tab: tab ?? "turns" })} keepMounted={false}>
        <Tabs.List mb="sm">
          <Tabs.Tab value="turns">Turns</Tabs.Tab>
          <Tabs.Tab value="raw">Raw JSON</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="turns">
          <OtherMedia media={videos.filter((one) => one !== film && one.path !== rollout.logs_path)} />
          <div className={styles.columns} data-film={film !== undefined || undefined}>
            <div className={styles.aside} role="region" aria-label="Judgement" tabIndex={0}>
              {film && (
                <VideoPanel
                  bucket={film.bucket}
                  path={film.path}
                  player={player}
                  follows={follows}
                  onFollow={setFollows}
                />
              )}
              <Result rollout={rollout} />
              <Found query={rewards}>
                {(components) => isAway && !components.length ? null : <Rewards components={components} />}
              </Found>
              <Found query={validations}>
                {(found) => <Validations rollout={rollout} validations={found} overrides={overrides.data ?? []} />}
              </Found>
              {rollout.logs_path && <Logs path={rollout.logs_path} />}
              <EarlierAttempts rollout={rollout} />
            </div>
            <div style={{ minWidth: 0 }}>
              <Boundary>
                <Found query={outline} what="Reading the turns">
                  {(found) => (
                    <TurnsView
                      rollout={rollout}
                      outline={found}
                      view={view}
                      change={change}
                      player={film ? player : null}
                      follows={follows}
                    />
                  )}
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

/** What shows the rollout as a whole: its video, which may be known by its path alone, and whatever else was recorded. */
function wholeMedia({ video_path: path }: Rollout, media: Media[]): Media[] {
  return path && !media.some((one) => one.path === path) ? [mediaAt(path, "video"), ...media] : media;
}

function actionable({ id, status, cancel_requested_at, training_runs, owner_id, training_run_id }: Rollout) {
  return {
    id,
    status,
    cancelling: cancel_requested_at !== null,
    owner_id: training_run_id === null ? owner_id : training_runs?.owner_id ?? null,
  };
}

function OtherMedia({ media }: { media: Media[] }) {
  if (!media.length) return null;
  return (
    <div style={{ display: "flex", flexWrap: "wrap", gap: 10, marginBottom: 12 }}>
      {media.map((one) => <MediaItem key={one.id} media={one} label={`${one.kind} of the whole rollout`} />)}
    </div>
  );
}
