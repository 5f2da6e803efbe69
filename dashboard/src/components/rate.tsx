import { Group, Progress, Text } from "@mantine/core";
import { partOf, percent, UNKNOWN } from "@/view/format.ts";

interface Props {
  rate: number | null;
  /** A rate may be known without the counts that it was made from. */
  part: number | null;
  whole: number | null;
}

/** A share as a bar and a number; a dash where there is nothing to share. */
export function RateBar({ rate, part, whole }: Props) {
  if (rate === null) return <Text size="sm">{UNKNOWN}</Text>;
  const counts = partOf(part, whole);
  return (
    <Group gap={8} wrap="nowrap" title={counts ?? undefined}>
      <Progress
        value={100 * rate}
        w={64}
        size="sm"
        aria-label={[percent(rate), counts].filter((text) => text !== null).join(", ")}
      />
      <Text size="sm" style={{ fontVariantNumeric: "tabular-nums", whiteSpace: "nowrap" }}>{percent(rate, 0)}</Text>
    </Group>
  );
}
