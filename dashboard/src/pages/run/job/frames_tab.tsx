/** What a run looked like over its steps: one frame large, all of them as a strip to move along. */
import { ActionIcon, Code, Group, Slider, Text } from "@mantine/core";
import { IconChevronLeft, IconChevronRight, IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { defaultRangeExtractor, useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { type Frame, frameSteps, readFrames } from "@/api/frames.ts";
import type { Run } from "@/api/run.ts";
import { Ago } from "@/components/page.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { useLive, useLiveMany } from "@/live/query.ts";
import { number } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import classes from "./job.module.css";

const PAGE = 40;
const THUMBNAIL_PIXELS = 96;
const PLAY_MS = 125;

export function FramesTab({ run }: { run: Run }) {
  const query = useLive(run.id, ["frame steps", run.id], (signal) => frameSteps(run.id, signal));
  return (
    <Found query={query} what="Reading the frames">
      {({ steps, total, timeline }) =>
        steps.length > 0 ? <Frames {...{ run, steps, total, timeline }} /> : (
          <Empty title="No frames yet">
            Training keeps one every <Code>FRAME_INTERVAL</Code>{" "}
            steps, 1,000 unless a launch says otherwise, where the environment can be drawn.
          </Empty>
        )}
    </Found>
  );
}

/** On one timeline frames do not change: what is read of them is kept, whatever else the run does. */
function usePages(
  { run, steps, timeline }: FramesProps,
  wanted: number[],
): (place: number) => Frame | undefined {
  const answers = useLiveMany(wanted.map((page) => {
    const some = steps.slice(page * PAGE, (page + 1) * PAGE);
    return {
      subject: `frames of ${run.id}`,
      key: ["frames", run.id, timeline, some],
      read: (signal: AbortSignal) => readFrames(run.id, some, signal),
    };
  }));
  return useCallback((place: number) => {
    const at = wanted.indexOf(Math.floor(place / PAGE));
    return answers[at]?.data?.find((frame) => frame.step === steps[place]);
  }, [answers, steps, wanted]);
}

interface FramesProps {
  run: Run;
  steps: number[];
  total: number;
  timeline: number;
}

function Frames(props: FramesProps) {
  const { steps, total } = props;
  const [view, change] = useView({ frame: null as string | null });
  const last = steps.length - 1;
  // Unless one is chosen the latest is shown, as they come.
  const place = view.frame === null ? last : nearest(steps, Number(view.frame));
  const show = useCallback((next: number) => {
    const within = Math.min(last, Math.max(0, next));
    change({ frame: within === last ? null : String(steps[within]) });
  }, [change, last, steps]);
  const strip = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    horizontal: true,
    count: steps.length,
    getScrollElement: () => strip.current,
    estimateSize: () => THUMBNAIL_PIXELS,
    overscan: 4,
    // The one that is shown large is read too, wherever the strip is.
    rangeExtractor: (range) => [...new Set([...defaultRangeExtractor(range), place])].sort((a, b) => a - b),
  });
  const items = list.getVirtualItems();
  const pages = [...new Set(items.map(({ index }) => Math.floor(index / PAGE)))].join();
  const wanted = useMemo(() => pages.split(",").filter(Boolean).map(Number), [pages]);
  const frameAt = usePages(props, wanted);
  useEffect(() => list.scrollToIndex(place, { align: "auto" }), [list, place]);

  const pressed = (event: KeyboardEvent) => {
    const moves: Record<string, number> = {
      ArrowLeft: place - 1,
      ArrowRight: place + 1,
      PageUp: place - 10,
      PageDown: place + 10,
      Home: 0,
      End: last,
    };
    if (!(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    show(moves[event.key]!);
  };
  return (
    <div onKeyDown={pressed} role="group" aria-label="Frames">
      <Large frame={frameAt(place)} step={steps[place]!} />
      <Controls {...{ place, last, steps, total, show }} recordedAt={frameAt(place)?.recordedAt} />
      <div ref={strip} className={classes.strip} role="listbox" aria-label="All frames" tabIndex={0}>
        <div style={{ width: list.getTotalSize(), height: 76, position: "relative" }}>
          {items.map(({ index, start }) => (
            <Thumbnail
              key={steps[index]}
              frame={frameAt(index)}
              step={steps[index]!}
              isShown={index === place}
              left={start}
              choose={() => show(index)}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

/** The place of the step that is nearest; steps go up. */
export function nearest(steps: number[], step: number): number {
  if (!Number.isFinite(step)) return steps.length - 1;
  const after = steps.findIndex((each) => each >= step);
  if (after < 0) return steps.length - 1;
  return after > 0 && step - steps[after - 1]! < steps[after]! - step ? after - 1 : after;
}

function Large({ frame, step }: { frame: Frame | undefined; step: number }) {
  return (
    <div className={classes.frame}>
      {frame?.address
        ? <img src={frame.address} alt={`Frame at step ${number(step)}`} />
        : frame && <Text size="sm" c="dimmed">This frame is not in storage; it may still be on its way.</Text>}
    </div>
  );
}

interface ControlsProps {
  place: number;
  last: number;
  steps: number[];
  total: number;
  show: (place: number) => void;
  recordedAt: string | undefined;
}

function Controls({ place, last, steps, total, show, recordedAt }: ControlsProps) {
  const [isPlaying, setPlaying] = useState(false);
  useEffect(() => {
    if (!isPlaying) return;
    if (place >= last) return setPlaying(false);
    const timer = setTimeout(() => show(place + 1), PLAY_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, last, place, show]);
  const play = () => {
    if (!isPlaying && place >= last) show(0);
    setPlaying(!isPlaying);
  };
  return (
    <Group gap="sm" my="xs" wrap="nowrap">
      <ActionIcon
        variant="default"
        aria-label="The frame before"
        disabled={place === 0}
        onClick={() => show(place - 1)}
      >
        <IconChevronLeft size={16} />
      </ActionIcon>
      <ActionIcon variant="default" aria-label={isPlaying ? "Pause" : "Play"} onClick={play}>
        {isPlaying ? <IconPlayerPause size={16} /> : <IconPlayerPlay size={16} />}
      </ActionIcon>
      <ActionIcon
        variant="default"
        aria-label="The next frame"
        disabled={place === last}
        onClick={() => show(place + 1)}
      >
        <IconChevronRight size={16} />
      </ActionIcon>
      <Slider
        style={{ flex: 1, minWidth: 60 }}
        min={0}
        max={Math.max(1, last)}
        value={place}
        onChange={show}
        label={(value) => `step ${number(steps[value] ?? 0)}`}
        thumbLabel="Frame"
        attributes={{ thumb: { "aria-valuetext": `step ${number(steps[place]!)}` } }}
        disabled={last === 0}
      />
      <Text size="sm" style={{ whiteSpace: "nowrap", fontVariantNumeric: "tabular-nums" }} role="status">
        step {number(steps[place]!)}
        <Text span size="sm" c="dimmed" visibleFrom="xs">
          {" · "}
          {number(place + 1)} of {number(last + 1)}
          {total > last + 1 && ` (one in ${Math.ceil(total / (last + 1))} of ${number(total)})`}
          {recordedAt && (
            <>
              {" · "}
              <Ago time={recordedAt} />
            </>
          )}
        </Text>
      </Text>
    </Group>
  );
}

interface ThumbnailProps {
  frame: Frame | undefined;
  step: number;
  isShown: boolean;
  left: number;
  choose: () => void;
}

function Thumbnail({ frame, step, isShown, left, choose }: ThumbnailProps) {
  return (
    <button
      type="button"
      role="option"
      aria-selected={isShown}
      aria-current={isShown}
      aria-label={`Step ${number(step)}`}
      title={`step ${number(step)}`}
      tabIndex={-1}
      className={classes.thumbnail}
      style={{ transform: `translateX(${left}px)` }}
      onClick={choose}
    >
      {frame?.address && <img src={frame.address} alt="" loading="lazy" decoding="async" />}
    </button>
  );
}
