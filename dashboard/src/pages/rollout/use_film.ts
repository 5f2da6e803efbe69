/** The video of a rollout and its turns, kept together: who chooses one moves the other. */
import { type RefObject, useCallback, useMemo, useRef, useState } from "react";
import { readVideoTimes } from "@/api/rollout.ts";
import { useLive } from "@/live/query.ts";
import { filmOf, isNear, secondsOf, turnAt } from "./film.ts";

export interface Player {
  video: RefObject<HTMLVideoElement | null>;
  /** The turn that is in the picture; null: unknown, or a turn was chosen since. */
  shown: number | null;
  isPlaying: boolean;
  hasTimes: boolean;
  secondsOf: (step: number) => number | null;
  /** Move the video to a turn. */
  seek: (step: number) => void;
  events: {
    onTimeUpdate: () => void;
    onSeeked: () => void;
    onPlay: () => void;
    onPause: () => void;
  };
}

export function useFilm(rolloutId: string, runId: string | null, hasVideo: boolean): Player {
  const times = useLive(runId, ["rollout", rolloutId, "video-times"], (signal) => readVideoTimes(rolloutId, signal), {
    enabled: hasVideo,
  }).data;
  const film = useMemo(() => filmOf(times ?? { step_numbers: [], seconds: [] }), [times]);
  const video = useRef<HTMLVideoElement>(null);
  const sought = useRef<{ step: number; time: number } | null>(null);
  const [shown, setShown] = useState<number | null>(null);
  const [isPlaying, setPlaying] = useState(false);

  const look = useCallback(() => {
    const time = video.current?.currentTime;
    if (time === undefined) return;
    // Several turns may begin at the same time: the one that was asked for is meant.
    const isSought = sought.current !== null && isNear(time, sought.current.time);
    setShown(isSought ? sought.current!.step : turnAt(film, time));
  }, [film]);
  const seek = useCallback((step: number) => {
    const time = secondsOf(film, step);
    if (!video.current || time === null) return;
    sought.current = { step, time };
    video.current.currentTime = time;
    setShown(step);
  }, [film]);
  const events = useMemo(() => ({
    onTimeUpdate: look,
    onSeeked: look,
    onPlay: () => setPlaying(true),
    onPause: () => setPlaying(false),
  }), [look]);
  const at = useCallback((step: number) => secondsOf(film, step), [film]);
  return useMemo(
    () => ({ video, shown, isPlaying, hasTimes: film.steps.length > 0, secondsOf: at, seek, events }),
    [shown, isPlaying, film, at, seek, events],
  );
}
