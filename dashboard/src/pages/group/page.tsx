/** A group: rollouts of one task, compared with each other. */
import { Group, Select, Stack, Text } from "@mantine/core";
import { useCallback, useMemo } from "react";
import { Link, useParams } from "react-router";
import { compareGroup, type GroupComparison } from "@/api/groups.ts";
import { AgentText, plain } from "@/components/agent_text.tsx";
import { type Crumb, Figure, PageHead, Section } from "@/components/page.tsx";
import { Found, NotFound } from "@/components/states.tsx";
import { queryClient, useLive } from "@/live/query.ts";
import { CompareBar, useSelection } from "@/pages/rollouts/compare_bar.tsx";
import { NoVariance } from "@/pages/step/groups.tsx";
import { isId } from "@/pages/rollouts/view.ts";
import { number, percent, share, shortId } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { RewardBars } from "./bars.tsx";
import { Columns } from "./columns.tsx";
import { type Order, ordered, ORDERS } from "./order.ts";
import { Parting } from "./parting.tsx";

const FIRST_CHARS = 1_500;

export default function GroupPage() {
  const { groupId = "" } = useParams();
  return isId(groupId) ? <OneGroup key={groupId} groupId={groupId} /> : <NotFound />;
}

function OneGroup({ groupId }: { groupId: string }) {
  const key = ["group", groupId];
  // Which run to listen to is known once the group was read.
  const known = queryClient.getQueryData<GroupComparison>(key);
  const query = useLive(known ? known.group.training_run_id : "*", key, (signal) => compareGroup(groupId, signal));
  return (
    <>
      <PageHead title={query.data ? `Group #${query.data.group.number}` : "Group"} crumbs={crumbsOf(query.data)} />
      <Found query={query} what="Reading the group">{(comparison) => <Compared comparison={comparison} />}</Found>
    </>
  );
}

function crumbsOf(comparison: GroupComparison | undefined): Crumb[] {
  const run = comparison?.group.training_run_id;
  const crumbs = [{ label: "Runs", to: "/runs" }];
  if (!comparison || !run) return crumbs;
  const { step } = comparison.group;
  crumbs.push({ label: plain(comparison.rollouts[0]?.run_name ?? `Run ${shortId(run)}`), to: `/runs/${run}` });
  if (step !== null) crumbs.push({ label: `Step ${number(step)}`, to: `/runs/${run}/steps/${step}` });
  return crumbs;
}

function Compared({ comparison }: { comparison: GroupComparison }) {
  const [view, change] = useView({ sort: "recorded", selected: [] as string[] });
  const hold = useCallback((chosen: string[]) => change({ selected: chosen }), [change]);
  const [selected, select, toggle] = useSelection(view.selected, hold);
  const order = (view.sort in ORDERS ? view.sort : "recorded") as Order;
  const rollouts = useMemo(() => ordered(comparison.rollouts, order), [comparison.rollouts, order]);
  const show = (id: string) =>
    document.getElementById(`column-${id}`)?.scrollIntoView({ inline: "center", block: "nearest" });
  const sort = (
    <Select
      size="xs"
      w={160}
      aria-label="Order of the rollouts"
      allowDeselect={false}
      data={Object.entries(ORDERS).map(([value, label]) => ({ value, label }))}
      value={order}
      onChange={(value) => change({ sort: value ?? "recorded" })}
    />
  );
  return (
    <Stack gap="md">
      <GroupFigures comparison={comparison} />
      <Prompt comparison={comparison} />
      {rollouts.length === 0
        ? <Text c="dimmed" size="sm">No rollout of this group is recorded yet; they appear here by themselves.</Text>
        : (
          <>
            <Section title="Rollouts" aside={sort}>
              <Stack gap="sm">
                <RewardBars rollouts={rollouts} show={show} />
                <Columns
                  rollouts={rollouts}
                  turn={comparison.parts_at}
                  selected={selected}
                  onSelect={toggle}
                />
                <Unshown comparison={comparison} />
              </Stack>
            </Section>
            <Parting rollouts={comparison.rollouts} turn={comparison.parts_at} />
          </>
        )}
      <CompareBar selected={selected} clear={() => select([])} />
    </Stack>
  );
}

function GroupFigures({ comparison: { group, no_variance } }: { comparison: GroupComparison }) {
  return (
    <>
      <div className="om-tiles">
        <Figure
          label="Rollouts"
          value={number(group.rollout_count)}
          hint={`${number(group.completed_count)} completed`}
        />
        <Figure
          label="Solved"
          value={number(group.success_count)}
          hint={percent(share(group.success_count, group.completed_count))}
        />
        <Figure label="Mean reward" value={number(group.reward_mean)} hint={`± ${number(group.reward_std)}`} />
        <Figure
          label="Part of"
          value={group.evaluation_id ? "Evaluation" : "Training"}
          hint={group.step === null ? undefined : `at step ${number(group.step)}`}
        />
      </div>
      {no_variance && (
        <Group gap="xs">
          <NoVariance />
          <Text size="sm">
            {group.evaluation_id
              ? "Every rollout got the same reward."
              : "No learning signal: every rollout got the same reward, so each advantage is nought."}
          </Text>
        </Group>
      )}
    </>
  );
}

function Prompt({ comparison: { group, rollouts } }: { comparison: GroupComparison }) {
  const text = group.task_description ?? rollouts[0]?.task_description ?? null;
  return (
    <Section title="Prompt" aside={group.task_id && <Link to={`/tasks/${group.task_id}`}>To the task</Link>}>
      {text === null ? <Text c="dimmed" size="sm">None is recorded.</Text> : (
        <AgentText
          text={text.slice(0, FIRST_CHARS)}
          chars={text.length}
          readAll={() => Promise.resolve(text)}
          label="Prompt"
        />
      )}
    </Section>
  );
}

/** Very large groups are not shown whole. */
function Unshown({ comparison: { group, rollouts } }: { comparison: GroupComparison }) {
  const missing = group.rollout_count - rollouts.length;
  if (missing <= 0) return null;
  return (
    <Text size="sm" c="dimmed">
      The first {number(rollouts.length)} of {number(group.rollout_count)} are shown.{" "}
      <Link to={`/rollouts?group=${group.id}`}>All rollouts of the group</Link>
    </Text>
  );
}
