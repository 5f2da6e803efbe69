import { Button, Group, Text } from "@mantine/core";
import { number } from "@/view/format.ts";

interface Props {
  shown: number;
  total: number;
  what: string;
  /** null: no more can be listed. */
  more: (() => void) | null;
}

/** That a list is not whole, and the way to more of it. */
export function More({ shown, total, what, more }: Props) {
  if (shown >= total) return null;
  return (
    <Group mt="xs" gap="sm">
      <Text size="sm" c="dimmed">{number(shown)} of {number(total)} {what} are listed.</Text>
      {more && <Button size="compact-sm" variant="default" onClick={more}>List more</Button>}
    </Group>
  );
}
