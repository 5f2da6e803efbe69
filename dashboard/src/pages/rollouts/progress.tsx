/** How far a search has come, and what can be done about it. */
import { Button, Group, Loader, Text } from "@mantine/core";
import { useIntersection } from "@mantine/hooks";
import { useEffect } from "react";
import { isSlow } from "@/api/rollouts.ts";
import { Failed } from "@/components/states.tsx";
import { dateTime, number } from "@/view/format.ts";
import type { Progress, Search } from "./search.ts";

function extent({ searched, searchedTo }: Progress, sort: string | undefined): string {
  const way = sort === "oldest" ? "up to" : "back to";
  const isByTime = sort === "newest" || sort === "oldest";
  const where = searchedTo && isByTime ? ` ${way} ${dateTime(searchedTo)}` : "";
  return `${number(searched)} ${searched === 1 ? "rollout" : "rollouts"}${where}`;
}

export function SearchProgress({ search, progress }: { search: Search; progress: Progress }) {
  const { state, rows, error } = progress;
  const extentText = extent(progress, search.filters.sort);
  const more = () => void search.more();
  if (state === "failed" && error) return <Failed error={error} retry={more} />;
  if (state === "searching") {
    return (
      <Group gap="sm" py="sm" justify="center">
        <Loader size="xs" />
        <Text size="sm">{progress.searched ? `Searched ${extentText}…` : "Searching…"}</Text>
        <Button size="compact-sm" variant="default" onClick={() => search.stop()}>Stop</Button>
      </Group>
    );
  }
  return (
    <Group gap="sm" py="sm" justify="center">
      <Text size="sm" c="dimmed" role="status">
        {state === "ended" && `End reached: ${number(rows.length)} found.`}
        {state === "stopped" && `Stopped. Searched ${extentText}; ${number(rows.length)} found.`}
        {state === "full" && `${number(rows.length)} shown${isSlow(search.filters) ? `, ${extentText} searched` : ""}.`}
      </Text>
      {state === "stopped" && <Button size="compact-sm" variant="default" onClick={more}>Continue</Button>}
      {state === "full" && <LoadMore more={more} />}
    </Group>
  );
}

/** Loads by itself when one scrolls to it, and when it is pressed. */
function LoadMore({ more }: { more: () => void }) {
  const { ref, entry } = useIntersection<HTMLButtonElement>({ rootMargin: "400px" });
  useEffect(() => {
    // Only one who has scrolled wants more; a tall screen that shows the button at once does not.
    if (entry?.isIntersecting && scrollY > 0) more();
  }, [entry?.isIntersecting]);
  return <Button ref={ref} size="compact-sm" variant="default" onClick={more}>Load more</Button>;
}
