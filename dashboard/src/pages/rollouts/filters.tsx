/** What to find: the filters in use most at once, the others behind a button. */
import { Button, Checkbox, Group, MultiSelect, Pill, Select, Text } from "@mantine/core";
import { IconFilter, IconSearch } from "@tabler/icons-react";
import { useState } from "react";
import { environmentNames, taskName } from "@/api/rollouts.ts";
import { plain } from "@/components/agent_text.tsx";
import { ROLLOUT_SOURCES, ROLLOUT_STATUSES } from "@/database.ts";
import { useLive } from "@/live/query.ts";
import { RangeFilter, RunFilter, TextFilter, TimeFilter } from "./inputs.tsx";
import { type Change, CLEARED, countSet, MORE, sortOf, type View } from "./view.ts";
import styles from "./page.module.css";

const SORT_LABELS = { newest: "Newest", oldest: "Oldest", reward_high: "Highest reward", reward_low: "Lowest reward" };

export function Filters({ view, change }: { view: View; change: Change }) {
  const hidden = countSet(view, MORE);
  // On a phone they would push what was found out of sight.
  const [isOpen, setIsOpen] = useState(hidden > 0 && innerWidth >= 768);
  return (
    <search aria-label="Find rollouts" className={styles.filters}>
      <Group gap="xs" align="flex-end">
        <TextFilter
          label="Text in turns"
          value={view.text}
          apply={(text) => change({ text })}
          placeholder="In observations, actions, thoughts, tool calls…"
          icon={<IconSearch size={14} aria-hidden />}
          grow
        />
        <RunFilter value={view.run} apply={(run) => change({ run })} />
        <Several label="Status" all={ROLLOUT_STATUSES} chosen={view.status} apply={(status) => change({ status })} />
        <SortFilter view={view} change={change} />
        <Button
          size="xs"
          variant="default"
          leftSection={<IconFilter size={14} aria-hidden />}
          aria-expanded={isOpen}
          onClick={() => setIsOpen(!isOpen)}
        >
          {hidden ? `More filters (${hidden})` : "More filters"}
        </Button>
        {countSet(view) > 0 && (
          <Button size="xs" variant="subtle" onClick={() => change(CLEARED)}>
            Clear filters
          </Button>
        )}
      </Group>
      <Chips view={view} change={change} />
      {isOpen && <MoreFilters view={view} change={change} />}
    </search>
  );
}

function SortFilter({ view, change }: { view: View; change: Change }) {
  return (
    <Select
      label="Sort"
      size="xs"
      w={150}
      allowDeselect={false}
      value={sortOf(view)}
      data={Object.entries(SORT_LABELS).map(([value, label]) => ({
        value,
        label: view.run === null && value.startsWith("reward") ? `${label} (choose a run)` : label,
        disabled: view.run === null && value.startsWith("reward"),
      }))}
      comboboxProps={{ width: 220, position: "bottom-start" }}
      onChange={(sort) => change({ sort: sort ?? "newest" })}
    />
  );
}

function Several({ label, all, chosen, apply }: {
  label: string;
  all: readonly string[];
  chosen: string[];
  apply: (chosen: string[]) => void;
}) {
  return (
    <MultiSelect
      label={label}
      size="xs"
      style={{ flex: "1 1 150px", maxWidth: 320 }}
      placeholder={chosen.length ? undefined : "Any"}
      data={[...all]}
      value={chosen}
      onChange={apply}
      clearable
      clearButtonProps={{ "aria-label": `Any ${label.toLowerCase()}` }}
      maxDropdownHeight={340}
    />
  );
}

function MoreFilters({ view, change }: { view: View; change: Change }) {
  const environments = useLive("*", ["environment-names"], environmentNames, { keep: true });
  return (
    <Group gap="sm" align="flex-end" mt="xs">
      <TextFilter label="Tool" value={view.tool} apply={(tool) => change({ tool })} placeholder="Name of a tool" />
      <Checkbox
        size="xs"
        mb={6}
        label="Tool failed"
        checked={view.tool_failed}
        onChange={(event) => change({ tool_failed: event.currentTarget.checked })}
      />
      <TextFilter
        label="Environment"
        value={view.env}
        apply={(env) => change({ env })}
        placeholder="Any"
        list={environments.data ?? []}
      />
      <Several label="Source" all={ROLLOUT_SOURCES} chosen={view.source} apply={(source) => change({ source })} />
      <TextFilter label="Model" value={view.model} apply={(model) => change({ model })} placeholder="Whole name" />
      <RangeFilter
        label="Reward"
        from={view.reward_from}
        to={view.reward_to}
        apply={({ from = view.reward_from, to = view.reward_to }) => change({ reward_from: from, reward_to: to })}
      />
      <RangeFilter
        label="Turns"
        isWhole
        from={view.turns_from}
        to={view.turns_to}
        apply={({ from = view.turns_from, to = view.turns_to }) => change({ turns_from: from, turns_to: to })}
      />
      <RangeFilter
        label="Step"
        isWhole
        from={view.step_from}
        to={view.step_to}
        apply={({ from = view.step_from, to = view.step_to }) => change({ step_from: from, step_to: to })}
      />
      <TimeFilter label="Created from" value={view.from} apply={(from) => change({ from })} />
      <TimeFilter label="Created to" value={view.to} apply={(to) => change({ to })} />
    </Group>
  );
}

/** Filters that one arrives with, and can only take away. */
function Chips({ view, change }: { view: View; change: Change }) {
  const task = useLive("*", ["task-name", view.task], (signal) => taskName(view.task!, signal), {
    enabled: view.task !== null,
  });
  if (view.task === null && view.group === null) return null;
  const name = task.data ? plain(task.data) : view.task?.slice(-8);
  return (
    <Group gap="xs" mt="xs">
      {view.task !== null && <Chip text={`Task: ${name}`} what="task" remove={() => change({ task: null })} />}
      {view.group !== null && (
        <Chip
          text={`Group ${view.group.slice(-8)}`}
          what="group"
          remove={() => change({ group: null })}
        />
      )}
    </Group>
  );
}

function Chip({ text, what, remove }: { text: string; what: string; remove: () => void }) {
  return (
    <Pill
      size="md"
      withRemoveButton
      onRemove={remove}
      removeButtonProps={{ "aria-label": `Any ${what}`, tabIndex: 0, "aria-hidden": false }}
    >
      <Text span size="xs" truncate maw={300} display="inline-block" style={{ verticalAlign: "middle" }}>{text}</Text>
    </Pill>
  );
}
