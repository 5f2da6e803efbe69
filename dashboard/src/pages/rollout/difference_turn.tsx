/** The same turn of two rollouts, next to each other. */
import { Anchor, Badge, Group, Text } from "@mantine/core";
import { memo } from "react";
import { Link } from "react-router";
import { readText, readToolInput, readToolOutput, type ToolCall, type Turn } from "@/api/rollout.ts";
import { plain } from "@/components/agent_text.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { number } from "@/view/format.ts";
import styles from "./page.module.css";
import { type CutText, TextPair } from "./text_pair.tsx";
import { inputText } from "./tool_call.tsx";
import { TEXTS } from "./turn.tsx";

interface Props {
  step: number;
  isSame: boolean;
  /** The rollouts' ids. */
  ids: readonly [string, string];
  /** null: the rollout has no such turn; undefined: it is being read. */
  turns: readonly [Turn | null | undefined, Turn | null | undefined];
}

export const DifferenceTurn = memo(function DifferenceTurn({ step, isSame, ids, turns }: Props) {
  const isRead = turns.every((turn) => turn !== undefined);
  return (
    <article className={styles.turn} aria-label={`Turn ${step}`} aria-busy={!isRead} data-turn={step} tabIndex={-1}>
      <header className={styles.turn_head}>
        <Text fw={650} size="sm" component="span">Turn {step}</Text>
        <Badge variant="default" size="sm">{isSame ? "the same" : "differs"}</Badge>
        {ids.map((id, side) =>
          turns[side] && (
            <Anchor key={id} component={Link} size="xs" to={`/rollouts/${id}?turn=${step}`}>
              open in {side ? "the second" : "the first"}
            </Anchor>
          )
        )}
      </header>
      <div className={styles.turn_body} style={isRead ? undefined : { minHeight: 160 }}>
        {isRead && <Sides one={turns[0] ?? null} other={turns[1] ?? null} />}
      </div>
    </article>
  );
});

function Sides({ one, other }: { one: Turn | null; other: Turn | null }) {
  if (!one || !other) {
    return (
      <div className={styles.pair}>
        {[one, other].map((turn, side) => (
          <div key={side}>{turn ? <Alone turn={turn} /> : <Text size="sm" c="dimmed">It has no such turn.</Text>}</div>
        ))}
      </div>
    );
  }
  const calls = Math.max(one.tool_calls.length, other.tool_calls.length);
  return (
    <>
      {TEXTS.map(({ field, label }) => (
        <TextPair key={field} label={label} one={textOf(one, field)} other={textOf(other, field)} />
      ))}
      {Array.from(
        { length: calls },
        (_, index) => <CallPair key={index} one={one.tool_calls[index]} other={other.tool_calls[index]} />,
      )}
      <RewardPair one={one} other={other} />
    </>
  );
}

function Alone({ turn }: { turn: Turn }) {
  return (
    <>
      {TEXTS.map(({ field, label }) =>
        turn[field] === null ? null : (
          <div key={field}>
            <Text size="xs" c="dimmed">{label}</Text>
            <pre className="om-agent-text">{plain(turn[field])}</pre>
          </div>
        )
      )}
      {turn.tool_calls.map((call) => (
        <div key={call.id}>
          <CallName call={call} />
          <pre className="om-agent-text">{plain(inputText(call))}</pre>
          <pre className="om-agent-text">{plain(call.tool_output ?? "")}</pre>
        </div>
      ))}
    </>
  );
}

function textOf(turn: Turn, field: typeof TEXTS[number]["field"]): CutText | null {
  const text = turn[field];
  return text === null ? null : { text, chars: turn[`${field}_chars`], readAll: () => readText(turn.id, field) };
}

function inputOf(call: ToolCall | undefined): CutText | null {
  if (!call || call.tool_input === null) return null;
  const chars = call.tool_input_cut ? call.tool_input_chars : null;
  return { text: inputText(call), chars, readAll: () => readToolInput(call.id) };
}

function outputOf(call: ToolCall | undefined): CutText | null {
  if (!call || call.tool_output === null) return null;
  return { text: call.tool_output, chars: call.tool_output_chars, readAll: () => readToolOutput(call.id) };
}

function errorOf(call: ToolCall | undefined): CutText | null {
  return call?.error_message ? { text: call.error_message, chars: null, readAll: null } : null;
}

function CallName({ call }: { call: ToolCall | undefined }) {
  if (!call) return <Text size="sm" c="dimmed">No tool call</Text>;
  return (
    <Group gap="xs">
      <Text size="sm" fw={650} className="om-mono" component="span">{plain(call.tool_name)}</Text>
      {call.success !== null && <StatusBadge status={call.success ? "success" : "failed"} />}
    </Group>
  );
}

function CallPair({ one, other }: { one: ToolCall | undefined; other: ToolCall | undefined }) {
  return (
    <div>
      <div className={styles.pair}>
        <CallName call={one} />
        <CallName call={other} />
      </div>
      <TextPair label="Tool input" one={inputOf(one)} other={inputOf(other)} />
      <TextPair label="Tool output" one={outputOf(one)} other={outputOf(other)} />
      <TextPair label="Tool error" one={errorOf(one)} other={errorOf(other)} />
    </div>
  );
}

function RewardPair({ one, other }: { one: Turn; other: Turn }) {
  if (!one.rewards.length && !other.rewards.length) return null;
  return (
    <div>
      <Text size="xs" c="dimmed">Rewards</Text>
      <div className={styles.pair}>
        {[one, other].map((turn, side) => (
          <div key={side}>
            {turn.rewards.map(({ reward_type, reward }) => (
              <Badge key={reward_type} variant="default" mr={6}>{plain(reward_type)} {number(reward)}</Badge>
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}
