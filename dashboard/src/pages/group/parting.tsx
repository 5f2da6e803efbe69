/** Where the rollouts of a group part: the ways they went, and what came of each. */
import { Anchor, Group, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import type { ComparedRollout } from "@/api/groups.ts";
import { AgentText } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { number } from "@/view/format.ts";
import { type Way, waysOf } from "./order.ts";
import styles from "./page.module.css";

const FEW_WAYS = 12;
const FEW_LINKS = 24;

export function Parting({ rollouts, turn }: { rollouts: ComparedRollout[]; turn: number | null }) {
  const ways = useMemo(() => waysOf(rollouts), [rollouts]);
  const [isWhole, setIsWhole] = useState(false);
  if (turn === null) {
    return (
      <Section title="Where they part">
        <Text size="sm" c="dimmed">
          {rollouts.length < 2 ? "One rollout has nothing to part from." : "So far, all saw and did the same."}
        </Text>
      </Section>
    );
  }
  const isSeenApart = new Set(ways.filter((way) => !way.isEnd).map((way) => way.observation)).size > 1;
  const shown = isWhole ? ways : ways.slice(0, FEW_WAYS);
  return (
    <Section title={`Where they part: turn ${turn}`}>
      <Text size="sm" c="dimmed" mb="xs">
        {number(ways.length)} ways;{" "}
        {isSeenApart ? "what they observed differs already." : "all observed the same, and acted differently."}
      </Text>
      <div className={styles.ways} role="region" aria-label={`Ways at turn ${turn}`} tabIndex={0}>
        {shown.map((way) => (
          <OneWay key={way.key} way={way} turn={turn} all={rollouts.length} isSeenApart={isSeenApart} />
        ))}
      </div>
      {shown.length < ways.length && (
        <Anchor
          component="button"
          type="button"
          size="sm"
          mt="xs"
          onClick={() => setIsWhole(true)}
        >
          Show all {number(ways.length)} ways
        </Anchor>
      )}
    </Section>
  );
}

function OneWay({ way, turn, all, isSeenApart }: { way: Way; turn: number; all: number; isSeenApart: boolean }) {
  const count = way.rollouts.length;
  return (
    <article className="om-tile" aria-label={`${count} of ${all} rollouts`}>
      <Text size="sm" fw={600}>
        {number(count)} of {number(all)}, mean reward {number(way.meanReward, 3)}
      </Text>
      {way.isEnd && <Text size="sm" c="dimmed">No such turn: they ended before, or are not there yet.</Text>}
      {isSeenApart && <Cut label="Observation" text={way.observation} />}
      <Cut label={count > 1 ? "Thought of the first" : "Thought"} text={way.thought} />
      <Cut label="Action" text={way.action} />
      <Links way={way} turn={turn} />
    </article>
  );
}

function Cut({ label, text }: { label: string; text: string | null }) {
  if (!text) return null;
  return (
    <div className={styles.cut}>
      <Text size="xs" c="dimmed">{label}</Text>
      <AgentText text={text} label={label} />
    </div>
  );
}

function Links({ way, turn }: { way: Way; turn: number }) {
  const [isWhole, setIsWhole] = useState(false);
  const shown = isWhole ? way.rollouts : way.rollouts.slice(0, FEW_LINKS);
  return (
    <Group gap={8} mt={6}>
      <Text size="xs" c="dimmed">By reward:</Text>
      {shown.map((rollout) => (
        <Anchor
          key={rollout.id}
          component={Link}
          to={`/rollouts/${rollout.id}?turn=${turn}`}
          size="xs"
          aria-label={`${number(rollout.total_reward, 3)}: turn ${turn} of that rollout`}
        >
          {number(rollout.total_reward, 3)}
        </Anchor>
      ))}
      {shown.length < way.rollouts.length && (
        <Anchor
          component="button"
          type="button"
          size="xs"
          onClick={() => setIsWhole(true)}
        >
          {number(way.rollouts.length - shown.length)} more
        </Anchor>
      )}
    </Group>
  );
}
