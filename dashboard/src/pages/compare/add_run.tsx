import { Select, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { findRuns } from "@/api/runs.ts";
import { plain } from "@/components/agent_text.tsx";
import { useLive } from "@/live/query.ts";
import { ago, shortId } from "@/view/format.ts";
import { MOST_COMPARED } from "./limits.ts";

const CHOICES = 20;
const SEARCH_PAUSE_MS = 250;

/** Search all runs for one more to compare; the server searches, for there may be thousands. */
export function AddRun({ chosen, add }: { chosen: string[]; add: (id: string) => void }) {
  const [text, setText] = useState("");
  const [isOpen, setIsOpen] = useState(false);
  const [search] = useDebouncedValue(text, SEARCH_PAUSE_MS);
  const isFull = chosen.length >= MOST_COMPARED;
  const wanted = CHOICES + MOST_COMPARED;
  const found = useLive("*", ["find runs", search, wanted], (signal) => findRuns(search, wanted, signal), {
    enabled: isOpen,
    keep: true,
  });
  const runs = (found.data ?? []).filter((run) => !chosen.includes(run.id)).slice(0, CHOICES);
  const times = new Map(runs.map((run) => [run.id, `${run.shown_status}, ${ago(run.created_at)}`]));
  return (
    <Select
      aria-label="Add a run"
      placeholder={isFull ? `${MOST_COMPARED} runs at most` : "Add a run"}
      leftSection={<IconPlus size={14} aria-hidden />}
      disabled={isFull}
      size="xs"
      w={260}
      searchable
      value={null}
      searchValue={text}
      onSearchChange={setText}
      onDropdownOpen={() => setIsOpen(true)}
      onDropdownClose={() => setIsOpen(false)}
      onChange={(id) => {
        if (id) add(id);
        setText("");
      }}
      data={runs.map((run) => ({ value: run.id, label: `${plain(run.name)} (${shortId(run.id)})` }))}
      // The server found them, also by what is not in the label.
      filter={({ options }) => options}
      renderOption={({ option }) => (
        <div>
          <Text size="sm">{option.label}</Text>
          <Text size="xs" c="dimmed">{times.get(option.value)}</Text>
        </div>
      )}
      nothingFoundMessage={found.isPending || search !== text ? "Searching…" : "No run matches"}
      maxDropdownHeight={320}
    />
  );
}
