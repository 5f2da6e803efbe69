/** The turns with what one needs to find the way through them: search, keys, a map. */
import { ActionIcon, Group, Switch, Text, Tooltip } from "@mantine/core";
import { IconKeyboard } from "@tabler/icons-react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "react-router";
import type { Match, Outline, Rollout, Turn } from "@/api/rollout.ts";
import { Empty } from "@/components/states.tsx";
import { KeyHelp, useKeys } from "./keys.tsx";
import { KeptOpen } from "./kept_open.ts";
import { Minimap } from "./minimap.tsx";
import styles from "./page.module.css";
import { RawTurn } from "./raw.tsx";
import { CurrentMatch, SearchBox, useSearch } from "./search.tsx";
import { type PartName, ShownParts } from "./shown_parts.tsx";
import { Timeline } from "./timeline.tsx";
import { estimateHeight, useTurn } from "./turn_slot.tsx";
import { indexOf, useCurrentTurn } from "./use_current_turn.ts";
import { useFollow } from "./use_follow.ts";
import { useShowMatch } from "./use_show_match.ts";
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
}

/** So many turns before and after those in view. */
const AHEAD = 20;

const KEYS = [
  [["j", "k"], "next, previous turn"],
  [["g", "G"], "first, last turn"],
  [["e", "E"], "next, previous turn in which a tool failed"],
  [["r", "R"], "next, previous turn with a reward"],
  [["/"], "search in this rollout"],
  [["n", "N"], "next, previous match; in the search box Enter and Shift+Enter"],
  [["?"], "this help"],
] as const as unknown as readonly (readonly [string[], string])[];

export function TurnsView({ rollout, outline, view, change }: Props) {
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
  const { first, last, jump, virtualizer } = turns;
  // What comes next is read before it is in sight.
  useTurn(rollout.id, rollout.training_run_id, outline, Math.min(outline.turns - 1, last + AHEAD));
  useTurn(rollout.id, rollout.training_run_id, outline, Math.min(outline.turns - 1, Math.max(0, first - AHEAD)));
  const writeTurn = useCallback((turn: string) => change({ turn }), [change]);
  const { current, select } = useCurrentTurn(outline, view.turn, writeTurn, jump);
  const isRunning = rollout.status === "running" || rollout.status === "pending";
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

  // Other parts, other heights: the turn that one reads stays.
  const place = useRef(first);
  place.current = first;
  const before = useRef(hidden);
  useEffect(() => {
    if (before.current === hidden) return;
    before.current = hidden;
    virtualizer.measure();
    if (place.current > 0) jump(place.current);
  }, [hidden, virtualizer, jump]);

  const at = () => {
    const index = current === null ? -1 : indexOf(outline, current);
    return index >= turns.first && index <= turns.last ? index : current === null && first === 0 ? -1 : first;
  };
  const step = (index: number) => {
    const found = outline.step_numbers[Math.max(0, Math.min(outline.turns - 1, index))];
    if (found !== undefined) select(found);
  };
  const seek = (by: number, has: (index: number) => boolean) => {
    for (let index = at() + by; index >= 0 && index < outline.turns; index += by) if (has(index)) return step(index);
  };
  const hasFailed = (index: number) => outline.tool_errors[index]! > 0;
  const hasReward = (index: number) => Number(outline.rewards[index] ?? 0) !== 0;
  useKeys({
    j: () => step(at() + 1),
    k: () => step(at() - 1),
    g: () => step(0),
    G: () => step(outline.turns - 1),
    e: () => seek(1, hasFailed),
    E: () => seek(-1, hasFailed),
    r: () => seek(1, hasReward),
    R: () => seek(-1, hasReward),
    n: () => search.go(1),
    N: () => search.go(-1),
    "/": () => box.current?.focus(),
    "?": () => setHelp(true),
  });

  return (
    <KeptOpen value={keptOpen}>
      <div ref={toolbar} className={styles.toolbar} role="toolbar" aria-label="Turns">
        <SearchBox search={search} inputRef={box} onText={(find) => change({ find })} />
        <ShownParts hide={view.hide} onChange={(hide) => change({ hide })} />
        <Group gap="xs" ml="auto">
          {isRunning && (
            <Switch
              size="xs"
              label="Follow"
              checked={follow.isFollowing}
              onChange={({ currentTarget }) => follow.set(currentTarget.checked)}
            />
          )}
          <Text size="xs" c="dimmed">{outline.turns.toLocaleString("en-US")} turns</Text>
          <Tooltip label="Keys ( ? )">
            <ActionIcon variant="subtle" color="gray" size="sm" aria-label="Keys" onClick={() => setHelp(true)}>
              <IconKeyboard size={16} />
            </ActionIcon>
          </Tooltip>
        </Group>
        <CurrentMatch search={search} />
      </div>
      {outline.turns === 0
        ? (
          <Empty title={isRunning ? "No turn yet" : "No turns were recorded"}>
            {isRunning
              ? "Turns appear here as they are recorded."
              : "The rollout ended without any; rollout.log_turn(…) records them."}
          </Empty>
        )
        : (
          <div className={styles.with_map}>
            <Timeline
              listRef={list}
              turns={turns}
              current={current}
              id={rollout.id}
              runId={rollout.training_run_id}
              outline={outline}
              hidden={hidden}
              find={view.find}
              address={address}
              onSelect={select}
              onRaw={setRaw}
            />
            <Minimap outline={outline} hits={hits} first={turns.first} last={turns.last} onJump={step} />
          </div>
        )}
      <KeyHelp opened={hasHelp} onClose={() => setHelp(false)} keys={KEYS} />
      {raw && <RawTurn turn={raw} onClose={() => setRaw(null)} />}
    </KeptOpen>
  );
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
