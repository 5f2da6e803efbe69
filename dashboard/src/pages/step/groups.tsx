/** The groups of a step: which of them taught something. */
import { Anchor, Badge, Group, Pagination, SegmentedControl, Select, Table, Text, Tooltip } from "@mantine/core";
import { useMemo } from "react";
import { Link } from "react-router";
import {
  GROUP_SORTS,
  type GroupKind,
  type GroupReward,
  GROUPS_PAGE,
  groupsOfStep,
  type GroupSort,
  isFlat,
  rewardsOf,
  type StepGroup,
} from "@/api/groups.ts";
import { plain } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { number } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { RewardStrip, type Scale, scaleOf } from "./strip.tsx";
import styles from "./page.module.css";

const SORT_LABELS: Record<GroupSort, string> = {
  number: "Number",
  mean_high: "Highest mean reward",
  mean_low: "Lowest mean reward",
  std_high: "Most spread",
  std_low: "Least spread",
};
const KINDS: { value: GroupKind; label: string }[] = [
  { value: "all", label: "All" },
  { value: "mixed", label: "Mixed only" },
  { value: "flat", label: "Flat only" },
];

export function StepGroups({ runId, stepId }: { runId: string; stepId: string }) {
  const [view, change] = useView({ page: 1, sort: "number", groups: "all" });
  const page = Math.max(1, Math.trunc(view.page));
  const sort = GROUP_SORTS.find((known) => known === view.sort) ?? "number";
  const only = KINDS.find((kind) => kind.value === view.groups)?.value ?? "all";
  const query = useLive(
    runId,
    ["step-groups", stepId, page, sort, only],
    async (signal) => {
      const found = await groupsOfStep(stepId, { page, sort, only }, signal);
      return { ...found, rewards: await rewardsOf(found.groups, signal) };
    },
    { keep: true },
  );
  const count = query.data?.count ?? 0;
  const aside = (
    <>
      <SegmentedControl
        size="xs"
        aria-label="Which groups"
        data={KINDS}
        value={only}
        onChange={(groups) => change({ groups, page: 1 })}
      />
      <Select
        size="xs"
        w={180}
        aria-label="Sort groups by"
        allowDeselect={false}
        data={GROUP_SORTS.map((value) => ({ value, label: SORT_LABELS[value] }))}
        value={sort}
        onChange={(value) => change({ sort: value ?? "number", page: 1 })}
      />
    </>
  );
  return (
    <Section title="Groups" aside={aside}>
      <Found query={query} what="Reading the groups">
        {({ groups, rewards }) =>
          groups.length ? <GroupTable groups={groups} rewards={rewards} /> : <NoGroups only={only} page={page} />}
      </Found>
      <Group justify="space-between" mt="xs">
        {query.data && <Text size="sm" c="dimmed">{number(count)} {count === 1 ? "group" : "groups"}</Text>}
        {count > GROUPS_PAGE && (
          <Pagination
            size="sm"
            total={Math.ceil(count / GROUPS_PAGE)}
            value={page}
            onChange={(next) => change({ page: next })}
            getControlProps={(control) => ({ "aria-label": `${control} page` })}
            getItemProps={(item) => ({ "aria-label": `Page ${item}` })}
          />
        )}
      </Group>
    </Section>
  );
}

function NoGroups({ only, page }: { only: GroupKind; page: number }) {
  const text = page > 1
    ? "This page is beyond the last one."
    : only === "flat"
    ? "No group is flat: in each, rewards differ."
    : only === "mixed"
    ? "In no group do rewards differ."
    : "This step has no groups.";
  return <Text c="dimmed" size="sm">{text}</Text>;
}

function GroupTable({ groups, rewards }: { groups: StepGroup[]; rewards: Map<string, GroupReward[]> }) {
  const scale = useMemo(() => scaleOf([...rewards.values()].flat().map((one) => one.total_reward)), [rewards]);
  return (
    <div className={styles.scroller} role="region" aria-label="Groups of this step" tabIndex={0}>
      <Table className={styles.table} highlightOnHover verticalSpacing={5} horizontalSpacing={8}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Group</Table.Th>
            <Table.Th w="40%">Prompt</Table.Th>
            <Table.Th ta="right">Solved</Table.Th>
            <Table.Th ta="right">Reward</Table.Th>
            <Table.Th>Each rollout</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {groups.map((group) => (
            <GroupRow key={group.id} group={group} rewards={rewards.get(group.id) ?? []} scale={scale} />
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

function GroupRow({ group, rewards, scale }: { group: StepGroup; rewards: GroupReward[]; scale: Scale }) {
  return (
    <Table.Tr>
      <Table.Td>
        <Anchor component={Link} to={`/groups/${group.id}`} size="sm">{`#${group.number}`}</Anchor>
      </Table.Td>
      <Table.Td className={styles.prompt}>
        <Text size="sm" lineClamp={2}>
          {group.task_description
            ? plain(group.task_description.slice(0, 400))
            : <Text span c="dimmed">no prompt</Text>}
        </Text>
      </Table.Td>
      <Table.Td ta="right" className={styles.short}>
        {number(group.success_count)} of {number(group.rollout_count)}
      </Table.Td>
      <Table.Td ta="right" className={styles.short}>
        {number(group.reward_mean, 3)}
        <Text span size="sm" c="dimmed">{` ± ${number(group.reward_std, 3)}`}</Text>
      </Table.Td>
      <Table.Td>
        <Group gap="xs">
          <div className={styles.strip}>
            <RewardStrip rewards={rewards} scale={scale} />
          </div>
          {isFlat(group) && <NoVariance />}
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}

export function NoVariance() {
  return (
    <Tooltip label="No learning signal: every rollout got the same reward." multiline w={240}>
      <Badge variant="outline" color="gray" tabIndex={0} style={{ color: "var(--om-warn)" }}>no variance</Badge>
    </Tooltip>
  );
}
