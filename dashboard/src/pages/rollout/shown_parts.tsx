/** Which parts of turns are shown. */
import { Chip, Group } from "@mantine/core";

export const PARTS = [
  { name: "observation", label: "Observation" },
  { name: "thought", label: "Thought" },
  { name: "action", label: "Action" },
  { name: "tools", label: "Tools" },
  { name: "rewards", label: "Rewards" },
] as const;

export type PartName = typeof PARTS[number]["name"];

export function ShownParts({ hide, onChange }: { hide: string[]; onChange: (hide: string[]) => void }) {
  return (
    <Group gap={4} role="group" aria-label="What is shown of each turn">
      {PARTS.map(({ name, label }) => (
        <Chip
          key={name}
          size="xs"
          variant="outline"
          radius="sm"
          checked={!hide.includes(name)}
          onChange={(isShown) => onChange(isShown ? hide.filter((one) => one !== name) : [...hide, name])}
        >
          {label}
        </Chip>
      ))}
    </Group>
  );
}
