/** Controls that write to the URL when one has finished typing. */
import { CloseButton, Group, NumberInput, Select, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback, useDebouncedValue } from "@mantine/hooks";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { runChoices, runName } from "@/api/rollouts.ts";
import { useLive } from "@/live/query.ts";

const TYPING_MS = 400;

/** A draft that follows its value, and becomes it when nobody types any more. */
function useDraft(value: string | null, apply: (value: string | null) => void) {
  const [draft, setDraft] = useState(value ?? "");
  const written = useRef(value);
  const write = (text: string) => {
    written.current = text || null;
    apply(written.current);
  };
  const later = useDebouncedCallback(write, { delay: TYPING_MS, flushOnUnmount: true });
  useEffect(() => {
    // This field's own writing comes back: what has been typed since is newer.
    if (value === written.current) return;
    written.current = value;
    // What is still to be written is older than this.
    later.cancel();
    setDraft(value ?? "");
  }, [value, later]);
  const type = (text: string) => {
    setDraft(text);
    // A field repeats its text when it loses the focus, as to "Clear filters": written late, it would come back.
    if ((text || null) === written.current) later.cancel();
    else later(text);
  };
  return [draft, type, later.flush] as const;
}

interface TextProps {
  label: string;
  value: string | null;
  apply: (value: string | null) => void;
  placeholder?: string;
  icon?: ReactNode;
  grow?: boolean;
  list?: string[];
}

export function TextFilter({ label, value, apply, placeholder, icon, grow, list }: TextProps) {
  const [draft, type, flush] = useDraft(value, apply);
  const listId = list && `choices-of-${label.toLowerCase()}`;
  return (
    <>
      <TextInput
        label={label}
        size="xs"
        value={draft}
        placeholder={placeholder}
        leftSection={icon}
        list={listId}
        style={grow ? { flex: "2 1 260px" } : { flex: "1 1 140px", maxWidth: 240 }}
        onChange={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && flush()}
        rightSection={draft && (
          <CloseButton size="xs" aria-label={`Clear ${label.toLowerCase()}`} onClick={() => (type(""), flush())} />
        )}
      />
      {list && <datalist id={listId}>{list.map((name) => <option key={name} value={name} />)}</datalist>}
    </>
  );
}

interface RangeProps {
  label: string;
  from: string | null;
  to: string | null;
  apply: (bounds: { from?: string | null; to?: string | null }) => void;
  isWhole?: boolean;
}

export function RangeFilter({ label, from, to, apply, isWhole }: RangeProps) {
  return (
    <div role="group" aria-label={label}>
      <Text component="span" fz="xs" fw={600} display="block" mb={2} aria-hidden>{label}</Text>
      <Group gap={4} wrap="nowrap">
        <Bound label={`${label} from`} value={from} apply={(value) => apply({ from: value })} isWhole={isWhole} />
        <Text size="xs" c="dimmed" aria-hidden>to</Text>
        <Bound label={`${label} to`} value={to} apply={(value) => apply({ to: value })} isWhole={isWhole} />
      </Group>
    </div>
  );
}

function Bound({ label, value, apply, isWhole }: {
  label: string;
  value: string | null;
  apply: (value: string | null) => void;
  isWhole?: boolean;
}) {
  const [draft, type, flush] = useDraft(value, apply);
  return (
    <NumberInput
      aria-label={label}
      size="xs"
      w={76}
      hideControls
      value={draft}
      allowDecimal={!isWhole}
      allowNegative={!isWhole}
      onChange={(given) => type(String(given))}
      onKeyDown={(event) => event.key === "Enter" && flush()}
    />
  );
}

/** A time as the browser's own field takes it, in the time zone of who looks. */
function localTime(time: string | null): string {
  const date = time ? new Date(time) : null;
  if (!date || !Number.isFinite(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function TimeFilter({ label, value, apply }: {
  label: string;
  value: string | null;
  apply: (value: string | null) => void;
}) {
  const toText = (local: string) => local ? new Date(local).toISOString() : null;
  return (
    <TextInput
      label={label}
      size="xs"
      type="datetime-local"
      value={localTime(value)}
      onChange={(event) => apply(toText(event.currentTarget.value))}
    />
  );
}

/** One of many runs, found by a part of its name. */
export function RunFilter({ value, apply }: { value: string | null; apply: (value: string | null) => void }) {
  const [search, setSearch] = useState("");
  const [wanted] = useDebouncedValue(search, 200);
  const chosen = useLive(value, ["run-name", value], (signal) => runName(value!, signal), { enabled: value !== null });
  const label = chosen.data ?? (value && chosen.data === null ? `Unknown run ${value.slice(-8)}` : "…");
  // The chosen one's own name is what the field shows, nothing that is looked for.
  const text = wanted === label ? "" : wanted;
  const [isOpen, setIsOpen] = useState(false);
  const choices = useLive("*", ["run-choices", text], (signal) => runChoices(text, signal), {
    keep: true,
    enabled: isOpen,
  });
  const found = choices.data ?? [];
  const isListed = value === null || found.some((choice) => choice.value === value);
  return (
    <Select
      label="Run"
      size="xs"
      style={{ flex: "1 1 200px", maxWidth: 320 }}
      placeholder="Any run"
      searchable
      clearable
      clearButtonProps={{ "aria-label": "Any run" }}
      value={value}
      data={isListed ? found : [{ value: value!, label }, ...found]}
      filter={({ options }) => options}
      onSearchChange={setSearch}
      onDropdownOpen={() => setIsOpen(true)}
      onDropdownClose={() => setIsOpen(false)}
      onChange={apply}
      nothingFoundMessage={choices.data ? "No run of this name" : "Looking…"}
      maxDropdownHeight={320}
    />
  );
}
