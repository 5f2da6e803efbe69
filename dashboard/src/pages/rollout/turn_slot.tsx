/** A place in the list, and the turn in it as soon as its stretch of the rollout is read. */
import { Anchor, Text } from "@mantine/core";
import { type Outline, readTurns, type Turn, WINDOW } from "@/api/rollout.ts";
import { useLive } from "@/live/query.ts";

/** The turn at an index of the outline. Its neighbours share one request. */
export function useTurn(id: string, runId: string | null, outline: Outline, index: number) {
  const start = Math.floor(index / WINDOW) * WINDOW;
  const from = outline.step_numbers[start] ?? 0;
  // A stretch to which turns were added is another one: what is kept of it must not hide them.
  const count = Math.min(WINDOW, outline.turns - start);
  const query = useLive(
    runId,
    ["rollout", id, "turns", from, count],
    (signal) => readTurns(id, from, WINDOW, signal),
    { keep: true, enabled: index >= 0 },
  );
  const step = outline.step_numbers[index];
  const turn = index < 0 ? undefined : query.data?.find(({ step_number }) => step_number === step);
  return { turn, query };
}

export function Unread({ retry }: { retry: () => void }) {
  return (
    <Text size="sm" c="dimmed">
      This turn could not be read. <Anchor component="button" type="button" size="sm" onClick={retry}>Try again</Anchor>
    </Text>
  );
}

const LINE_PX = 19.5;
const MOST_TEXT_PX = 700;

/** How high a turn will be, about, by what the outline knows of it. */
export function estimateHeight(outline: Outline, index: number): number {
  const lineChars = innerWidth < 700 ? 42 : 105;
  const text = Math.min(MOST_TEXT_PX, LINE_PX * (2 + (outline.chars[index] ?? 0) / lineChars));
  return 74 + text + (outline.tools[index] ?? 0) * 130 + (outline.rewards[index] === null ? 0 : 30);
}

export type { Turn };
