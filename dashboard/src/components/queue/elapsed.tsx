import { useNow } from "@/components/clock.ts";
import { dateTime, duration } from "@/view/format.ts";

/** How long it has been since a time, kept true; with an end, how long it took. */
export function Elapsed({ from, to }: { from: string | null; to?: string | null }) {
  const now = useNow();
  if (!from) return "—";
  const milliseconds = (to ? Date.parse(to) : now) - Date.parse(from);
  // Clocks differ a little.
  return (
    <time dateTime={from} title={`since ${dateTime(from)}`}>
      {duration(to ? milliseconds : Math.max(1000, Math.floor(milliseconds / 1000) * 1000))}
    </time>
  );
}
