import { Group, Progress, Text } from "@mantine/core";
import { percent, UNKNOWN } from "@/view/format.ts";

/** A share as a bar and a number; a dash where there is nothing to share. */
export function RateBar({ rate, part, whole }: { rate: number | null; part: number; whole: number }) {
  if (rate === null) return <Text size="sm">{UNKNOWN}</Text>;
  const label = `${part.toLocaleString("en-US")} of ${whole.toLocaleString("en-US")}`;
  return (
    <Group gap={8} wrap="nowrap" title={label}>
      <Progress value={100 * rate} w={64} size="sm" aria-label={`${percent(rate)}, ${label}`} />
      <Text size="sm" style={{ fontVariantNumeric: "tabular-nums", whiteSpace: "nowrap" }}>{percent(rate, 0)}</Text>
    </Group>
  );
}
