/** Which runs to show. */
import { Button, MultiSelect, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback, useDisclosure } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useEffect, useRef, useState } from "react";
import type { RunFacets, RunFilters } from "@/api/runs.ts";
import { plain } from "@/components/agent_text.tsx";
import { RUN_STATUSES } from "@/database.ts";
import { ownerName } from "./columns.tsx";
import classes from "./page.module.css";
import { isFiltered } from "./view.ts";

/** The database's own, and the one that is shown where a run's heartbeat stopped. */
const STATUSES = RUN_STATUSES.flatMap((status) => status === "running" ? [status, "stalled"] : [status]);
const SEARCH_PAUSE_MS = 250;

interface Props {
  filters: RunFilters;
  facets: RunFacets | undefined;
  change: (changes: Partial<RunFilters>) => void;
}

export function Filters(props: Props) {
  const { filters, change } = props;
  const [isOpen, { toggle }] = useDisclosure(isFiltered({ ...filters, search: "" }));
  return (
    <div className={classes.filters} role="search" aria-label="Runs" data-open={isOpen}>
      <SearchInput value={filters.search} change={(search) => change({ search })} />
      <Button hiddenFrom="sm" size="xs" variant="default" onClick={toggle} aria-expanded={isOpen}>Filters</Button>
      <Choices {...props} />
    </div>
  );
}

function Choices({ filters, facets, change }: Props) {
  const owners = (facets?.owners ?? []).map(({ id, name }) => ({ value: id, label: ownerName(id, name) }));
  return (
    <>
      <MultiSelect
        label="Status"
        placeholder={filters.status.length ? undefined : "Any"}
        data={choices([...STATUSES, ...facets?.statuses ?? []], filters.status)}
        value={filters.status}
        onChange={(status) => change({ status })}
        clearable
        clearButtonProps={{ "aria-label": "Any status" }}
        size="xs"
      />
      <Choice
        label="Algorithm"
        data={choices(facets?.algorithms ?? [], [filters.algorithm])}
        value={filters.algorithm}
        change={(algorithm) => change({ algorithm })}
      />
      <Choice
        label="Environment"
        data={choices(facets?.environments ?? [], [filters.environment])}
        value={filters.environment}
        change={(environment) => change({ environment })}
      />
      <Choice
        label="Owner"
        data={filters.owner && !owners.some(({ value }) => value === filters.owner)
          ? [...owners, { value: filters.owner, label: ownerName(filters.owner, null) }]
          : owners}
        value={filters.owner}
        change={(owner) => change({ owner })}
      />
      <Day label="Created from" value={filters.from} max={filters.to} change={(from) => change({ from })} />
      <Day label="Created to" value={filters.to} min={filters.from} change={(to) => change({ to })} />
    </>
  );
}

/** What can be chosen, and what is, even where no run has it any more. */
function choices(known: string[], chosen: (string | null)[]) {
  const values = new Set([...known, ...chosen.filter((value) => value !== null)]);
  return [...values].map((value) => ({ value, label: plain(value) }));
}

function SearchInput({ value, change }: { value: string; change: (search: string) => void }) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  const send = useDebouncedCallback((search: string) => {
    sent.current = search;
    change(search);
  }, SEARCH_PAUSE_MS);
  useEffect(() => {
    // Only what others changed, such as Back: one's own words come later than what one types.
    if (value === sent.current) return;
    sent.current = value;
    setText(value);
  }, [value]);
  return (
    <TextInput
      type="search"
      label="Search"
      placeholder="Name, description or tag"
      leftSection={<IconSearch size={14} aria-hidden />}
      value={text}
      onChange={({ currentTarget }) => {
        setText(currentTarget.value);
        send(currentTarget.value);
      }}
      size="xs"
      className={classes.search}
    />
  );
}

interface ChoiceProps {
  label: string;
  data: { value: string; label: string }[];
  value: string | null;
  change: (value: string | null) => void;
}

function Choice({ label, data, value, change }: ChoiceProps) {
  return (
    <Select
      label={label}
      placeholder="Any"
      data={data}
      value={value}
      onChange={change}
      searchable
      clearable
      clearButtonProps={{ "aria-label": `Any ${label.toLowerCase()}` }}
      nothingFoundMessage="None like this"
      limit={100}
      size="xs"
    />
  );
}

function Day({ label, value, min, max, change }: {
  label: string;
  value: string | null;
  min?: string | null;
  max?: string | null;
  change: (value: string | null) => void;
}) {
  return (
    <TextInput
      type="date"
      label={label}
      value={value ?? ""}
      min={min ?? undefined}
      max={max ?? undefined}
      onChange={({ currentTarget }) => change(currentTarget.value || null)}
      size="xs"
    />
  );
}
