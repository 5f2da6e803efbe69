/** Rollouts that were chosen, to do the same with all of them. */
import { CloseButton, Group, Text } from "@mantine/core";
import { type ReactNode, useCallback, useState } from "react";
import { type Actionable, RolloutActions } from "./actions.tsx";
import styles from "./selection.module.css";

export interface Chosen {
  ids: ReadonlySet<string>;
  toggle: (id: string) => void;
  /** Choose all of these, or none of them where all are chosen already. */
  toggleAll: (ids: string[]) => void;
  clear: () => void;
}

export function useChosen(): Chosen {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set<string>());
  const toggle = useCallback((id: string) =>
    setIds((before) => {
      const after = new Set(before);
      if (!after.delete(id)) after.add(id);
      return after;
    }), []);
  const toggleAll = useCallback((all: string[]) =>
    setIds((before) => {
      const isAll = all.every((id) => before.has(id));
      return isAll ? new Set([...before].filter((id) => !all.includes(id))) : new Set([...before, ...all]);
    }), []);
  const clear = useCallback(() => setIds(new Set<string>()), []);
  return { ids, toggle, toggleAll, clear };
}

/** What can be done with those of the rollouts that are chosen; those that are not listed any more are left out. */
export function SelectionBar({ rollouts, chosen, children }: {
  rollouts: Actionable[];
  chosen: Chosen;
  children?: ReactNode;
}) {
  const selected = rollouts.filter(({ id }) => chosen.ids.has(id));
  if (selected.length === 0) return null;
  return (
    <Group className={`om-tile ${styles.bar}`} gap="sm" role="region" aria-label="Selected rollouts">
      <Text size="sm">{selected.length.toLocaleString("en-US")} selected</Text>
      {children}
      <RolloutActions rollouts={selected} onDone={chosen.clear} />
      <CloseButton size="sm" aria-label="Select none" onClick={chosen.clear} />
    </Group>
  );
}
