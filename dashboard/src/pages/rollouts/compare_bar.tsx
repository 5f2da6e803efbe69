/** Two rollouts that were chosen to be seen next to each other. */
import { Button, CloseButton, Group, Text } from "@mantine/core";
import { useCallback, useEffect, useRef, useState } from "react";
import { Link } from "react-router";
import { shortId } from "@/view/format.ts";
import styles from "./page.module.css";

/** Which are chosen: held by the URL, but shown at once, as the URL follows a moment later. */
export function useSelection(
  held: string[],
  hold: (selected: string[]) => void,
): [string[], (selected: string[]) => void, (id: string) => void] {
  const [selected, setSelected] = useState(held);
  const heldText = held.join();
  useEffect(() => setSelected(held), [heldText]);
  const select = useCallback((chosen: string[]) => {
    setSelected(chosen);
    hold(chosen);
  }, [hold]);
  const latest = useRef(selected);
  latest.current = selected;
  // The same function always, so that rows need not be made anew.
  const toggle = useCallback((id: string) => select(toggled(latest.current, id)), [select]);
  return [selected, select, toggle];
}

/** Choose one, or choose it no more. Two are compared: a third takes the place of the first. */
export function toggled(selected: string[], id: string): string[] {
  return selected.includes(id) ? selected.filter((other) => other !== id) : [...selected, id].slice(-2);
}

export function CompareBar({ selected, clear }: { selected: string[]; clear: () => void }) {
  const [first, second] = selected;
  if (!first) return null;
  return (
    <Group className={`om-tile ${styles.bar}`} gap="sm" role="region" aria-label="Selected rollouts">
      <Text size="sm">{selected.map(shortId).join(" and ")} selected</Text>
      {second
        ? <Button component={Link} to={`/rollouts/${first}/against/${second}`} size="compact-sm">Compare</Button>
        : <Text size="sm" c="dimmed">Select another to compare</Text>}
      <CloseButton size="sm" aria-label="Select none" onClick={clear} />
    </Group>
  );
}
