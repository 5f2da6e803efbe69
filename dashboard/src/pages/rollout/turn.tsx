/** One turn of a rollout: what the agent saw, thought, did, called and got. */
import { ActionIcon, Anchor, Badge, Skeleton, Text } from "@mantine/core";
import { IconCode } from "@tabler/icons-react";
import { memo } from "react";
import { Link } from "react-router";
import { readText, type Turn, type TurnReward } from "@/api/rollout.ts";
import { plain } from "@/components/agent_text.tsx";
import { dateTime, duration, number } from "@/view/format.ts";
import { Chat, Generations, Info, ModelResponse } from "./behind.tsx";
import { clock } from "./film.ts";
import { FurtherObservations, Pictures } from "./media.tsx";
import styles from "./page.module.css";
import { LongText, Part } from "./part.tsx";
import type { PartName } from "./shown_parts.tsx";
import { ToolCallPart } from "./tool_call.tsx";

interface Props {
  step: number;
  turn: Turn | undefined;
  /** How high it will be, about, while it is not read yet. */
  height: number;
  isCurrent: boolean;
  hidden: ReadonlySet<PartName>;
  find: string | null;
  address: string;
  videoSeconds: number | null;
  onSelect: (step: number) => void;
  onRaw: (turn: Turn) => void;
}

export const TurnArticle = memo(function TurnArticle(props: Props) {
  const { step, turn, height, isCurrent, address, videoSeconds, onSelect, onRaw } = props;
  return (
    <article
      className={styles.turn}
      aria-label={`Turn ${step}`}
      aria-busy={!turn}
      data-current={isCurrent || undefined}
      data-turn={step}
      tabIndex={-1}
    >
      <header className={styles.turn_head}>
        <Anchor
          component={Link}
          to={address}
          fw={650}
          size="sm"
          onClick={(event) => {
            if (event.metaKey || event.ctrlKey || event.shiftKey) return;
            event.preventDefault();
            onSelect(step);
          }}
        >
          Turn {step}
        </Anchor>
        {videoSeconds !== null && (
          <Anchor
            component="button"
            type="button"
            size="xs"
            title="Show this turn in the video"
            onClick={() => onSelect(step)}
          >
            ▶ {clock(videoSeconds)}
          </Anchor>
        )}
        {turn && <HeadFacts turn={turn} />}
        {turn && (
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            ml="auto"
            aria-label={`Raw JSON of turn ${step}`}
            title={`Raw JSON of turn ${step}`}
            onClick={() => onRaw(turn)}
          >
            <IconCode size={16} />
          </ActionIcon>
        )}
      </header>
      {turn
        ? <TurnBody {...props} turn={turn} />
        : (
          <div className={styles.turn_body} style={{ height: Math.max(24, height - 48) }}>
            <Skeleton height={10} width="70%" animate={false} />
          </div>
        )}
    </article>
  );
});

function HeadFacts({ turn }: { turn: Turn }) {
  const parts = [
    turn.model_duration_ms !== null && `model ${duration(turn.model_duration_ms)}`,
    turn.environment_duration_ms !== null && `environment ${duration(turn.environment_duration_ms)}`,
  ].filter(Boolean);
  return (
    <>
      <Text component="time" size="xs" c="dimmed" dateTime={turn.created_at}>{dateTime(turn.created_at)}</Text>
      {turn.duration_ms !== null && (
        <Text size="xs" c="dimmed" component="span">
          {duration(turn.duration_ms)}
          {parts.length > 0 && ` (${parts.join(", ")})`}
        </Text>
      )}
    </>
  );
}

export const TEXTS = [
  { field: "observation", label: "Observation" },
  { field: "thought", label: "Thought" },
  { field: "action", label: "Action" },
] as const;

function TurnBody({ turn, hidden, find }: Props & { turn: Turn }) {
  const isEmpty = TEXTS.every(({ field }) => !turn[field]) && !turn.tool_calls.length && !turn.media.length &&
    !turn.observations.length && !turn.rewards.length;
  return (
    <div className={styles.turn_body}>
      {isEmpty && <Text size="sm" c="dimmed">Nothing was recorded in this turn.</Text>}
      {TEXTS.map(({ field, label }) =>
        hidden.has(field) || turn[field] === null ? null : (
          <Part key={field} label={label} kind={field} field={field}>
            <LongText
              name={`${turn.id}:${field}`}
              label={label}
              text={turn[field]}
              chars={turn[`${field}_chars`]}
              find={find}
              readAll={() => readText(turn.id, field)}
            />
          </Part>
        )
      )}
      {!hidden.has("observation") && (
        <>
          <FurtherObservations turn={turn} find={find} />
          <Pictures media={turn.media} of={`turn ${turn.step_number}`} />
        </>
      )}
      {!hidden.has("tools") && turn.tool_calls.map((call) => <ToolCallPart key={call.id} call={call} find={find} />)}
      {!hidden.has("rewards") && turn.rewards.length > 0 && <Rewards rewards={turn.rewards} />}
      {turn.memory_summary && (
        <Part label="Memory" field="memory_summary">
          <LongText
            name={`${turn.id}:memory`}
            label="Memory"
            text={turn.memory_summary}
            chars={turn.memory_summary_chars}
            find={find}
            readAll={() => readText(turn.id, "memory_summary")}
          />
        </Part>
      )}
      <Behind turn={turn} />
    </div>
  );
}

function Behind({ turn }: { turn: Turn }) {
  if (!turn.has_messages && !turn.has_model_response && !turn.generations.length && !hasInfo(turn)) return null;
  return (
    <Part label="More">
      {turn.generations.length > 0 && <Generations turn={turn} />}
      {turn.has_messages && <Chat turn={turn} />}
      {turn.has_model_response && <ModelResponse turn={turn} />}
      {hasInfo(turn) && <Info turn={turn} />}
    </Part>
  );
}

function hasInfo({ info }: Turn): boolean {
  return info !== null && JSON.stringify(info) !== "{}";
}

function Rewards({ rewards }: { rewards: TurnReward[] }) {
  return (
    <Part label={rewards.length > 1 ? "Rewards" : "Reward"} kind="reward">
      {rewards.map(({ reward_type, reward, details }) => (
        <Badge
          key={reward_type}
          variant="default"
          mr={6}
          title={details === null ? undefined : plain(JSON.stringify(details)).slice(0, 500)}
        >
          {plain(reward_type)} {number(reward)}
        </Badge>
      ))}
    </Part>
  );
}
