import { useEffect, useRef, useState } from "react";

/** A list held by the URL that answers at once: the URL follows a moment later, and others may change it. */
export function useSelection(
  held: string[],
  hold: (ids: string[]) => void,
): [ids: string[], select: (ids: string[]) => void] {
  const [ids, setIds] = useState(held);
  const text = held.join();
  const sent = useRef(text);
  useEffect(() => {
    if (text === sent.current) return;
    sent.current = text;
    setIds(text ? text.split(",") : []);
  }, [text]);
  const select = (next: string[]) => {
    sent.current = next.join();
    setIds(next);
    hold(next);
  };
  return [ids, select];
}
