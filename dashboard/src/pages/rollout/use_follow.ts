/** Stay at the end of a rollout that grows, as long as one is there. */
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import type { useVirtualTurns } from "./use_virtual_turns.ts";

export function useFollow(turns: ReturnType<typeof useVirtualTurns>, count: number, isRunning: boolean) {
  const [isFollowing, setFollowing] = useState(false);
  const latest = useRef(turns);
  latest.current = turns;

  useEffect(() => {
    if (!isRunning) return;
    const look = () => {
      // What is held was jumped to by the page, not by the person.
      if (!latest.current.held.current) setFollowing(latest.current.isAtEnd);
    };
    const afterwards = () => setTimeout(look, 120);
    const first = afterwards();
    addEventListener("scroll", afterwards, { passive: true });
    return () => {
      clearTimeout(first);
      removeEventListener("scroll", afterwards);
    };
  }, [isRunning]);

  const known = useRef(count);
  useLayoutEffect(() => {
    if (isFollowing && count > known.current) latest.current.jump(count - 1, "end");
    known.current = count;
  }, [count, isFollowing]);

  const set = (follow: boolean) => {
    setFollowing(follow);
    if (follow) latest.current.jump(count - 1, "end");
    else latest.current.held.current = null;
  };
  return { isFollowing: isFollowing && isRunning, set };
}
