/** How a task goes by agent and model: success rate and pass@k. */
import { Group, Table, Text } from "@mantine/core";
import { type TaskResults, taskResults } from "@/api/tasks.ts";
import { plain } from "@/components/agent_text.tsx";
import { Chart } from "@/components/chart/chart.tsx";
import { Ago, Section } from "@/components/page.tsx";
import { RateBar } from "@/components/rate.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { compact, number, percent, UNKNOWN } from "@/view/format.ts";
import { ksOf, linesOf, MOST_LINES } from "./pass_at.ts";

const LISTED = 100;

export function ByAgent({ taskId }: { taskId: string }) {
  const query = useLive("*", ["task-results", taskId], (signal) => taskResults(taskId, signal));
  return (
    <Section title="By agent and model">
      <Found query={query} what="Loading results">
        {(results) =>
          results.length === 0
            ? (
              <Text size="sm" c="dimmed">
                No rollout yet. “New rollout” asks for one; with several attempts there is a pass@k.
              </Text>
            )
            : <Results results={results} />}
      </Found>
    </Section>
  );
}

function Results({ results }: { results: TaskResults }) {
  const lines = linesOf(results);
  return (
    <>
      <ResultTable results={results.slice(0, LISTED)} />
      {lines.length > 0 && (
        <div>
          <Text size="sm" mt="sm" mb={4}>pass@k: the chance that one of k rollouts solves the task</Text>
          <Chart
            title="pass@k by agent and model"
            lines={lines}
            axis="doubling"
            yRange={[0, 1]}
            formatY={(value) => percent(value, 0)}
          />
          <Legend lines={lines} isCut={results.length > MOST_LINES} />
        </div>
      )}
      {results.length > LISTED && (
        <Text size="sm" c="dimmed" mt="xs">The {LISTED} used last of {number(results.length)} are listed.</Text>
      )}
    </>
  );
}

function Legend({ lines, isCut }: { lines: ReturnType<typeof linesOf>; isCut: boolean }) {
  return (
    <Group gap="4px 14px">
      {lines.map(({ label, color }) => (
        <Text key={label} size="xs" component="span" maw={280} truncate>
          <span aria-hidden style={{ color }}>■</span> {plain(label)}
        </Text>
      ))}
      {isCut && <Text size="xs" c="dimmed">The {MOST_LINES} used last are drawn.</Text>}
    </Group>
  );
}

function ResultTable({ results }: { results: TaskResults }) {
  const ks = ksOf(results);
  return (
    <ScrollTable label="By agent and model" minWidth={480 + 70 * ks.length} maxHeight={360}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Agent and model</Table.Th>
          <Table.Th ta="right">Rollouts</Table.Th>
          <Table.Th>Solved</Table.Th>
          {ks.map((k) => <Table.Th key={k} ta="right" style={{ whiteSpace: "nowrap" }}>pass@{k}</Table.Th>)}
          <Table.Th ta="right">Turns</Table.Th>
          <Table.Th ta="right">Tokens</Table.Th>
          <Table.Th ta="right">Cost</Table.Th>
          <Table.Th>Last</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {results.map((found) => <ResultRow key={JSON.stringify([found.agent, found.model])} found={found} ks={ks} />)}
      </Table.Tbody>
    </ScrollTable>
  );
}

function ResultRow({ found, ks }: { found: TaskResults[number]; ks: number[] }) {
  const tokens = found.input_tokens === null && found.output_tokens === null
    ? null
    : (found.input_tokens ?? 0) + (found.output_tokens ?? 0);
  return (
    <Table.Tr>
      <Table.Td miw={170} maw={240}>
        {/* Models tell apart what one agent did: each has a line of its own. */}
        {[found.model, found.agent ?? "Recorded"].map((name, line) =>
          name !== null && (
            <Text key={line} size={line && found.model !== null ? "xs" : "sm"} truncate title={plain(name)}>
              {plain(name)}
            </Text>
          )
        )}
      </Table.Td>
      <Table.Td ta="right">{number(found.rollouts)}</Table.Td>
      <Table.Td>
        <RateBar rate={found.success_rate} part={found.solved} whole={found.completed} />
      </Table.Td>
      {ks.map((k) => <Table.Td key={k} ta="right">{percent(found.pass_at?.[k], 0)}</Table.Td>)}
      <Table.Td ta="right">{number(found.mean_turns, 3)}</Table.Td>
      <Table.Td ta="right" title={number(tokens)}>{compact(tokens)}</Table.Td>
      <Table.Td ta="right">{found.cost_usd === null ? UNKNOWN : `$${number(found.cost_usd, 3)}`}</Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Ago time={found.last_at} />
      </Table.Td>
    </Table.Tr>
  );
}
