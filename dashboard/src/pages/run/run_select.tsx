/** Choose another run by a part of its name. */
import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { findRuns, type RunName } from "@/api/runs.ts";
import { plain } from "@/components/agent_text.tsx";
import { useLive } from "@/live/query.ts";
import { ago } from "@/view/format.ts";

interface Props {
  label: string;
  /** Runs that cannot be chosen (again). */
  without: string[];
  onChoose: (id: string) => void;
  size?: "xs" | "sm";
}

export function RunSelect({ label, without, onChoose, size = "xs" }: Props) {
  const [search, setSearch] = useState("");
  const [isOpen, setIsOpen] = useState(false);
  const [wanted] = useDebouncedValue(search, 200);
  const found = useLive("*", ["run names", wanted], (signal) => findRuns(wanted, 20, signal), {
    enabled: isOpen,
    keep: true,
  });
  const choices = (found.data ?? []).filter((run) => !without.includes(run.id));
  return (
    <Select
      size={size}
      w={size === "xs" ? 200 : 320}
      maw="100%"
      searchable
      aria-label={label}
      placeholder={label}
      value={null}
      searchValue={search}
      onSearchChange={setSearch}
      onDropdownOpen={() => setIsOpen(true)}
      onDropdownClose={() => setIsOpen(false)}
      // The server found them: by more than the label says.
      filter={({ options }) => options}
      nothingFoundMessage={found.isPending ? "Reading…" : "No other run has such a name"}
      data={choices.map((run) => ({ value: run.id, label: labelOf(run) }))}
      onChange={(id) => {
        if (id) onChoose(id);
        setSearch("");
      }}
    />
  );
}

function labelOf(run: RunName): string {
  const further = run.run_name && run.run_name !== run.name ? ` · ${run.run_name}` : "";
  return `${plain(run.name + further)} · ${ago(run.created_at)}`;
}
