/** Where the configurations of runs part. */
import { Button, Code, Group, Spoiler, Switch, Table, Text, TextInput } from "@mantine/core";
import { type ReactNode, useMemo, useState } from "react";
import { readConfig } from "@/api/runs.ts";
import { plain } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { Empty, Failed, Loading } from "@/components/states.tsx";
import { useLiveMany } from "@/live/query.ts";
import { useSame } from "@/pages/run/charts/same.ts";
import { number } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { type Compared, Swatch } from "./figures.tsx";
import { type ConfigRow, configRows, shown } from "./flatten.ts";
import classes from "./page.module.css";

const DEFAULT_VIEW = { same: false, key: "" };
const ROWS_AT_ONCE = 200;
const LONG_CHARS = 160;

export function ConfigDifferences({ runs }: { runs: Compared[] }) {
  const [view, change] = useView(DEFAULT_VIEW);
  const answers = useLiveMany(runs.map(({ id }) => ({
    subject: id,
    key: ["run config", id],
    read: (signal) => readConfig(id, signal),
  })));
  const configs = useSame(answers.map((answer) => answer.data));
  const rows = useMemo(() => configRows(configs), [configs]);
  const failed = answers.find((answer) => answer.error && answer.data === undefined);
  const isAll = view.same;
  const listed = rows.filter((row) =>
    (isAll || !row.isSame) && row.key.toLowerCase().includes(view.key.trim().toLowerCase())
  );
  const controls = (
    <Group gap="sm">
      <TextInput
        size="xs"
        type="search"
        aria-label="Find a key"
        placeholder="Find a key"
        value={view.key}
        onChange={({ currentTarget }) => change({ key: currentTarget.value })}
      />
      <Switch
        size="xs"
        label="Show keys that are the same"
        checked={isAll}
        onChange={() => change({ same: !isAll })}
      />
    </Group>
  );
  return (
    <Section title="Configuration" aside={controls}>
      {failed
        ? <Failed error={failed.error!} retry={() => void failed.refetch()} />
        : answers.some((answer) => answer.isPending)
        ? <Loading what="Reading the configurations" />
        : listed.length
        ? <ConfigTable runs={runs} rows={listed} />
        : <NoRows rows={rows} isOne={runs.length < 2} isSearched={view.key.trim() !== ""} />}
    </Section>
  );
}

function NoRows({ rows, isOne, isSearched }: { rows: ConfigRow[]; isOne: boolean; isSearched: boolean }) {
  if (!rows.length) {
    return (
      <Empty title="No configuration was recorded">
        Give one to <Code>openmanus_rl.init(config=…)</Code>.
      </Empty>
    );
  }
  if (isSearched) return <Empty title="No such key">Clear the search, or show the keys that are the same too.</Empty>;
  return (
    <Empty title={isOne ? "One run alone has no differences" : "The configurations are the same"}>
      {isOne ? "Add another run, or show the keys that are the same." : `All ${number(rows.length)} keys agree.`}
    </Empty>
  );
}

function ConfigTable({ runs, rows }: { runs: Compared[]; rows: ConfigRow[] }) {
  const [limit, setLimit] = useState(ROWS_AT_ONCE);
  return (
    <>
      <div className={classes.config} role="region" aria-label="Configuration by key" tabIndex={0}>
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Key</Table.Th>
              {runs.map((run) => (
                <Table.Th key={run.id}>
                  <Group gap={6} wrap="nowrap">
                    <Swatch color={run.color} />
                    <Text size="sm" fw={600} truncate title={run.name}>{run.name}</Text>
                  </Group>
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.slice(0, limit).map((row) => (
              <Table.Tr key={row.key}>
                <Table.Th scope="row" className={classes.key}>
                  <span className="om-mono">{plain(row.key)}</span>
                </Table.Th>
                {row.values.map((value, index) => (
                  <ValueCell key={runs[index]!.id} value={value} differs={value !== row.values[0]} />
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      <Group justify="space-between" mt="xs">
        <Text size="xs" c="dimmed">
          {number(rows.length)} {rows.length === 1 ? "key" : "keys"}
          {runs.length > 1 && " · ≠ marks what differs from the first run"}
        </Text>
        {rows.length > limit && (
          <Button size="xs" variant="default" onClick={() => setLimit(limit + ROWS_AT_ONCE)}>
            Show {number(Math.min(ROWS_AT_ONCE, rows.length - limit))} more
          </Button>
        )}
      </Group>
    </>
  );
}

function ValueCell({ value, differs }: { value: string | undefined; differs: boolean }) {
  return (
    <Table.Td className={differs ? classes.differs : undefined}>
      <div className={classes.value}>
        {differs && <span role="img" aria-label="differs">≠</span>}
        {value === undefined ? <Text size="sm" c="dimmed" fs="italic">not set</Text> : <Value text={shown(value)} />}
      </div>
    </Table.Td>
  );
}

function Value({ text }: { text: string }): ReactNode {
  const element = <span className="om-mono" style={{ overflowWrap: "anywhere" }}>{plain(text)}</span>;
  if (text.length <= LONG_CHARS) return element;
  return <Spoiler maxHeight={84} showLabel="Show all of it" hideLabel="Show less">{element}</Spoiler>;
}
