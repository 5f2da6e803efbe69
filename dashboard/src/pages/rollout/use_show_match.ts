/** Bring the very place of a match into view, once its turn is there. */
import { type RefObject, useCallback, useRef } from "react";
import type { Match } from "@/api/rollout.ts";

const TRIES = 40;
const TRY_MS = 50;
const TOP_PX = 120;

export function useShowMatch(held: RefObject<unknown>): (match: Match) => void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  return useCallback((match: Match) => {
    clearTimeout(timer.current);
    let tries = 0;
    const look = () => {
      const turn = document.querySelector(`[data-turn="${match.step_number}"]:not([aria-busy="true"])`);
      const mark = turn?.querySelector(`[data-field="${match.field}"] mark`);
      if (mark) {
        const { top, bottom } = mark.getBoundingClientRect();
        if (top >= TOP_PX && bottom <= innerHeight - 20) return;
        held.current = null;
        mark.scrollIntoView({ block: "center" });
      } else if (!turn && ++tries < TRIES) {
        timer.current = setTimeout(look, TRY_MS);
      }
    };
    timer.current = setTimeout(look, TRY_MS * 2);
  }, [held]);
}
