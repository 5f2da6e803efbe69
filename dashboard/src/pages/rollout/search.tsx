/** Search within a rollout: how often, where, and from one place to the next. */
import { ActionIcon, Group, Loader, Text, TextInput } from "@mantine/core";
import { IconChevronDown, IconChevronUp, IconSearch } from "@tabler/icons-react";
import { useDebouncedCallback } from "@mantine/hooks";
import { type KeyboardEvent, type Ref, useEffect, useMemo, useRef, useState } from "react";
import { type Match, searchRollout } from "@/api/rollout.ts";
import { Marked, plain } from "@/components/agent_text.tsx";
import { useLive } from "@/live/query.ts";

export interface Search {
  text: string | null;
  matches: readonly Match[];
  /** Which of them one is at; -1 before the first. */
  at: number;
  hasMore: boolean;
  isReading: boolean;
  error: Error | null;
  go: (by: number) => void;
}

const NONE: readonly Match[] = [];

/** The first match in a direction from a turn on; around the end where there is none. */
function nearest(matches: readonly Match[], step: number, by: number): number {
  const found = by > 0
    ? matches.findIndex(({ step_number }) => step_number >= step)
    : matches.findLastIndex(({ step_number }) => step_number <= step);
  return found >= 0 ? found : by > 0 ? 0 : matches.length - 1;
}

export function useSearch(
  id: string,
  runId: string | null,
  text: string | null,
  /** The turn one is at: the search begins there. */
  from: () => number,
  onMatch: (match: Match) => void,
): Search {
  const query = useLive(runId, ["rollout", id, "search", text], (signal) => searchRollout(id, text!, signal), {
    enabled: !!text,
  });
  const [at, setAt] = useState(-1);
  useEffect(() => setAt(-1), [text]);
  const matches = query.data?.matches ?? NONE;
  const latest = useRef(from);
  latest.current = from;
  return useMemo(() => ({
    text,
    matches,
    at,
    hasMore: query.data?.more ?? false,
    isReading: query.isFetching && !query.data,
    error: query.error,
    go: (by: number) => {
      if (!matches.length) return;
      const next = at < 0 ? nearest(matches, latest.current(), by) : (at + by + matches.length) % matches.length;
      setAt(next);
      onMatch(matches[next]!);
    },
  }), [text, matches, at, query.data, query.isFetching, query.error, onMatch]);
}

const TYPING_MS = 250;

export function SearchBox({ search, onText, inputRef }: {
  search: Search;
  onText: (text: string | null) => void;
  inputRef: Ref<HTMLInputElement>;
}) {
  const [typed, setTyped] = useState(search.text ?? "");
  const settle = useDebouncedCallback(onText, TYPING_MS);
  useEffect(() => setTyped(search.text ?? ""), [search.text]);
  const press = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === "Enter") search.go(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") event.currentTarget.blur();
  };
  return (
    <Group gap={4} wrap="nowrap" style={{ flex: "0 1 auto", minWidth: 0 }}>
      <TextInput
        ref={inputRef}
        size="xs"
        w={200}
        type="search"
        aria-label="Search in this rollout"
        placeholder="Search in the turns ( / )"
        leftSection={<IconSearch size={14} aria-hidden />}
        value={typed}
        onChange={({ currentTarget: { value } }) => {
          setTyped(value);
          settle(value || null);
        }}
        onKeyDown={press}
      />
      <Text size="xs" role="status" px={4} style={{ fontVariantNumeric: "tabular-nums", whiteSpace: "nowrap" }}>
        <Count search={search} />
      </Text>
      {search.text && <Steps search={search} />}
    </Group>
  );
}

function Steps({ search }: { search: Search }) {
  const isEmpty = !search.matches.length;
  return (
    <>
      <ActionIcon
        variant="default"
        size="sm"
        aria-label="Previous match"
        disabled={isEmpty}
        onClick={() => search.go(-1)}
      >
        <IconChevronUp size={14} />
      </ActionIcon>
      <ActionIcon variant="default" size="sm" aria-label="Next match" disabled={isEmpty} onClick={() => search.go(1)}>
        <IconChevronDown size={14} />
      </ActionIcon>
    </>
  );
}

function Count({ search }: { search: Search }) {
  const { text, matches, at, hasMore, isReading, error } = search;
  if (!text) return null;
  if (isReading) return <Loader size={12} aria-label="Searching" />;
  if (error) return "Search failed";
  if (!matches.length) return "No match";
  const total = `${matches.length.toLocaleString("en-US")}${hasMore ? "+" : ""}`;
  return at < 0 ? `${total} ${matches.length === 1 ? "match" : "matches"}` : `${at + 1} of ${total}`;
}

const FIELDS: Record<string, string> = {
  tool_input: "tool input",
  tool_output: "tool output",
  memory_summary: "memory",
};

/** The match one is at, in its own words: it may lie deep in a text of which only the beginning is shown. */
export function CurrentMatch({ search }: { search: Search }) {
  const match = search.matches[search.at];
  if (!match) return null;
  return (
    <Text size="xs" truncate style={{ flexBasis: "100%" }} title={plain(match.snippet)}>
      <Text span size="xs" c="dimmed">
        Turn {match.step_number}, {FIELDS[match.field] ?? match.field}, character {match.at.toLocaleString("en-US")}:
      </Text>{" "}
      <span className="om-agent-text" style={{ whiteSpace: "nowrap" }}>
        <Marked text={match.snippet.replace(/\s+/g, " ")} find={search.text} />
      </span>
    </Text>
  );
}
