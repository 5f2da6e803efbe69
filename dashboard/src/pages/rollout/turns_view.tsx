/** The turns with what one needs to find the way through them: search, keys, a map. */
import { Code } from "@mantine/core";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "react-router";
import type { Match, Outline, Rollout, Turn } from "@/api/rollout.ts";
import { isUnfinished } from "@/api/queue.ts";
import { LoadFromArchive } from "@/components/archived.tsx";
import { Empty } from "@/components/states.tsx";
import { queryClient } from "@/live/query.ts";
import { KeyHelp } from "./keys.tsx";
import { KeptOpen } from "./kept_open.ts";
import { Minimap } from "./minimap.tsx";
import styles from "./page.module.css";
import { RawTurn } from "./raw.tsx";
import { useSearch } from "./search.tsx";
import type { PartName } from "./shown_parts.tsx";
import { Timeline } from "./timeline.tsx";
import { estimateHeight, useTurn } from "./turn_slot.tsx";
import { TurnsToolbar } from "./turns_toolbar.tsx";
import { indexOf, useCurrentTurn } from "./use_current_turn.ts";
import type { Player } from "./use_film.ts";
import { useFollow } from "./use_follow.ts";
import { useShowMatch } from "./use_show_match.ts";
import { TURN_KEYS, useTurnKeys } from "./use_turn_keys.ts";
import { useVirtualTurns } from "./use_virtual_turns.ts";

export interface TurnsViewState {
  turn: string | null;
  find: string | null;
  hide: string[];
}

interface Props {
  rollout: Rollout;
  outline: Outline;
  view: TurnsViewState;
  change: (changes: Partial<TurnsViewState>) => void;
  /** Of the video, where there is one. */
  player: Player | null;
  /** Keep the turn in sight that a playing video shows. */
  follows: boolean;
}

/** So many turns before and after those in view. */
const AHEAD = 20;

export function TurnsView({ rollout, outline, view, change, player, follows }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const toolbar = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLInputElement>(null);
  const keptOpen = useRef(new Map<string, boolean>()).current;
  const [hasHelp, setHelp] = useState(false);
  const [raw, setRaw] = useState<Turn | null>(null);
  const hidden = useMemo(() => new Set(view.hide as PartName[]), [view.hide]);
  const address = useAddress();

  const turns = useVirtualTurns({
    count: outline.turns,
    keyOf: useCallback((index: number) => outline.step_numbers[index]!, [outline]),
    estimate: useCallback((index: number) => estimateHeight(outline, index), [outline]),
    list,
    toolbar,
  });
  const { first, last, jump } = turns;
  // What comes next is read before it is in sight.
  useTurn(rollout.id, rollout.training_run_id, outline, Math.min(outline.turns - 1, last + AHEAD));
  useTurn(rollout.id, rollout.training_run_id, outline, Math.min(outline.turns - 1, Math.max(0, first - AHEAD)));
  const writeTurn = useCallback((turn: string) => change({ turn }), [change]);
  const { current, select } = useCurrentTurn(outline, view.turn, writeTurn, jump);
  const isRunning = isUnfinished(rollout.status);
  const follow = useFollow(turns, outline.turns, isRunning);

  const showMatch = useShowMatch(turns.held);
  const goTo = useCallback((match: Match) => {
    select(match.step_number);
    showMatch(match);
  }, [select, showMatch]);
  const search = useSearch(
    rollout.id,
    rollout.training_run_id,
    view.find,
    () => current ?? outline.step_numbers[first] ?? 0,
    goTo,
  );
  const hits = useMemo(() => search.matches.map(({ step_number }) => indexOf(outline, step_number)), [
    search.matches,
    outline,
  ]);

  useSteadyPlace(turns, hidden);
  const choose = usePlayer(player, follows, outline, current, select, jump);

  const go = useTurnKeys(outline, { current, first, last }, select, {
    n: () => search.go(1),
    N: () => search.go(-1),
    "/": () => box.current?.focus(),
    "?": () => setHelp(true),
  });

  return (
    <KeptOpen value={keptOpen}>
      <TurnsToolbar
        toolbarRef={toolbar}
        boxRef={box}
        search={search}
        view={view}
        change={change}
        turns={outline.turns}
        follow={isRunning ? follow : null}
        onHelp={() => setHelp(true)}
      />
      {outline.turns === 0 ? <NoTurns rollout={rollout} isRunning={isRunning} /> : (
        <div className={styles.with_map}>
          <Timeline
            listRef={list}
            turns={turns}
            current={player?.shown ?? current}
            secondsOf={player?.hasTimes ? player.secondsOf : undefined}
            id={rollout.id}
            runId={rollout.training_run_id}
            outline={outline}
            hidden={hidden}
            find={view.find}
            address={address}
            onSelect={choose}
            onRaw={setRaw}
          />
          <Minimap outline={outline} hits={hits} first={turns.first} last={turns.last} onJump={go} />
        </div>
      )}
      <KeyHelp opened={hasHelp} onClose={() => setHelp(false)} keys={TURN_KEYS} />
      {raw && <RawTurn turn={raw} onClose={() => setRaw(null)} />}
    </KeptOpen>
  );
}

function NoTurns({ rollout, isRunning }: { rollout: Rollout; isRunning: boolean }) {
  if (isRunning) return <Empty title="No turn yet">Turns appear here as they are recorded.</Empty>;
  const none = (
    <Empty title="No turns were recorded">
      The rollout ended without any; <Code>rollout.log_turn(observation=…, action=…)</Code> records one.
    </Empty>
  );
  if (rollout.training_runs?.archive_status !== "archived") return none;
  return (
    <LoadFromArchive
      title="The turns are in the archive"
      what={{ rollout_id: rollout.id }}
      onLoaded={() => void queryClient.invalidateQueries({ queryKey: ["rollout", rollout.id] })}
      nothing={none}
    >
      The run of this rollout was archived. Its verdicts and figures are here, and its turns are loaded on request.
    </LoadFromArchive>
  );
}

/** Keep video and turns together: a turn that is chosen is shown, a turn that is shown is kept in sight. */
function usePlayer(
  player: Player | null,
  follows: boolean,
  outline: Outline,
  current: number | null,
  select: (step: number) => void,
  jump: (index: number) => void,
): (step: number) => void {
  const { seek, shown = null, isPlaying = false } = player ?? {};
  // By keys, the map, the search or the address; also once the times are known.
  useEffect(() => {
    if (current !== null) seek?.(current);
  }, [current, seek]);
  useEffect(() => {
    if (isPlaying && follows && shown !== null) jump(indexOf(outline, shown));
  }, [shown, isPlaying, follows]);
  return useCallback((step: number) => {
    select(step);
    seek?.(step);
  }, [select, seek]);
}

/** Other parts, other heights: the turn that one reads stays. */
function useSteadyPlace(
  { first, virtualizer, jump }: ReturnType<typeof useVirtualTurns>,
  hidden: ReadonlySet<PartName>,
) {
  const place = useRef(first);
  place.current = first;
  const before = useRef(hidden);
  useEffect(() => {
    if (before.current === hidden) return;
    before.current = hidden;
    virtualizer.measure();
    if (place.current > 0) jump(place.current);
  }, [hidden, virtualizer, jump]);
}

/** The address of a turn in this very view. */
function useAddress(): (step: number) => string {
  const { search } = useLocation();
  return useMemo(() => {
    const params = new URLSearchParams(search);
    return (step: number) => {
      params.set("turn", String(step));
      return `?${params}`;
    };
  }, [new URLSearchParams(search).get("find"), new URLSearchParams(search).getAll("hide").join()]);
}
