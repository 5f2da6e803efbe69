import { Button, CloseButton, Code, Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import { readSettings, type Run, type RunSettings } from "@/api/run.ts";
import { readListedRun } from "@/api/runs.ts";
import { Copy, Marked, plain } from "@/components/agent_text.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { number, UNKNOWN } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { Listing } from "../listing.tsx";
import classes from "../page.module.css";
import { RunSelect } from "../run_select.tsx";
import { type Difference, differences, entriesOf, type Entry } from "./entries.ts";

const PARTS = [
  { value: "config", label: "Configuration" },
  { value: "summary", label: "Summary" },
  { value: "metadata", label: "Metadata" },
];
type Part = keyof RunSettings;

export function ConfigurationTab({ run }: { run: Run }) {
  const query = useLive(run.id, ["run settings", run.id], (signal) => readSettings(run.id, signal));
  const [view, change] = useView({ part: "config", key: "", raw: false as boolean, diff: null as string | null });
  const part = (PARTS.some(({ value }) => value === view.part) ? view.part : "config") as Part;
  return (
    <>
      <Group mb="sm" gap="8px 16px">
        <SegmentedControl
          size="xs"
          aria-label="Which settings"
          data={PARTS}
          value={part}
          onChange={(value) => change({ part: value })}
        />
        <TextInput
          size="xs"
          w={220}
          type="search"
          aria-label="Search keys and values"
          placeholder="Search keys and values"
          leftSection={<IconSearch size={14} aria-hidden />}
          value={view.key}
          onChange={(event) => change({ key: event.currentTarget.value })}
        />
        <RunSelect label="Difference to…" without={[run.id]} onChoose={(id) => change({ diff: id })} />
        {!view.diff && (
          <Button
            size="compact-sm"
            variant="default"
            aria-pressed={view.raw}
            onClick={() => change({ raw: !view.raw })}
          >
            {view.raw ? "As a table" : "As JSON"}
          </Button>
        )}
      </Group>
      <Found query={query} what="Reading the configuration">
        {(settings) =>
          view.diff
            ? (
              <Against
                run={run}
                otherId={view.diff}
                here={settings[part]}
                part={part}
                find={view.key}
                close={() => change({ diff: null })}
              />
            )
            : view.raw
            ? <Raw settings={settings[part]} />
            : <Flat settings={settings[part]} part={part} find={view.key} />}
      </Found>
    </>
  );
}

function Raw({ settings }: { settings: unknown }) {
  const text = JSON.stringify(settings, null, 2);
  return (
    <Stack gap={4}>
      <Group gap={4}>
        <Copy text={text} what="Copy the JSON" />
      </Group>
      <div className={classes.raw} role="region" aria-label="JSON" tabIndex={0}>
        <pre className="om-agent-text" data-agent-text>{plain(text)}</pre>
      </div>
    </Stack>
  );
}

function matches(find: string, ...texts: (string | null)[]): boolean {
  const wanted = find.toLowerCase();
  return !wanted || texts.some((text) => text?.toLowerCase().includes(wanted));
}

const FIRST_ROWS = 300;

/** So many rows that no browser suffers; more on request. */
function useFirst<T>(rows: T[]) {
  const [shown, setShown] = useState(FIRST_ROWS);
  return {
    rows: rows.slice(0, shown),
    more: { hasMore: rows.length > shown, isReading: false, read: () => setShown((before) => before + FIRST_ROWS) },
  };
}

const EMPTY: Record<Part, string> = {
  config: 'openmanus_rl.init(name="…", config={"learning_rate": 1e-5})',
  summary: 'TrainingRunManager.update(run_id, summary={"best_reward": 1.7})',
  metadata: 'TrainingRunManager.update(run_id, metadata={"commit": "…"})',
};

function Flat({ settings, part, find }: { settings: unknown; part: Part; find: string }) {
  const entries = useMemo(() => entriesOf(settings), [settings]);
  const found = entries.filter(({ path, value }) => matches(find, path, value));
  const { rows, more } = useFirst(found);
  if (!entries.length) {
    return (
      <Empty title="Nothing was recorded">
        Record it: <Code>{EMPTY[part]}</Code>
      </Empty>
    );
  }
  if (!found.length) return <Empty title="Nothing matches">Change or clear the search.</Empty>;
  return (
    <>
      <Text size="sm" c="dimmed" role="status">{number(found.length)} of {number(entries.length)} entries</Text>
      <Listing<Entry>
        label="Settings"
        rows={rows}
        more={more}
        keyOf={(entry) => entry.path}
        columns={[
          { label: "Key", isWide: true, show: (entry) => <Mono text={entry.path} find={find} /> },
          { label: "Value", isWide: true, show: (entry) => <Mono text={entry.value} find={find} /> },
        ]}
      />
    </>
  );
}

function Mono({ text, find }: { text: string | null; find: string }) {
  if (text === null) return <Text span c="dimmed">{UNKNOWN}</Text>;
  return (
    <pre className="om-agent-text"><Marked text={text.length > 2000 ? `${text.slice(0, 2000)}…` : text} find={find} /></pre>
  );
}

function Against({ run, otherId, here, part, find, close }: {
  run: Run;
  otherId: string;
  here: unknown;
  part: Part;
  find: string;
  close: () => void;
}) {
  const other = useLive(otherId, ["run settings", otherId], (signal) => readSettings(otherId, signal));
  const named = useLive(otherId, ["listed run", otherId], (signal) => readListedRun(otherId, signal));
  const name = plain(named.data?.name ?? "the other run");
  return (
    <Stack gap="xs">
      <Group gap={4}>
        <Text size="sm">
          What differs from <Link to={`/runs/${otherId}?tab=configuration`}>{name}</Link>
        </Text>
        <CloseButton size="sm" aria-label="Show all settings" onClick={close} />
      </Group>
      <Found query={other} what="Reading the other run's configuration">
        {(there) => <Differences here={here} there={there[part]} find={find} names={[plain(run.name), name]} />}
      </Found>
    </Stack>
  );
}

const SIGNS = { added: "+ only here", removed: "− only there", changed: "≠ changed" };

function Differences(
  { here, there, find, names }: { here: unknown; there: unknown; find: string; names: [string, string] },
) {
  const all = useMemo(() => differences(entriesOf(here), entriesOf(there)), [here, there]);
  const found = all.filter((one) => matches(find, one.path, one.here, one.there));
  const { rows, more } = useFirst(found);
  if (!all.length) return <Empty title="Nothing differs">Both runs have the same settings here.</Empty>;
  return (
    <Listing<Difference>
      label="Differences"
      rows={rows}
      more={more}
      keyOf={(one) => one.path}
      columns={[
        {
          label: "Difference",
          show: (one) => <Text size="sm" style={{ whiteSpace: "nowrap" }}>{SIGNS[one.kind]}</Text>,
        },
        { label: "Key", isWide: true, show: (one) => <Mono text={one.path} find={find} /> },
        { label: `Here: ${names[0]}`, isWide: true, show: (one) => <Mono text={one.here} find={find} /> },
        { label: `There: ${names[1]}`, isWide: true, show: (one) => <Mono text={one.there} find={find} /> },
      ]}
    />
  );
}
