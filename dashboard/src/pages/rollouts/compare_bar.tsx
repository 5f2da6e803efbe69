/** Two rollouts that were chosen to be seen next to each other. */
import { Button, CloseButton, Group, Text } from "@mantine/core";
import { Link } from "react-router";
import { shortId } from "@/view/format.ts";
import styles from "./page.module.css";

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
