/** The trials of a sweep as a table that can be sorted. */
import { Badge, Checkbox, Group, Pagination, Table, Text } from "@mantine/core";
import { useMemo } from "react";
import { Link } from "react-router";
import type { Trial } from "@/api/sweeps.ts";
import { plain } from "@/components/agent_text.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { number, UNKNOWN } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { valueOf } from "./results.ts";
import { shortName, wordOf } from "./scales.ts";
import classes from "./sweep.module.css";

interface Props {
  trials: Trial[];
  parameters: string[];
  metric: string;
  best: number | null;
  hovered: number | null;
  setHovered: (trial: number | null) => void;
  chosen: number[];
  choose: (trials: number[]) => void;
}

const PAGE = 50;
const VALUE = "value";

/** What a trial is sorted by in a column; null is last either way. */
function keyOf(trial: Trial, column: string): number | string | null {
  if (column === "trial") return trial.trial;
  if (column === VALUE) return valueOf(trial);
  if (column === "status") return trial.status;
  const value = (trial.parameters as Record<string, unknown>)[column];
  return typeof value === "number" ? value : value === undefined ? null : wordOf(value);
}

export function sorted(trials: Trial[], column: string, isDescending: boolean): Trial[] {
  const sign = isDescending ? -1 : 1;
  return trials.map((trial) => ({ trial, key: keyOf(trial, column) })).sort((a, b) => {
    if (a.key === null || b.key === null) return Number(a.key === null) - Number(b.key === null);
    const order = typeof a.key === "number" && typeof b.key === "number"
      ? a.key - b.key
      : String(a.key).localeCompare(String(b.key));
    return sign * order || a.trial.trial - b.trial.trial;
  }).map(({ trial }) => trial);
}

export function TrialTable({ trials, parameters, metric, best, hovered, setHovered, chosen, choose }: Props) {
  const [view, change] = useView({ sort: "trial", descending: false as boolean, page: 1 });
  const rows = useMemo(() => sorted(trials, view.sort, view.descending), [trials, view.sort, view.descending]);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const page = Math.min(Math.max(1, view.page), pages);
  const listed = rows.slice((page - 1) * PAGE, page * PAGE);
  const head = (column: string, label: string, isNumber = false) => (
    <Heading
      key={column}
      label={label}
      isNumber={isNumber}
      sort={view.sort === column ? (view.descending ? "descending" : "ascending") : "none"}
      press={() => change({ sort: column, descending: view.sort === column ? !view.descending : false, page: 1 })}
    />
  );
  return (
    <>
      <ScrollTable label="Trials" minWidth={420 + 110 * parameters.length}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={34}>
              <Checkbox
                size="xs"
                aria-label="Select all trials that are listed"
                checked={listed.length > 0 && listed.every(({ trial }) => chosen.includes(trial))}
                indeterminate={listed.some(({ trial }) => chosen.includes(trial)) &&
                  !listed.every(({ trial }) => chosen.includes(trial))}
                onChange={({ currentTarget }) => choose(currentTarget.checked ? listed.map(({ trial }) => trial) : [])}
              />
            </Table.Th>
            {head("trial", "Trial")}
            {head("status", "Status")}
            {head(VALUE, metric, true)}
            {parameters.map((path) => head(path, shortName(path), true))}
            <Table.Th className={classes.number}>Took</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {listed.map((trial) => (
            <Table.Tr
              key={trial.trial}
              className={hovered === trial.trial ? classes.hovered : undefined}
              onPointerEnter={() => setHovered(trial.trial)}
              onPointerLeave={() => setHovered(null)}
            >
              <Table.Td>
                <Checkbox
                  size="xs"
                  aria-label={`Select trial ${trial.trial}`}
                  checked={chosen.includes(trial.trial)}
                  onChange={({ currentTarget }) =>
                    choose(
                      currentTarget.checked ? [...chosen, trial.trial] : chosen.filter((each) => each !== trial.trial),
                    )}
                />
              </Table.Td>
              <Table.Td>
                <Group gap={6} wrap="nowrap">
                  {trial.training_run_id
                    ? <Link to={`/runs/${trial.training_run_id}`} title={plain(trial.name ?? "")}>{trial.trial}</Link>
                    : <Text size="sm" title="Its run was deleted">{trial.trial}</Text>}
                  {best === trial.trial && <Badge size="xs" color="teal" variant="light">best</Badge>}
                </Group>
              </Table.Td>
              <Table.Td>
                <StatusBadge status={statusOf(trial)} />
              </Table.Td>
              <Table.Td className={classes.number}>{trial.value === null ? UNKNOWN : number(trial.value)}</Table.Td>
              {parameters.map((path) => (
                <Table.Td key={path} className={classes.number}>
                  <Parameter value={(trial.parameters as Record<string, unknown>)[path]} />
                </Table.Td>
              ))}
              <Table.Td className={classes.number}>
                <Elapsed from={trial.started_at} to={trial.finished_at} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </ScrollTable>
      <Group justify="space-between" mt="xs">
        <Text size="sm" c="dimmed">{number(rows.length)} {rows.length === 1 ? "trial" : "trials"}</Text>
        {pages > 1 && (
          <Pagination
            size="sm"
            total={pages}
            value={page}
            onChange={(next) => change({ page: next })}
            getControlProps={(control) => ({ "aria-label": `${control} page` })}
          />
        )}
      </Group>
    </>
  );
}

/** Before its run says something, its job does. */
function statusOf(trial: Trial): string | null {
  if (trial.is_pruned) return "stopped early";
  return trial.status === "pending" ? trial.job_status ?? trial.status : trial.status;
}

function Parameter({ value }: { value: unknown }) {
  if (value === undefined) return UNKNOWN;
  if (typeof value === "number") return number(value);
  const word = plain(wordOf(value));
  return (
    <Text span size="sm" truncate maw={180} display="inline-block" title={word} style={{ verticalAlign: "bottom" }}>
      {word}
    </Text>
  );
}

interface HeadingProps {
  label: string;
  isNumber: boolean;
  sort: "ascending" | "descending" | "none";
  press: () => void;
}

function Heading({ label, isNumber, sort, press }: HeadingProps) {
  return (
    <Table.Th aria-sort={sort} className={isNumber ? classes.number : undefined}>
      <button type="button" className={classes.sort} onClick={press} title={plain(label)}>
        <span>{plain(label)}</span> {sort === "ascending" ? "↑" : sort === "descending" ? "↓" : ""}
      </button>
    </Table.Th>
  );
}
